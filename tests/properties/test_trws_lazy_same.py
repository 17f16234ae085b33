"""``trws-lazy`` finds what ``trws`` finds with every entry priced, and its bound holds for the true costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berthage import PlacementProblem, Reason, SolveResult, solve
from berthage.problem import priced
from berthage.testing import brute_force, verify_bound, verify_feasible
from berthage.testing.strategies import Costs, Feature, problems

pytest.importorskip("numba")

TAME = (Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT)
PLAIN = frozenset(Feature) - {Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS, Feature.SOFT_BUDGETS}


def answer(problem: PlacementProblem, solver: str, options: Mapping[str, Any] | None = None) -> SolveResult:
    return solve(problem, solver, presolve=False, time_limit=20, options=options)


@settings(max_examples=60, deadline=None)
@given(problems(features=PLAIN, costs=TAME, max_labels=9, max_states=20_000), st.sampled_from([None, 3]))
def test_same_objective_as_with_every_entry_priced(problem: PlacementProblem, candidates: int | None) -> None:
    eager = answer(priced(problem), "trws")
    lazy = answer(problem, "trws-lazy", {"candidates": candidates})
    assert (lazy.objective is None) == (eager.objective is None)
    if eager.objective is not None:
        assert lazy.objective == pytest.approx(eager.objective, rel=1e-9, abs=1e-9)
    assert (lazy.termination.reason is Reason.INFEASIBLE) == (eager.termination.reason is Reason.INFEASIBLE)


@settings(max_examples=40, deadline=None)
@given(problems(costs=TAME, max_labels=6), st.sampled_from([None, 3]))
def test_bounds_hold_for_the_true_costs_with_budgets_too(problem: PlacementProblem, candidates: int | None) -> None:
    truth = brute_force(problem)
    lazy = answer(problem, "trws-lazy", {"candidates": candidates})
    verify_bound(lazy, truth.objective)
    if lazy.assignment is not None:
        verify_feasible(problem, lazy)
        assert lazy.objective is not None
        assert lazy.objective >= truth.objective - 1e-6 * max(1.0, abs(truth.objective))
