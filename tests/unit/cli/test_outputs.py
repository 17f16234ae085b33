"""Files that commands write: what would keep them from being written is told before the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest
from cli_plugin import strict

from berthage import Registry
from berthage.cli.common import OutputFile


class TestOutputs:
    @pytest.mark.parametrize("option", ["--json", "--solution"])
    def test_an_output_that_cannot_be_written_is_told_before_the_solve(
        self, run: Any, tiny: Path, tmp_path: Path, option: str
    ) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "astray").symlink_to(tmp_path / "gone" / "out")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        for path, told in [
            (tmp_path / "loop", str(tmp_path)),
            (tmp_path / ("x" * 300), str(tmp_path)),
            (tmp_path / "no" / "out", str(tmp_path / "no")),
            (tmp_path / "file" / "out", str(tmp_path / "file")),
            (tmp_path / "astray", str(tmp_path / "gone")),
            (Path(os.devnull), "not a regular file"),
            (tmp_path, "directory"),
        ]:
            # The solver would end with exit code 1 and its own message, had it been started.
            done = run("solve", tiny, "--solver", "brute", "--option", "crash=yes", option, path)
            assert done.exit_code == 2, (path, done.output)
            assert told in " ".join(done.stderr.split()), path
            assert "crashed on purpose" not in done.output
            assert "Traceback" not in done.output

    def test_a_folder_without_permission_is_told_before_the_solve(
        self, run: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "closed"
        folder.mkdir()
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and real(path, mode))
        done = run("solve", tiny, "--solver", "brute", "--option", "crash=yes", "--solution", folder / "out")
        assert done.exit_code == 2
        assert f"no permission to write in '{folder}'" in done.stderr

    def test_outputs_may_replace_files_and_what_links_point_to(self, run: Any, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "old").write_text("old")
        (tmp_path / "link").symlink_to(tmp_path / "old")
        assert run("solve", tiny, "--solver", "brute", "--json", tmp_path / "link").exit_code == 0
        assert (tmp_path / "link").is_symlink()
        assert strict((tmp_path / "old").read_text())["objective"] == 3


def test_every_output_of_every_command_of_ours_is_checked_at_once(registry: Registry) -> None:
    """Paths that need not exist yet are outputs: all of them are of the kind that looks before the work starts."""
    outputs = []
    for info in registry.commands:
        if not info.target.startswith("berthage."):
            continue
        command = registry.load_command(info.name)
        assert isinstance(command, click.Command)
        for parameter in command.params:
            if isinstance(parameter.type, click.Path) and not parameter.type.exists:
                outputs.append((info.name, parameter.name))
                assert isinstance(parameter.type, OutputFile), outputs[-1]
    assert sorted(outputs) == [("convert", "target"), ("solve", "json_path"), ("solve", "solution_path")]
