"""The registry of what is installed, and what the environment changes about it."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from listing_plugins import Solvers, record, solver

from berthage.registry import Capability, PluginStatus, hookimpl, load_registry
from berthage.registry.sources import PluginSource


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
