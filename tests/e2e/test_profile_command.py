"""``berthage profile``: rows in processes of their own, what is kept of them, and what the shell is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")

from click.testing import CliRunner, Result

from berthage import load_registry
from berthage.cli.app import app
from berthage_torch.commands import profiling

Run = Callable[..., Result]

MATRIX = """
[defaults]
mesh = "dp=2,tp=2"
[[row]]
name = "good"
model = "mlp"
pins = { "layers.0.up.weight" = "RR" }
memory = "none"
[[row]]
name = "misspelt"
model = "mlp"
sizes = { layer = 3 }
[[row]]
name = "killed"
model = "models_of_a_profile:ended"
[[row]]
name = "late"
model = "models_of_a_profile:slow"
wall_limit = 5
"""
MODELS = """
import os, signal, sys, time
def ended():
    print("about to end")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
def slow():
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def run() -> Run:
    registry = load_registry()

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], obj=registry)

    return invoke


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory, run: Run) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("profile")
    (folder / "matrix.toml").write_text(MATRIX)
    (folder / "models_of_a_profile.py").write_text(MODELS)
    before = os.getcwd()
    os.chdir(folder)
    try:
        return folder, run("profile", "matrix.toml", "--results", "results", "--detailed-solution")
    finally:
        os.chdir(before)


def kept(folder: Path, name: str) -> Any:
    return json.loads((folder / "results" / f"{name}.json").read_text())


def test_rows_that_fail_fail_the_matrix_after_all_have_run(profiled: tuple[Path, Result]) -> None:
    folder, done = profiled
    assert done.exit_code == 1, done.output
    assert "3 rows failed: misspelt, killed, late" in done.stderr
    statuses = {name: kept(folder, name)["status"] for name in ("good", "misspelt", "killed", "late")}
    assert statuses == {"good": "ok", "misspelt": "failed", "killed": "failed", "late": "failed"}
    table = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert table["good"][1] == "optimal"
    assert table["late"][1] == "failed"
    summary = json.loads((folder / "results" / "summary.json").read_text())["rows"]
    assert [row["name"] for row in summary] == ["good", "misspelt", "killed", "late"]


def test_each_failure_says_what_happened(profiled: tuple[Path, Result]) -> None:
    folder, _ = profiled
    wrong = kept(folder, "misspelt")["error"]
    assert (wrong["kind"], wrong["type"]) == ("error", "OptionError")
    assert "no size 'layer'" in wrong["message"]
    killed = kept(folder, "killed")["error"]
    assert (killed["kind"], killed["signal"]) == ("killed", 9)
    assert "about to end" in killed["output"]
    late = kept(folder, "late")["error"]
    assert late["kind"] == "timeout"
    assert 5 <= late["wall"] < 60


def test_a_row_tells_what_was_asked_where_it_ran_and_what_was_found(profiled: tuple[Path, Result]) -> None:
    record = kept(profiled[0], "good")
    assert (record["format"], record["format_version"]) == ("berthage-profile", 1)
    assert record["configuration"]["pins"] == {"layers.0.up.weight": "RR"}
    assert record["configuration"]["wall_limit"] > 0
    assert record["environment"]["libraries"]["torch"].startswith("2.")
    assert record["constraints"]["pins"] == {"layers.0.up.weight": "RR"}
    assert record["bound"] <= record["objective"]
    assert len(record["placement_hash"]) == 64
    assert min(record["nodes"], record["variables"]) > 10
    assert record["peak_rss_bytes"] > 100 * 2**20


def test_phases_add_up_to_the_whole(profiled: tuple[Path, Result]) -> None:
    timings = kept(profiled[0], "good")["timings"]
    assert set(timings) >= {
        "import", "trace", "enumerate", "price", "build", "presolve", "compile", "solve", "unattributed", "total",
        "process",
    }  # fmt: skip
    for clock in ("cpu", "wall"):
        parts = sum(
            spent[clock] for name, spent in timings.items() if name not in ("import", "compile", "total", "process")
        )
        assert parts == pytest.approx(timings["total"][clock])
        assert timings["process"][clock] >= timings["total"][clock]


def test_a_detailed_solution_sums_to_the_objective(profiled: tuple[Path, Result]) -> None:
    record = kept(profiled[0], "good")
    nodes, edges = record["solution"]["nodes"], record["solution"]["edges"]
    assert len(nodes) == record["nodes"]
    total = sum(node["compute_us"] for node in nodes) + sum(edge["us"] for edge in edges)
    assert total == pytest.approx(record["objective"], rel=1e-9)
    assert next(node for node in nodes if node["name"] == "layers.0.up.weight")["outputs"] == ["RR"]


def test_resuming_runs_only_what_this_code_has_not_run(
    profiled: tuple[Path, Result], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = profiled
    record = kept(folder, "good")
    before = (folder / "results" / "good.json").read_bytes()
    calls: list[str] = []

    def once(row: Any, *, detailed: bool) -> dict[str, Any]:
        calls.append(row.name)
        return {"error": {"kind": "killed", "message": "not in this test"}}

    monkeypatch.setattr(profiling, "run_once", once)
    monkeypatch.setattr(profiling, "environment", lambda registry: record["environment"])
    monkeypatch.setattr(profiling, "git_state", lambda: record["git"])
    words = ("profile", folder / "matrix.toml", "--results", folder / "results", "--only", "good", "--resume")
    again = run(*words)
    assert again.exit_code == 0, again.output
    assert "good: kept" in again.stderr
    assert (folder / "results" / "good.json").read_bytes() == before
    assert len(json.loads((folder / "results" / "summary.json").read_text())["rows"]) == 4
    assert not calls
    assert run(*words[:-2], "killed", "--resume").exit_code == 1
    monkeypatch.setattr(profiling, "git_state", lambda: {"commit": "another", "changed": False})
    assert run(*words).exit_code == 1
    assert calls == ["killed", "good"]
    (folder / "results" / "good.json").write_bytes(before)


def test_what_is_misspelt_is_told_before_anything_runs(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "matrix.toml"
    for row, said in (
        ("model='mlp'\nmesh='x=2'\nsolver='trwss'", "did you mean"),
        ("model='mlp'\nmesh='x=2'\noptions={sweep=3}", "row mlp-x2: "),
        ("model='mlp'\nmesh='x'", "row mlp-x: "),
    ):
        path.write_text(f"[[row]]\n{row}")
        done = run("profile", path, "--results", tmp_path / "results")
        assert done.exit_code == 2, done.output
        assert said in done.stderr
    path.write_text("[[row]]\nmodel='mlp'\nmesh='x=2'")
    assert "--results" in run("profile", path).stderr
    assert run("profile", path, "--list").stdout.split() == ["mlp-x2"]
    assert run("profile", path, "--list", "--only", "other").exit_code == 2


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to processes")
def test_the_search_ends_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "models_of_a_profile.py").write_text(
        "import os, pathlib, time\n"
        "def slow():\n    pathlib.Path('pid').write_text(str(os.getpid()))\n    time.sleep(600)\n"
    )
    (tmp_path / "matrix.toml").write_text("[[row]]\nname='slow'\nmodel='models_of_a_profile:slow'\nmesh='x=2'")
    words = [sys.executable, "-m", "berthage.cli.main", "profile", "matrix.toml", "--results", "results"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode not in (0, None)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert not (tmp_path / "results" / "slow.json").exists()
    assert len(json.loads((tmp_path / "results" / "summary.json").read_text())["rows"]) == 0
