"""The solver `lp`: integral, fractional, rounded, stopped, infeasible, and numbers at the edge of float64."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from berthage import OptionError, PlacementProblem, ProblemBuilder, Reason, SolveResult, evaluate, solve
from berthage.linear import linear_program
from berthage.testing import brute_force
from berthage_lp import LpOptions, lower_bound


def lp(problem: PlacementProblem, **options: object) -> SolveResult:
    shortcuts = {k: options.pop(k) for k in ("time_limit", "iteration_limit", "cutoff") if k in options}
    return solve(problem, "lp", presolve=False, options=options, **shortcuts)


def triangle(constant: float = 0) -> PlacementProblem:
    """Three variables of which every two want to differ: the relaxation says 0, the truth is 1."""
    b = ProblemBuilder("triangle")
    b.add_constant(constant)
    for name in "abc":
        b.add_variable(name, 2)
    for u, v in (("a", "b"), ("b", "c"), ("a", "c")):
        b.add_pairwise(u, v, [[1, 0], [0, 1]])
    return b.build()


def tree(seed: int = 0) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    b = ProblemBuilder("tree")
    for v in range(7):
        b.add_variable(f"v{v}", 4, rng.random(4))
    for v in range(1, 7):
        b.add_pairwise(v, int(rng.integers(0, v)), rng.random((4, 4)))
    return b.build()


@pytest.mark.parametrize("method", ["simplex", "ipm"])
def test_a_tree_is_integral_and_proved(method: str) -> None:
    problem = tree()
    result = lp(problem, method=method)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(brute_force(problem).objective, rel=1e-12)
    assert result.stats["method"] == method


def test_a_fractional_relaxation_is_refused_with_its_bound_and_the_way_out() -> None:
    result = lp(triangle(constant=5))
    assert result.termination.reason is Reason.NOT_INTEGRAL
    assert result.assignment is None
    assert result.bound == 5
    assert result.stats["fractional_variables"] == 3
    assert "fractional in 3 of 3 variables" in result.termination.detail
    assert "ilp" in result.termination.detail


def test_rounding_gives_a_checked_assignment_with_its_gap() -> None:
    result = lp(triangle(), round=True)
    assert result.termination.reason is Reason.FEASIBLE
    assert result.objective == 1
    assert result.bound == 0
    assert result.relative_gap == 1
    assert "3 of 3 variables fractional" in result.termination.detail


def test_rounding_respects_budgets_and_forbidden_pairs() -> None:
    rng = np.random.default_rng(5)
    b = ProblemBuilder()
    for v in range(12):
        b.add_variable(f"v{v}", 4, rng.integers(0, 20, 4))
    for v in range(12):
        for w in (v + 1, v + 3):
            mask = rng.random((4, 4)) < 0.75
            b.add_pairwise(v, w % 12, np.where(mask, rng.integers(0, 20, (4, 4)), np.inf))
    weights = {v: rng.integers(1, 10, 4) for v in range(12)}
    b.add_budget("bytes", weights, upper=40)
    problem = b.build()
    result = lp(problem, round=True)
    assert result.assignment is not None
    assert evaluate(problem, result.assignment).feasible
    assert result.bound <= solve(problem, "ilp").objective <= result.objective


def test_the_problem_is_not_changed() -> None:
    problem = triangle()
    digest, unary = problem.digest, problem.unary.copy()
    lp(problem, round=True)
    lower_bound(problem)
    assert np.array_equal(problem.unary, unary)
    assert triangle().digest == digest


def test_lower_bound() -> None:
    problem = tree(3)
    optimum = brute_force(problem).objective
    assert lower_bound(problem) <= optimum
    assert lower_bound(problem) == pytest.approx(optimum, rel=1e-12)
    assert lower_bound(problem, options=LpOptions(method="ipm")) == pytest.approx(optimum, rel=1e-7)
    assert lower_bound(triangle()) == pytest.approx(0, abs=1e-12)
    assert -math.inf < lower_bound(problem, time_limit=0.0) <= optimum


def test_certify_with_lp() -> None:
    problem = tree(4)
    best = brute_force(problem)

    def guess(problem: object, params: object, options: object, context: object) -> object:
        from berthage import Limit, SolverOutcome, Termination

        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.OTHER), best.assignment)

    result = solve(problem, guess, certify="lp")
    assert result.stats["certified_by"] == "lp"
    assert result.termination.reason is Reason.OPTIMAL


def odd_cycle_of_relations() -> PlacementProblem:
    """Infeasible, though the relaxation alone cannot tell."""
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    for u, v in (("a", "b"), ("b", "c"), ("a", "c")):
        b.allow_pairs(u, v, [[False, True], [True, False]])
    return b.build()


def test_what_the_relaxation_cannot_refute_is_not_called_infeasible() -> None:
    assert lp(odd_cycle_of_relations()).termination.reason is Reason.NOT_INTEGRAL


def test_infeasible_is_proved_from_a_dual_ray() -> None:
    b = ProblemBuilder()
    for v in range(4):
        b.add_variable(f"v{v}", 2, [0, 1])
    for v in range(3):
        b.add_pairwise(v, v + 1, [[0, np.inf], [np.inf, 0]])
    b.add_budget("low", {v: [5, 0] for v in range(4)}, upper=12)
    b.add_budget("high", {v: [0, 5] for v in range(4)}, upper=7)
    problem = b.build()
    result = lp(problem)
    assert result.termination.reason is Reason.INFEASIBLE
    assert result.bound == math.inf
    assert result.stats["certified"] is True
    assert lower_bound(problem) == math.inf


def test_a_cutoff_below_the_bound_is_infeasible() -> None:
    problem = tree()
    best = float(brute_force(problem).objective)
    assert lp(problem, cutoff=best - 0.01).termination.reason is Reason.INFEASIBLE
    assert lp(problem, cutoff=best + 0.01).termination.reason is Reason.OPTIMAL


@pytest.mark.parametrize("limits", [{"iteration_limit": 1}, {"time_limit": 0.0}])
def test_limits_leave_a_valid_bound(limits: dict[str, float]) -> None:
    rng = np.random.default_rng(1)
    b = ProblemBuilder()
    for v in range(6):
        b.add_variable(f"v{v}", 4, rng.random(4))
    for v in range(6):
        for w in range(v):
            b.add_pairwise(v, w, rng.normal(size=(4, 4)))
    problem = b.build()
    result = lp(problem, **limits)
    assert result.termination.reason is Reason.NO_SOLUTION_FOUND
    assert result.assignment is None
    assert -math.inf < result.bound <= brute_force(problem).objective


def test_a_time_limit_is_kept_and_rounding_still_has_something() -> None:
    rng = np.random.default_rng(0)
    b = ProblemBuilder()
    for v in range(45):
        b.add_variable(f"v{v}", 12, rng.random(12))
    for v in range(45):
        for w in range(v):
            b.add_pairwise(v, w, rng.normal(size=(12, 12)))
    problem = b.build()
    started = time.perf_counter()
    result = lp(problem, time_limit=1.5, round=True)
    assert time.perf_counter() - started < 3.5
    assert result.termination.reason is Reason.FEASIBLE
    assert math.isfinite(result.bound)


def test_nothing_to_choose() -> None:
    b = ProblemBuilder()
    b.add_constant(3)
    result = lp(b.build())
    assert (result.termination.reason, result.objective) == (Reason.OPTIMAL, 3)


def test_a_cost_of_1e308_among_small_ones() -> None:
    b = ProblemBuilder()
    for v in range(5):
        b.add_variable(f"v{v}", 3, [1e308, v, 2.5])
    for v in range(4):
        b.add_pairwise(v, v + 1, [[0, 1, 2], [1e308, 3, 1e308], [1, 1e308, 0.5]])
    result = lp(b.build())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == 14.5


def test_a_cost_of_1e308_that_cannot_be_avoided() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [1e308, 1e308])
    b.add_variable("b", 2, [1, 2])
    b.add_pairwise("a", "b", [[5, 3], [0, 7]])
    result = lp(b.build())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == int(1e308) + 1


def test_costs_far_below_the_solvers_tolerance() -> None:
    b = ProblemBuilder()
    for v in range(4):
        b.add_variable(f"v{v}", 3, [1e-12 * v, 3e-12, 2e-12])
    for v in range(3):
        b.add_pairwise(v, v + 1, np.array([[1, 0, 5], [4, 1, 0], [0, 0, 1]]) * 1e-12)
    problem = b.build()
    assert lp(problem).objective == pytest.approx(brute_force(problem).objective, rel=1e-12)


def test_a_byte_budget_exceeded_within_the_solvers_tolerance() -> None:
    """At x = 1 − 1e-12 the row holds; the label itself is 1 byte too many."""
    b = ProblemBuilder()
    b.add_variable("a", 2, [0, 10])
    b.add_variable("b", 2, [0, 1])
    b.add_budget("bytes", {0: [10**12, 0], 1: [1, 0]}, upper=10**12 - 1)
    result = lp(b.build(), round=True)
    assert result.objective == 10
    assert lower_bound(b.build()) <= 10


def test_unknown_and_ill_typed_options_are_refused() -> None:
    for options in ({"method": "magic"}, {"round": "perhaps"}, {"rounding": True}):
        with pytest.raises(OptionError):
            solve(triangle(), "lp", options=options)


def test_the_bound_is_below_the_optimum_whatever_the_data() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        b = ProblemBuilder()
        size = 10.0 ** rng.integers(-9, 12)
        for v in range(5):
            b.add_variable(f"v{v}", 3, rng.normal(size=3) * size)
        for _ in range(7):
            u, v = map(int, rng.choice(5, 2, replace=False))
            b.add_pairwise(u, v, rng.normal(size=(3, 3)) * size)
        problem = b.build()
        bound, optimum = lower_bound(problem), brute_force(problem).objective
        assert bound <= optimum, seed
        assert bound >= linear_program(problem).bound_of(0.0), seed
