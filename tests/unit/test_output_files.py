"""Files that commands write: what would keep them from being written is told before the work, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from berthage import load_registry
from berthage.cli.app import app

CURVES = "collective,nodes,gpus_per_node,size_bytes,time_us\nall-reduce,1,8,1048576,50\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "bench.csv"
    path.write_text(CURVES)
    return path


COMMANDS = {
    "search --json": ("search", "--model", "absent_module:make", "--mesh", "dp=2", "--json"),
    "search --plan": ("search", "--model", "absent_module:make", "--mesh", "dp=2", "--plan"),
    "nccl fit --out": ("nccl", "fit", "DATA", "--out"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["no folder", "a folder"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    tmp_path: Path, data: Path, command: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("berthage_nccl.commands.fit_profile", work)
    target = tmp_path / "absent" / "out.json" if kind == "no folder" else tmp_path
    words = [str(data) if word == "DATA" else word for word in COMMANDS[command]]
    done = CliRunner().invoke(app, [*words, str(target)], obj=load_registry())
    assert done.exit_code == 2, done.output
    assert ("there is no folder" if kind == "no folder" else "is a directory") in done.stderr
    assert "absent_module" not in done.stderr
    assert list(tmp_path.iterdir()) == [data]
