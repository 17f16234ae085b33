"""``exact`` on the real problem files: a proof of the known optimum for every one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from exact_instances import IOPDDL, MAP, SHARDING, read_instance

from berthage import PlacementProblem, Reason, SolveResult, read_problem, solve

pytest.importorskip("berthage_exact")
pytest.importorskip("berthage_formats")
pytest.importorskip("berthage_presolve")

# larger than the rest; no harder, save for toulbar2
LARGE = {"mpopt_gm_000"}


def proved(problem: PlacementProblem, optimum: float, solver: str = "exact") -> SolveResult:
    result = solve(problem, solver, time_limit=60)
    assert result.termination.reason is Reason.OPTIMAL, str(result.termination)
    assert result.objective == pytest.approx(optimum, rel=1e-7, abs=1e-6)
    assert result.bound == pytest.approx(optimum, rel=1e-7, abs=1e-6)
    return result


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in MAP])
def test_public_instances_are_proved_within_a_minute(shared_data: Path, name: str) -> None:
    proved(*read_instance(shared_data, name))


@pytest.mark.parametrize("name", SHARDING)
def test_sharding_problems_are_proved_at_once(shared_data: Path, name: str) -> None:
    result = proved(*read_instance(shared_data, name))
    spent = sum(result.timings[phase].cpu for phase in ("build", "solve")) - result.timings["compile"].cpu
    assert spent < 3.0, "some tenths of a second on a quiet machine"


@pytest.mark.parametrize("name", IOPDDL)
def test_contest_problems_are_proved_with_their_memory_limit(shared_data: Path, name: str) -> None:
    proved(*read_instance(shared_data, name))


def test_crops_are_proved(shared_data: Path) -> None:
    folder = shared_data / "crops"
    index = json.loads((folder / "index.json").read_text())
    for name, known in index.items():
        proved(read_problem(folder / f"{name}.json"), known["optimum"])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(name for name in MAP if name not in LARGE), "llama2l_8x8", "llama1b_8x8"])
def test_the_outside_judge_agrees(shared_data: Path, name: str) -> None:
    pytest.importorskip("pytoulbar2")
    pytest.importorskip("berthage_toulbar2")
    problem, optimum = read_instance(shared_data, name)
    assert proved(problem, optimum, "toulbar2").objective == pytest.approx(optimum, rel=1e-7, abs=1e-6)
