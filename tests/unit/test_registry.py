"""The registry: names, duplicates, what is listed, what is missing."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from listing_plugins import Formats, Solvers, record, solver

from berthage.errors import PluginError, UnknownNameError
from berthage.registry import (
    CommandInfo,
    CostModelInfo,
    FormatInfo,
    FrontEndInfo,
    ReductionInfo,
    Registry,
    SeederInfo,
    hookimpl,
)
from berthage.registry.sources import PluginSource


def test_a_solver_is_found_by_name_and_alias_and_made_afresh() -> None:
    registry = Registry({"mine": Solvers(solver("greedy", aliases=("g",)))})
    assert registry.solver("greedy") is registry.solver("g")
    assert registry.solver("g").name == "greedy"
    made = registry.create_solver("g")
    assert made == {}
    assert made is not registry.create_solver("greedy")


def test_solvers_are_listed_by_name_whatever_the_order_of_plugins() -> None:
    one, two = Solvers(solver("b"), solver("d")), Solvers(solver("c"), solver("a"))
    listed = [[i.name for i in Registry(given).solvers] for given in ([one, two], {"x": two, "w": one})]
    assert listed == [["a", "b", "c", "d"]] * 2


def test_core_registers_its_own_parts_like_a_plugin() -> None:
    registry = Registry()
    assert [f.name for f in registry.formats] == ["berthage"]
    assert record(registry, "berthage").provides["format"] == ("berthage",)
    assert Registry(builtins=False).formats == ()


def test_an_unknown_solver_is_answered_with_near_misses_and_what_is_installed() -> None:
    registry = Registry({"mine": Solvers(solver("greedy"), solver("other"))})
    with pytest.raises(UnknownNameError, match=r"'greedi'; did you mean 'greedy'\?; installed: greedy, other"):
        registry.solver("greedi")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("trws", "comes with berthage-trws: pip install ./plugins/trws .*not published yet"),
        ("ILP_PULP", "comes with berthage-ilp: pip install ./plugins/ilp"),
        ("ilp-pulpp", r"'ilp-pulp' \(of berthage-ilp, not installed: pip install ./plugins/ilp"),
    ],
)
def test_an_unknown_solver_of_ours_is_answered_with_what_to_install(name: str, answer: str) -> None:
    with pytest.raises(UnknownNameError, match=answer):
        Registry().solver(name)


def test_an_unknown_name_mentions_plugins_that_failed() -> None:
    def fail() -> object:
        raise ModuleNotFoundError("No module named 'numbat'")

    registry = Registry([PluginSource("trws", fail, "berthage-trws", "1.0")])
    with pytest.raises(UnknownNameError, match=r"plugin 'trws' is unavailable: ModuleNotFoundError.*numbat"):
        registry.solver("trws")


def test_a_duplicate_name_is_an_error_that_names_both_plugins_and_spares_the_rest() -> None:
    registry = Registry({"one": Solvers(solver("same"), solver("fine")), "two": Solvers(solver("same"))})
    assert registry.create_solver("fine") == {}
    for use in (registry.solver, registry.create_solver):
        with pytest.raises(PluginError, match=r"'same' is claimed by 'one' and by 'two'"):
            use("same")
    assert [(c.kind, c.name, c.plugins) for c in registry.conflicts] == [("solver", "same", ("'one'", "'two'"))]


def test_an_alias_that_is_another_solvers_name_is_a_conflict_of_that_name_alone() -> None:
    registry = Registry({"one": Solvers(solver("long-name", aliases=("short",))), "two": Solvers(solver("short"))})
    assert registry.solver("long-name").aliases == ("short",)
    with pytest.raises(PluginError, match="'short' is claimed by 'one' and by 'two'"):
        registry.solver("short")


@pytest.mark.parametrize(
    ("hook", "description", "made"),
    [
        ("berthage_commands", CommandInfo("solve", "Another's.", "collections:OrderedDict"), "load_command"),
        ("berthage_formats", FormatInfo("berthage", "Another's.", "collections:OrderedDict"), "create_format"),
    ],
)
def test_a_stranger_cannot_take_a_name_of_cores_own(hook: str, description: Any, made: str) -> None:
    stranger = types.ModuleType("stranger")
    setattr(stranger, hook, hookimpl(lambda: [description], specname=hook))
    registry = Registry([PluginSource("mine", lambda: stranger, "berthage-mine", "1")])
    listed = [*registry.commands, *registry.formats]
    assert [registry.plugin_of(i).name for i in listed if i.name == description.name] == ["berthage"]
    assert type(getattr(registry, made)(description.name)).__name__ != "OrderedDict"
    (conflict,) = registry.conflicts
    assert conflict.name == description.name
    assert conflict.used == conflict.plugins[0]
    assert conflict.used.startswith("'berthage' (berthage")
    assert conflict.plugins[1] == "'mine' (berthage-mine 1)"
    assert "is claimed by 'berthage'" in str(conflict)
    assert str(conflict).endswith(f"it stays that of {conflict.used}")


def test_two_strangers_cannot_settle_a_name_that_core_does_not_have() -> None:
    registry = Registry({"one": Solvers(solver("solve")), "two": Solvers(solver("solve"))})
    assert [c.used for c in registry.conflicts] == [None]
    with pytest.raises(PluginError, match="'one' and by 'two'; uninstall one"):
        registry.solver("solve")
    assert registry.command("solve")  # kinds have names of their own


def test_a_stranger_cannot_take_the_ending_of_cores_format() -> None:
    greedy = Formats(FormatInfo("mine", "", "a:b", extensions=(".berthage",), writes=True))
    for writing in (False, True):
        assert Registry([greedy]).format_for("x.berthage", writing=writing).name == "berthage"


def test_what_the_distribution_tells_fills_in_version_and_install() -> None:
    plugin = Solvers(solver("plain"), solver("own", version="9", install="conda install own"))
    registry = Registry([PluginSource("mine", lambda: plugin, "berthage-mine", "2.1")])
    plain, own = registry.solver("plain"), registry.solver("own")
    assert (plain.version, plain.install) == ("2.1", "pip install berthage-mine")
    assert (own.version, own.install) == ("9", "conda install own")


def test_a_solver_whose_library_is_missing_is_listed_as_unavailable_with_what_to_install() -> None:
    info = solver("heavy", requires=("json", "no_such_library"), install="pip install heavy")
    registry = Registry({"mine": Solvers(info)})
    assert registry.missing(registry.solver("heavy")) == ("no_such_library",)
    assert registry.unavailable_reason(registry.solver("heavy")) == (
        "no_such_library is not installed: pip install heavy"
    )
    with pytest.raises(PluginError, match="'heavy' of plugin 'mine' is unavailable: no_such_library"):
        registry.create_solver("heavy")


def test_asking_what_is_missing_imports_nothing() -> None:
    name = "wave" if "wave" not in sys.modules else "sndhdr"
    registry = Registry({"mine": Solvers(solver("heavy", requires=(f"{name}.sub",)))})
    assert registry.missing(registry.solver("heavy")) == ()
    assert name not in sys.modules


def test_every_kind_has_listing_lookup_and_creation() -> None:
    class Everything:
        @hookimpl
        def berthage_reductions(self) -> list[ReductionInfo]:
            late = ReductionInfo("a-late", "", "collections:OrderedDict", order=20)
            return [late, ReductionInfo("b-early", "", "collections:OrderedDict", order=10)]

        @hookimpl
        def berthage_seeders(self) -> list[SeederInfo]:
            return [SeederInfo("seed", "", "collections:OrderedDict")]

        @hookimpl
        def berthage_cost_models(self) -> list[CostModelInfo]:
            return [CostModelInfo("model", "", "collections:OrderedDict")]

        @hookimpl
        def berthage_front_ends(self) -> list[FrontEndInfo]:
            return [FrontEndInfo("front", "", "collections:OrderedDict")]

        @hookimpl
        def berthage_commands(self) -> list[CommandInfo]:
            return [CommandInfo("command", "", "collections:OrderedDict")]

    registry = Registry({"all": Everything()})
    assert [r.name for r in registry.reductions] == ["b-early", "a-late"]
    assert registry.create_reduction("a-late") == registry.create_seeder("seed") == {}
    assert registry.create_cost_model("model") == registry.create_front_end("front") == {}
    assert registry.seeders == (registry.seeder("seed"),)
    assert registry.cost_models == (registry.cost_model("model"),)
    assert registry.front_ends == (registry.front_end("front"),)
    assert registry.command("command") in registry.commands
    assert registry.load_command("command").__name__ == "OrderedDict"
    assert set(record(registry, "all").provides) == {
        "reduction",
        "seeder",
        "cost model",
        "front end",
        "command",
    }
