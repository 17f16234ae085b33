"""Plugins that are wrong: each is named with what is wrong, and the others still work."""

from __future__ import annotations

from typing import Any

import pytest
from listing_plugins import Solvers, record, solver

from berthage.errors import PluginError
from berthage.registry import FormatInfo, PluginStatus, Registry, SolverInfo, hookimpl
from berthage.registry.sources import PluginSource


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
