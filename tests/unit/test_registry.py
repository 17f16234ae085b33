"""The registry: names, duplicates, broken plugins, observers, environment."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import types
import warnings
from typing import Any

import pytest
from click.testing import CliRunner

from berthage.cli.app import app
from berthage.errors import PluginError, UnknownNameError, UnsupportedProblemError
from berthage.registry import (
    Capability,
    CommandInfo,
    CostModelInfo,
    FormatInfo,
    FrontEndInfo,
    PluginStatus,
    ReductionInfo,
    Registry,
    SeederInfo,
    SolverInfo,
    hookimpl,
    load_registry,
)
from berthage.registry.sources import PluginSource


def solver(name: str, **rest: Any) -> SolverInfo:
    return SolverInfo(name, "For tests.", rest.pop("target", "collections:OrderedDict"), **rest)


class Solvers:
    """A plugin that offers the solvers it is given."""

    def __init__(self, *infos: Any) -> None:
        self.infos = infos

    @hookimpl
    def berthage_solvers(self) -> list[Any]:
        return list(self.infos)


class Formats:
    def __init__(self, *infos: FormatInfo) -> None:
        self.infos = infos

    @hookimpl
    def berthage_formats(self) -> list[FormatInfo]:
        return list(self.infos)


def record(registry: Registry, name: str) -> Any:
    return next(p for p in registry.plugins if p.name == name)


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


def test_a_misspelt_hook_is_an_error_that_names_plugin_and_hook_and_spares_the_rest() -> None:
    class Misspelt:
        @hookimpl
        def berthage_solver(self) -> list[SolverInfo]:
            return []

        @hookimpl
        def berthage_formats(self) -> list[FormatInfo]:
            return [FormatInfo("lost", "", "a:b")]

    registry = Registry({"bad": Misspelt(), "good": Solvers(solver("fine"))})
    (broken,) = registry.broken
    assert broken.name == "bad"
    assert "plugin 'bad' implements a hook that does not exist" in broken.error
    assert "'berthage_solver' (did you mean 'berthage_solvers'?)" in broken.error
    assert "lost" not in [f.name for f in registry.formats]
    assert registry.solver("fine").name == "fine"


def test_a_hook_with_an_argument_that_does_not_exist_breaks_only_its_plugin() -> None:
    class Odd:
        @hookimpl
        def berthage_solvers(self, extra: int) -> list[SolverInfo]:
            return []

    registry = Registry({"odd": Odd(), "good": Solvers(solver("fine"))})
    assert [p.name for p in registry.broken] == ["odd"]
    assert "extra" in registry.broken[0].error
    assert registry.solver("fine")


@pytest.mark.parametrize("error", [ImportError("no such library"), RuntimeError("boom"), SystemExit(3)])
def test_a_plugin_that_fails_at_import_is_listed_with_the_reason(error: BaseException) -> None:
    def fail() -> object:
        raise error

    registry = Registry([PluginSource("bad", fail, "berthage-bad", "0.3"), Solvers(solver("fine"))])
    bad = record(registry, "bad")
    assert bad.status is PluginStatus.BROKEN
    assert (bad.distribution, bad.version) == ("berthage-bad", "0.3")
    assert bad.error == f"{type(error).__name__}: {error}"
    assert registry.solver("fine")


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        ([FormatInfo("x", "", "a:b")], "expected a SolverInfo"),
        (["greedy"], "lists 'greedy', expected a SolverInfo"),
    ],
)
def test_a_hook_that_lists_the_wrong_thing_breaks_its_plugin(offered: list[Any], reason: str) -> None:
    registry = Registry({"bad": Solvers(*offered)})
    assert reason in record(registry, "bad").error
    assert registry.solvers == ()


def test_a_hook_that_returns_no_list_breaks_its_plugin() -> None:
    class Nothing:
        @hookimpl
        def berthage_solvers(self) -> None:
            return None

    # pluggy would drop the None without a word; a forgotten return statement deserves one.
    assert "returned NoneType, expected a list of SolverInfo" in record(Registry({"n": Nothing()}), "n").error


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: SolverInfo("My Solver", "", "a:b"), "lower-case"),
        (lambda: SolverInfo("x", "", "a.b"), "'package.module:attribute'"),
        (lambda: SolverInfo("x", "", "a:b", requires="pulp"), "requires is a tuple"),  # type: ignore[arg-type]
        (lambda: SolverInfo("x", "", "a:b", options=dict), "must be a dataclass"),
        (lambda: FormatInfo("x", "", "a:b", extensions=("uai",)), "starts with a dot"),
    ],
)
def test_a_wrong_description_is_refused_where_it_is_made(make: Any, reason: str) -> None:
    with pytest.raises(PluginError, match=reason):
        make()


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


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no_such_module:Thing", "ModuleNotFoundError"),
        ("collections:NoSuchThing", "AttributeError"),
        ("operator:itemgetter", "cannot be made: TypeError"),
    ],
)
def test_a_target_that_fails_is_a_plugin_error_naming_plugin_and_target(target: str, reason: str) -> None:
    registry = Registry({"mine": Solvers(solver("bad", target=target))})
    with pytest.raises(PluginError, match=f"solver 'bad' of plugin 'mine'.*{reason}"):
        registry.create_solver("bad")


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


class TestFormatFor:
    registry = Registry(
        {
            "f": Formats(
                FormatInfo("uai", "", "a:b", extensions=(".uai",), writes=True),
                FormatInfo("json", "", "a:b", extensions=(".json",)),
                FormatInfo("deep", "", "a:b", extensions=(".deep.json",)),
                FormatInfo("clash-a", "", "a:b", extensions=(".clash",)),
                FormatInfo("clash-b", "", "a:b", extensions=(".clash",), writes=True),
            )
        }
    )

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("x.uai", "uai"),
            ("dir.json/X.UAI", "uai"),
            ("x.uai.gz", "uai"),
            ("x.uai.xz", "uai"),
            ("x.json", "json"),
            ("x.deep.json", "deep"),
        ],
    )
    def test_the_longest_ending_decides(self, path: str, name: str) -> None:
        assert self.registry.format_for(path).name == name

    def test_an_unknown_ending_is_answered_with_near_misses(self) -> None:
        with pytest.raises(UnknownNameError, match=r"ending '\.uia'; did you mean \.uai\?"):
            self.registry.format_for("x.uia")

    def test_a_file_without_ending_is_answered_with_all(self) -> None:
        with pytest.raises(UnknownNameError, match="name the format"):
            self.registry.format_for("problem")

    def test_several_formats_of_one_ending_must_be_told_apart(self) -> None:
        with pytest.raises(UnknownNameError, match="clash-a, clash-b"):
            self.registry.format_for("x.clash")
        assert self.registry.format_for("x.clash", writing=True).name == "clash-b"

    def test_a_format_that_only_reads_refuses_to_write(self) -> None:
        with pytest.raises(UnsupportedProblemError, match="'json' cannot be written"):
            self.registry.format_for("x.json", writing=True)


def starts_with_a(head: bytes) -> bool:
    return head.startswith(b"A")


def sniffs_badly(head: bytes) -> bool:
    raise ValueError("cannot smell")


class TestFormatByContent:
    registry = Registry(
        {
            "f": Formats(
                FormatInfo("a", "", "a:b", extensions=(".same",), sniff=f"{__name__}:starts_with_a"),
                FormatInfo("b", "", "a:b", extensions=(".same",), sniff="operator:not_"),
            )
        }
    )

    @pytest.mark.parametrize("name", ["x.same", "x.other", "x"])
    def test_the_content_decides_where_the_name_does_not(self, tmp_path: Any, name: str) -> None:
        (tmp_path / name).write_bytes(b"A file")
        assert self.registry.format_for(tmp_path / name).name == "a"

    def test_content_is_looked_at_through_compression(self, tmp_path: Any) -> None:
        (tmp_path / "x.same.gz").write_bytes(gzip.compress(b"A file"))
        assert self.registry.format_for(tmp_path / "x.same.gz").name == "a"

    def test_a_sniffer_that_fails_only_warns(self, tmp_path: Any) -> None:
        (tmp_path / "x").write_bytes(b"A file")
        good = FormatInfo("a", "", "a:b", sniff=f"{__name__}:starts_with_a")
        bad = FormatInfo("b", "", "a:b", sniff=f"{__name__}:sniffs_badly")
        registry = Registry({"f": Formats(good, bad)})
        with pytest.warns(RuntimeWarning, match="format 'b' of plugin 'f' cannot look into files: cannot smell"):
            assert registry.format_for(tmp_path / "x").name == "a"


class TestObservers:
    def test_every_observer_hears_and_one_that_raises_only_warns(self) -> None:
        heard: list[object] = []

        class Good:
            @hookimpl
            def berthage_incumbent(self, event: object) -> None:
                heard.append(event)

        class Silent:
            @hookimpl
            def berthage_incumbent(self) -> None:
                heard.append("no argument")

        class Bad:
            @hookimpl
            def berthage_incumbent(self, event: object) -> None:
                raise ValueError("ouch")

        registry = Registry({"bad": Bad(), "good": Good(), "silent": Silent()})
        with pytest.warns(RuntimeWarning, match=r"berthage_incumbent of plugin 'bad' failed: ValueError: ouch"):
            registry.emit("incumbent", 7)
        assert heard == [7, "no argument"]

    def test_what_a_plugin_observes_is_among_what_it_provides(self) -> None:
        class Watching:
            @hookimpl
            def berthage_bound(self, event: object) -> None:
                pass

            @hookimpl
            def berthage_incumbent(self, event: object) -> None:
                pass

        registry = Registry({"watching": Watching(), "empty": object()})
        assert record(registry, "watching").provides == {"observer": ("incumbent", "bound")}
        assert record(registry, "empty").provides == {}
        done = CliRunner().invoke(app, ["plugins"], obj=registry)
        lines = {line.split()[0]: line for line in done.stdout.splitlines()}
        assert lines["watching"].endswith("observer incumbent, bound")
        assert lines["empty"].endswith("nothing")

    def test_on_the_command_line_one_that_raises_is_told_without_our_source(self, tmp_path: Any) -> None:
        (tmp_path / "grumpy.py").write_text(
            "import click\n"
            "from berthage.registry import CommandInfo, Registry, hookimpl\n"
            "@hookimpl\n"
            "def berthage_incumbent():\n"
            "    raise ValueError('ouch')\n"
            "@hookimpl\n"
            "def berthage_commands():\n"
            "    return [CommandInfo('grumble', '', 'grumpy:grumble')]\n"
            "@click.command()\n"
            "@click.pass_obj\n"
            "def grumble(registry):\n"
            "    registry.emit('incumbent', None)\n"
        )
        (tmp_path / "grumpy-1.dist-info").mkdir()
        (tmp_path / "grumpy-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: grumpy\nVersion: 1\n")
        (tmp_path / "grumpy-1.dist-info" / "entry_points.txt").write_text("[berthage]\ngrumpy = grumpy\n")
        done = subprocess.run(
            [sys.executable, "-m", "berthage.cli.main", "grumble"],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "BERTHAGE_PLUGINS": "grumpy"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = "observer berthage_incumbent of plugin 'grumpy' (grumpy 1) failed: ValueError: ouch"
        assert done.stderr == f"warning: {told}\n"

    def test_nobody_listening_is_fine(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Registry().emit("berthage_bound", object())

    def test_an_unknown_event_is_refused(self) -> None:
        with pytest.raises(UnknownNameError, match="no event is named 'solved'"):
            Registry().emit("solved", None)


class TestLoadRegistry:
    @pytest.fixture
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two installed distributions, as entry points tell of them."""
        sources = [
            PluginSource("one", lambda: Solvers(solver("first")), "berthage-one", "1", "one.hooks"),
            PluginSource("two", lambda: Solvers(solver("second")), "berthage-two", "2", "two.hooks"),
        ]
        monkeypatch.setattr("berthage.registry.load.installed_sources", lambda: sources)
        monkeypatch.delenv("BERTHAGE_PLUGINS", raising=False)

    @pytest.mark.usefixtures("installed")
    def test_every_call_builds_a_new_registry(self) -> None:
        assert load_registry() is not load_registry()
        assert [s.name for s in load_registry().solvers] == ["first", "second"]

    @pytest.mark.usefixtures("installed")
    @pytest.mark.parametrize("value", ["one", " berthage-one , "])
    def test_the_environment_restricts_plugins(self, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BERTHAGE_PLUGINS", value)
        registry = load_registry()
        assert [s.name for s in registry.solvers] == ["first"]
        assert record(registry, "two").status is PluginStatus.SKIPPED
        assert [f.name for f in registry.formats] == ["berthage"]

    @pytest.mark.usefixtures("installed")
    def test_a_plugin_wanted_but_not_installed_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BERTHAGE_PLUGINS", "tow")
        (broken,) = load_registry().broken
        assert broken.name == "tow"
        assert "no such plugin is installed" in broken.error

    @pytest.mark.usefixtures("installed")
    def test_the_environment_traces(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("BERTHAGE_TRACE_PLUGINS", "1")
        load_registry().create_solver("first")
        told = capsys.readouterr().err
        assert "plugin 'one' (berthage-one 1) loaded in" in told
        assert "collections:OrderedDict imported in" in told

    def test_entry_points_are_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        info = tmp_path / "stranger-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text("[berthage]\nodd = stranger_hooks_of_a_test\n")
        hooks = types.ModuleType("stranger_hooks_of_a_test")
        hooks.berthage_solvers = hookimpl(  # type: ignore[attr-defined]
            lambda: [solver("strange", capabilities=frozenset({Capability.EXACT}))]
        )
        monkeypatch.setitem(sys.modules, hooks.__name__, hooks)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("BERTHAGE_PLUGINS", "odd")
        registry = load_registry()
        assert registry.solver("strange").version == "1.5"
        assert (record(registry, "odd").distribution, record(registry, "odd").version) == ("stranger", "1.5")
