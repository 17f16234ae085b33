"""The relaxation on published problems, against recorded values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berthage import Reason, read_problem, solve
from berthage_lp import LpOptions, lower_bound


def test_crops(shared_data: Path) -> None:
    """Never below the recorded relaxation (dividing budgets by their gcd can tighten it), never above the optimum."""
    index = json.loads((shared_data / "crops" / "index.json").read_text())
    for name, known in index.items():
        problem = read_problem(shared_data / "crops" / f"{name}.json")
        slack = 1e-9 * max(1.0, abs(known["optimum"])) + 1e-6
        for intervals in ("dense", "running"):
            bound = lower_bound(problem, options=LpOptions(intervals=intervals))
            assert known["lp"] - slack <= bound <= known["optimum"], name
        free = lower_bound(problem.without_budgets().problem)
        assert free == pytest.approx(known["lp_nomem"], rel=1e-9, abs=0.05), name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bound", "without"), [("G", 216960.5, 111306), ("B", 517999.3, 134699)])
def test_contest_problems(shared_data: Path, name: str, bound: float, without: int) -> None:
    problem = read_problem(shared_data / "iopddl" / f"asplos-2025-iopddl-{name}.json.gz")
    refused = solve(problem, "lp", presolve=False)
    assert refused.termination.reason is Reason.NOT_INTEGRAL
    assert refused.stats["relaxation"] == pytest.approx(bound, abs=0.05)
    free = solve(problem.without_budgets().problem, "lp", presolve=False)
    assert (free.termination.reason, free.objective) == (Reason.OPTIMAL, without)


MAP = [
    ("grid20x20.f10/grid20x20.f10.uai", -3736.7258, 1e-4),
    ("wcsp_13/wcsp_13.uai.xz", 0.4007, 1e-4),
    ("cpd_1aho/1aho.cfn.gz", -33.72992, 1e-5),
    ("cap131/cap131.wcsp.xz", 7934385, 1e-2),
]


@pytest.mark.parametrize(("file", "bound", "tolerance"), MAP, ids=lambda value: str(value).partition("/")[0])
def test_published_models(shared_data: Path, file: str, bound: float, tolerance: float) -> None:
    options = {"zero": 1e6} if ".uai" in file else {}
    problem = read_problem(shared_data / "map" / file, **options)
    assert lower_bound(problem) == pytest.approx(bound, abs=tolerance)


@pytest.mark.slow
def test_where_simplex_gives_up(shared_data: Path) -> None:
    problem = read_problem(shared_data / "map" / "CELAR7-SUB0" / "CELAR7-SUB0.wcsp.xz")
    result = solve(problem, "lp", presolve=False)
    assert result.stats["method"] == "ipm"
    assert result.stats["relaxation"] == pytest.approx(10006.5, abs=1e-3)


@pytest.mark.parametrize("name", ["mlp2_8x8", "llama2l_8x8"])
def test_sharding_problems_are_integral(shared_data: Path, name: str) -> None:
    problem = read_problem(shared_data / "sharding" / f"{name}.npz")
    recorded = json.loads((shared_data / "sharding" / f"{name}.json").read_text())
    result = solve(problem, "lp", presolve=False)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(recorded["objective_ilp"], rel=1e-9)
    assert result.stats["fractional_variables"] == 0
