"""``berthage run`` on real ranks, and ``berthage verify``, as a person starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from berthage import load_registry
from berthage.cli.app import app

TORCHRUN = Path(sys.executable).with_name("torchrun")
BERTHAGE = Path(sys.executable).with_name("berthage")
SMALL = ["--model", "mlp", "--size", "dim=64", "--size", "hidden=128", "--size", "batch=16"]


def run_on(ranks: int, *arguments: str, folder: Path, timeout: float = 200) -> subprocess.CompletedProcess[str]:
    command = [TORCHRUN, "--nproc-per-node", str(ranks), "--no-python", BERTHAGE, "run", *arguments]
    # A free port for the ranks to meet, so that runs beside each other do not.
    command[1:1] = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
    )


def berthage(arguments: list[str]) -> Result:
    return CliRunner().invoke(app, arguments, obj=load_registry())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    folder = tmp_path_factory.mktemp("run")
    made = run_on(
        4, *SMALL, "--mesh", "dp=2,tp=2", "--compare-solvers", "trws,ilp", "--steps", "2", "--json", "o.json",
        folder=folder,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made, json.loads((folder / "o.json").read_text())


def test_solvers_agree_with_each_other_and_with_one_device(measured: tuple[object, dict[str, list[dict]]]) -> None:
    first, second = measured[1]["compared"]
    assert first["objective"] == pytest.approx(second["objective"], rel=1e-9)
    for one in (first, second):
        assert one["to_one"]["output"] <= 5e-3
        assert one["to_one"]["gradient"] <= max(2e-2, 2 * one["rounding"]["gradient"])
    assert second["to_first"]["output"] <= 5e-3


def test_what_ranks_hold_is_what_the_plan_says(measured: tuple[object, dict[str, dict]]) -> None:
    predicted, found = measured[1]["predicted_bytes"], measured[1]["measured_bytes"]
    for kind in ("parameters", "gradients", "optimizer"):
        assert found[kind]["most"] == pytest.approx(predicted[kind], rel=0.01)
    assert found["peak"]["least"] > predicted["peak"]


def test_training_gets_somewhere(measured: tuple[object, dict[str, object]]) -> None:
    losses = measured[1]["losses"]
    assert isinstance(losses, list)
    assert len(losses) == 4  # two of them to warm up
    assert losses[-1] < losses[0]


def test_times_are_told_by_phase(measured: tuple[subprocess.CompletedProcess[str], dict[str, dict]]) -> None:
    made, document = measured
    times = document["measured_us"]
    whole = sum(times[name]["mean"] for name in ("forward", "backward", "optimizer"))
    assert 0.3 * whole < times["step"]["mean"] < 3 * whole  # medians of few steps do not add up exactly
    assert document["predicted_us"]["step"] == pytest.approx(document["objective"])
    assert made.stdout.count("microseconds a step") == 1  # one rank speaks for all


def test_too_few_processes_are_told_how_to_start_more() -> None:
    result = berthage(["run", *SMALL, "--mesh", "dp=2,tp=2"])
    assert result.exit_code != 0
    assert "torchrun --nproc-per-node 4" in str(result.exception) + result.output


def test_one_rank_needs_no_torchrun(tmp_path: Path) -> None:
    made = subprocess.run(
        [str(BERTHAGE), "run", *SMALL, "--mesh", "dp=1", "--steps", "1"],
        cwd=tmp_path, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert "loss" in made.stdout


@pytest.mark.slow
def test_what_fails_on_one_rank_ends_all(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, torch\n"
        "class Model(torch.nn.Linear):\n"
        "    pass\n"
        "def make():\n"
        "    if os.environ['RANK'] == '1':\n"
        "        raise SystemExit('rank 1 has had enough')\n"
        "    return Model(8, 8), (torch.zeros(4, 8),)\n"
    )
    made = run_on(2, "--model", "mine:make", "--mesh", "dp=2", folder=tmp_path)
    assert made.returncode != 0
    assert "rank 1 has had enough" in made.stderr


@pytest.mark.slow
def test_an_infeasible_search_is_told_on_every_rank(tmp_path: Path) -> None:
    made = run_on(2, *SMALL, "--mesh", "dp=2", "--cost-model", "no-such-gpu", folder=tmp_path)
    assert made.returncode != 0
    assert "no-such-gpu" in made.stderr


def search(folder: Path, *more: str) -> Path:
    plan = folder / "plan.json"
    result = berthage(["search", *SMALL, "--mesh", "dp=2,tp=2", "--plan", str(plan), *more])
    assert result.exit_code == 0, result.output
    return plan


def test_verify_counts_every_collective(tmp_path: Path) -> None:
    plan = search(tmp_path)
    result = berthage(["verify", str(plan), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["agree"] is True
    assert sum(one["planned"] for one in document["collectives"]) > 0
    assert all(one["planned"] == one["lowered"] for one in document["collectives"])


def test_verify_refuses_another_model(tmp_path: Path) -> None:
    plan = search(tmp_path)
    result = berthage(["verify", str(plan), "--size", "layers=3"])
    assert result.exit_code != 0
    assert "layers" in str(result.exception) + result.output


def test_verify_notices_a_collective_that_is_missing(tmp_path: Path) -> None:
    """A plan whose hash and costs are right, and one of whose moves lost its collectives."""
    from dataclasses import replace

    from berthage_torch import Plan
    from berthage_torch.plans.retracing import retrace
    from berthage_torch.running.verifying import verify

    plan = Plan.load(search(tmp_path))
    edges = [replace(edge, path=edge.path * 2) if edge.path else edge for edge in plan.edges]
    told = verify(replace(plan, edges=tuple(edges)), retrace(plan).graph)
    assert any(one.planned != one.lowered for one in told)
