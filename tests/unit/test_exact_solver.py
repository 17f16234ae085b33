"""What ``exact`` promises beyond the conformance kit: proofs, limits, memory, determinism, a light package."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from berthage import Limit, PlacementProblem, ProblemBuilder, Reason, SolveResult, solve
from berthage.testing import brute_force

pytest.importorskip("numba")
pytest.importorskip("berthage_exact")


def run(problem: PlacementProblem, **more: object) -> SolveResult:
    return solve(problem, "exact", presolve=False, **more)  # type: ignore[arg-type]


def spins(size: int, seed: int = 0, labels: int = 2) -> PlacementProblem:
    """A grid with couplings of either sign: the relaxation is loose."""
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder(f"spins-{size}")
    for i in range(size * size):
        builder.add_variable(f"v{i}", labels, 0.1 * rng.normal(size=labels))
    for i in range(size * size):
        for j, inside in ((i + 1, i % size + 1 < size), (i + size, i + size < size * size)):
            if inside:
                builder.add_pairwise(i, j, rng.normal() * np.eye(labels))
    return builder.build()


def crowded(seed: int, items: int = 14) -> PlacementProblem:
    """Pairs of choices under one tight limit."""
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder("crowded")
    weights = rng.integers(0, 40, (items, 2))
    for i in range(items):
        builder.add_variable(f"v{i}", 2, rng.integers(0, 100, 2))
        if i:
            builder.add_pairwise(i - 1, i, rng.integers(0, 30, (2, 2)))
    least = int(weights.min(1).sum())
    builder.add_budget("room", {i: weights[i] for i in range(items)}, upper=least + int(np.ptp(weights, 1).sum()) // 4)
    return builder.build()


def test_elimination_and_search_agree() -> None:
    problem = spins(7)
    by_tables, by_search = run(problem), run(problem, options={"eliminate": False})
    assert by_tables.termination.reason is by_search.termination.reason is Reason.OPTIMAL
    assert by_tables.objective == pytest.approx(by_search.objective, rel=1e-9)
    assert by_tables.stats["nodes"] == 0
    assert "largest_table" in by_tables.stats
    assert by_search.stats["nodes"] > 0


@pytest.mark.parametrize("seed", range(4))
def test_tight_budgets_are_proved(seed: int) -> None:
    problem = crowded(seed)
    result = run(problem)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == brute_force(problem).objective


def test_rows_too_long_to_list_are_kept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berthage_exact.budget_rows.MOST_CELLS", 0)
    problem = crowded(1, items=9)
    assert run(problem).objective == brute_force(problem).objective


def test_a_limit_leaves_an_honest_gap() -> None:
    problem = spins(24, labels=3)
    result = run(problem, iteration_limit=60)
    assert result.termination.reason is Reason.FEASIBLE
    assert result.termination.limit is Limit.ITERATIONS
    assert result.bound < result.objective
    assert 0 < result.relative_gap < 1


def test_tables_that_do_not_fit_end_with_the_gap_of_message_passing() -> None:
    rng = np.random.default_rng(1)
    builder = ProblemBuilder("wide")
    for i in range(4):
        builder.add_variable(f"v{i}", 300, rng.random(300))
        for j in range(i):
            builder.add_pairwise(j, i, rng.random((300, 300)) * 20)
    result = run(builder.build(), options={"memory": 1, "max_sweeps": 20})
    assert result.termination.limit is Limit.MEMORY
    assert "memory" in result.termination.detail
    assert result.assignment is not None
    assert result.bound > 0


def test_what_message_passing_closes_is_not_searched() -> None:
    builder = ProblemBuilder("chain")
    rng = np.random.default_rng(2)
    for i in range(30):
        builder.add_variable(f"v{i}", 6, rng.random(6))
        if i:
            builder.add_pairwise(i - 1, i, rng.random((6, 6)))
    result = run(builder.build())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.stats["nodes"] == 0
    assert "labels" not in result.stats, "no network was built"


def test_huge_weights_are_kept_exactly() -> None:
    big = 3 * 10**17
    builder = ProblemBuilder("bytes")
    for name in "abc":
        builder.add_variable(name, 2, [0, 5])
    builder.add_budget("memory", {name: [big, 1] for name in "abc"}, upper=2 * big)
    result = run(builder.build())
    assert result.objective == 10, "two do not fit, by one byte"


def test_the_seed_and_the_run_change_nothing_but_the_way() -> None:
    problem = spins(8, seed=3)
    first, again, other = (run(problem, seed=seed) for seed in (1, 1, 2))
    assert first.require().tolist() == again.require().tolist()
    assert first.bound == again.bound
    assert first.objective == pytest.approx(other.objective, rel=1e-9)


def test_the_package_is_light() -> None:
    code = "import sys, berthage_exact, berthage_exact.hooks, berthage_trws; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
