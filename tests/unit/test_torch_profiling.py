"""The profile matrix: how rows are read and spread out, what is refused, and what is kept of runs. Searches nothing."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from berthage import InvalidProblemError, UnknownNameError, load_registry
from berthage_torch.profiling.environment import environment, git_state
from berthage_torch.profiling.matrix import read_matrix, rows_named
from berthage_torch.profiling.records import load_record, make_record, summaries, write_record, write_summary
from berthage_torch.profiling.rows import Row

ROOT = Path(__file__).resolve().parents[2]


def matrix(folder: Path, text: str) -> tuple[Row, ...]:
    path = folder / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    return read_matrix(path)


def test_lists_stand_for_every_combination(tmp_path: Path) -> None:
    rows = matrix(
        tmp_path,
        """
        [defaults]
        sizes = { layers = 1, batch = 32 }
        gap = 0.5
        [[row]]
        name = "llama"
        model = "llama3-1b"
        mesh = ["dp=8,tp=8", "dp=4,tp=16"]
        sizes = { layers = [2, 8] }
        [[row]]
        model = "mlp"
        mesh = "dp=2"
        solver = ["trws", "lp"]
        seed_radius = 0
        gap = 0
        """,
    )
    assert [row.name for row in rows] == [
        "llama-dp8-tp8-layers-2",
        "llama-dp8-tp8-layers-8",
        "llama-dp4-tp16-layers-2",
        "llama-dp4-tp16-layers-8",
        "mlp-dp2-trws",
        "mlp-dp2-lp",
    ]
    assert [(row.mesh, dict(row.sizes)) for row in rows[1:3]] == [
        ("dp=8,tp=8", {"layers": 8, "batch": 32}),
        ("dp=4,tp=16", {"layers": 2, "batch": 32}),
    ]
    assert [row.gap for row in rows] == [0.5] * 4 + [0, 0]
    assert [row.seed_radius for row in rows] == [2] * 4 + [0, 0]
    assert len({row.key for row in rows}) == 6
    assert rows[4].question == rows[5].question
    assert len({row.question for row in rows}) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"no \[\[row\]\]"),
        ("[[row", "matrix.toml"),
        ("[other]\n", "'other'"),
        ("[defaults]\nname='a'\n[[row]]\nmodel='m'\nmesh='x=2'", "each row has its own"),
        ("[[row]]\nmesh='x=2'", "has no 'model'"),
        ("[[row]]\nmodel='m'", "has no 'mesh'"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nsolvr='lp'", "no 'solvr'"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nseed=true", "seed is int"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\ngap=nan", "gap is int or float"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nsizes=3", "sizes is table"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\ninputs={a=3}", "inputs.a is a placement"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nsolver=[]", "solver cannot be the list"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\ntie='some'", "'layers' or 'none'"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nwall_limit=0", "wall_limit is positive"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nname='a/b'", "names a file"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\nname='summary'", "names a file"),
        ("[[row]]\nmodel='m'\nmesh='x=2'\n[[row]]\nmodel='M'\nmesh='x=2'", "two rows are named"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidProblemError, match=said):
        matrix(tmp_path, text)


def test_rows_are_chosen_by_name_or_pattern(tmp_path: Path) -> None:
    rows = matrix(tmp_path, "[[row]]\nmodel='mlp'\nmesh='x=2'\nsolver=['trws','lp','ilp']")
    assert [row.solver for row in rows_named(rows, ["*lp", "mlp-x2-trws"])] == ["trws", "lp", "ilp"]
    assert [row.solver for row in rows_named(rows, ["mlp-x2-lp"])] == ["lp"]
    assert rows_named(rows, []) == rows
    with pytest.raises(UnknownNameError, match="'mlp-x2-lpp'; there are mlp-x2-lp"):
        rows_named(rows, ["mlp-x2-lpp"])


def test_the_matrices_of_the_repository_can_be_read() -> None:
    whole = read_matrix(ROOT / "docs" / "examples" / "profile-matrix.toml")
    assert {"llama3-1b-trws", "llama3-8b-ilp", "dsv3-lp"} <= {row.name for row in whole}
    deep = read_matrix(ROOT / "docs" / "examples" / "profile-matrix-3d.toml")
    assert {row.seed_radius for row in deep} == {0, 2}
    names = {row.name.rsplit("-seed-radius", 1)[0] for row in deep}
    assert len(deep) == 2 * len(names)
    assert {row.mesh.count(",") for row in deep} == {2, 3}


def run(objective: float, cpu: float, digest: str = "h", limit: str | None = None) -> dict[str, Any]:
    return {
        "termination": {"reason": "optimal", "limit": limit, "detail": ""},
        "objective": objective,
        "bound": objective,
        "gap": 0.0,
        "placement_hash": digest,
        "nodes": 7,
        "variables": 5,
        "timings": {"total": {"cpu": cpu, "wall": cpu}, "process": {"cpu": cpu + 1, "wall": cpu + 1}},
        "peak_rss_bytes": 2**30,
    }


def record(row: Row, *runs: dict[str, Any]) -> dict[str, Any]:
    left: Iterator[dict[str, Any]] = iter(runs)
    return make_record(row, {"python": "3"}, None, lambda: next(left))


def test_of_several_runs_the_median_is_told_and_all_are_kept() -> None:
    row = Row(name="a", model="m", mesh="x=2", repetitions=3)
    kept = record(row, run(5.0, 9.0), run(5.0, 1.0), run(5.0, 2.0))
    assert kept["status"] == "ok"
    assert kept["timings"]["total"]["cpu"] == 2.0
    assert [one["timings"]["total"]["cpu"] for one in kept["runs"]] == [1.0, 2.0, 9.0]


def test_runs_that_differ_without_a_limit_have_failed() -> None:
    row = Row(name="a", model="m", mesh="x=2", repetitions=2)
    assert record(row, run(5.0, 1.0, "h"), run(5.0, 1.0, "g"))["error"]["kind"] == "differs"
    assert record(row, run(5.0, 1.0, "h"), run(5.0, 1.0, "g", "time"))["status"] == "ok"


def test_a_run_without_a_plan_has_failed_and_is_not_repeated() -> None:
    row = Row(name="a", model="m", mesh="x=2", repetitions=3)
    nothing = {**run(5.0, 1.0), "placement_hash": None}
    nothing["termination"] = {"reason": "infeasible", "limit": None, "detail": "a clashes with b"}
    kept = record(row, nothing)
    assert (kept["status"], kept["error"]["kind"]) == ("failed", "no plan")
    assert "a clashes with b" in kept["error"]["message"]
    assert record(row, {"error": {"kind": "timeout", "message": "late"}})["error"]["kind"] == "timeout"


def test_the_summary_says_how_far_each_row_is_above_the_best_of_its_question(tmp_path: Path) -> None:
    rows = [Row(name=f"a{r}", model="m", mesh="x=2", seed_radius=r) for r in (0, 2)]
    rows += [Row(name="b", model="m", mesh="x=4"), Row(name="c", model="m", mesh="x=4", solver="lp")]
    records = {
        "a0": record(rows[0], run(100.0, 1.0)),
        "a2": record(rows[1], run(110.0, 1.0)),
        "b": record(rows[2], run(50.0, 1.0)),
        "c": record(rows[3], {"error": {"kind": "killed", "message": "ended by signal 9"}}),
    }
    lines = list(summaries(rows, records))
    assert [line["excess"] for line in lines] == [0.0, pytest.approx(0.1), 0.0, None]
    assert lines[3]["error"] == "killed: ended by signal 9"
    write_summary(tmp_path, lines)
    assert [line["name"] for line in json.loads((tmp_path / "summary.json").read_text())["rows"]] == [
        "a0", "a2", "b", "c",
    ]  # fmt: skip
    with (tmp_path / "summary.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert [float(line["objective"]) for line in table[:3]] == [100.0, 110.0, 50.0]
    assert table[3]["objective"] == ""


def test_a_record_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    row = Row(name="a", model="m", mesh="x=2")
    assert load_record(tmp_path, row) is None
    write_record(tmp_path, record(row, run(5.0, 1.0)))
    kept = load_record(tmp_path, row)
    assert kept is not None
    assert kept["objective"] == 5.0
    assert load_record(tmp_path, Row(name="a", model="m", mesh="x=4")) is None
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(InvalidProblemError, match="no record of a profile"):
        load_record(tmp_path, row)


def test_the_environment_names_versions_and_no_machine(tmp_path: Path) -> None:
    import platform

    around = environment(load_registry())
    assert around["libraries"]["torch"].startswith("2.")
    assert around["plugins"]["torch"] == around["berthage"]
    assert platform.node() == "" or platform.node() not in json.dumps(around)
    assert git_state(tmp_path) is None


def test_git_state_tells_the_commit_and_whether_files_differ(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *settings, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-q", "-m", "first")
    assert git_state(tmp_path) == {"commit": git("rev-parse", "HEAD"), "changed": False}
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == {"commit": git("rev-parse", "HEAD"), "changed": True}


def test_the_command_loads_no_torch() -> None:
    code = "import sys, berthage_torch.commands.profiling; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
