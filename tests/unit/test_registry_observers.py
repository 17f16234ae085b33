"""Plugins that watch solves."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import pytest
from click.testing import CliRunner
from listing_plugins import record

from berthage.cli.app import app
from berthage.errors import UnknownNameError
from berthage.registry import Registry, hookimpl


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
