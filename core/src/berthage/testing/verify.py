"""Assertions about results, each with a message that says what was claimed and what is true."""

from __future__ import annotations

import math

from berthage import PlacementProblem, Reason, SolveResult, evaluate
from berthage.testing.reference import reference_evaluate

__all__ = ["verify_bound", "verify_feasible", "verify_infeasible", "verify_objective", "verify_optimal"]


def _slack(value: int | float, tolerance: float) -> float:
    return tolerance * max(1.0, abs(float(value)))


def verify_feasible(problem: PlacementProblem, result: SolveResult) -> None:
    """The result holds an assignment that two evaluators find feasible and price as the result says."""
    assert result.assignment is not None, f"no assignment: {result.termination}"
    ours = evaluate(problem, result.assignment)
    theirs = reference_evaluate(problem, result.assignment.tolist())
    assert ours.feasible, f"the assignment breaks {[v.name for v in ours.violations]}"
    assert theirs.feasible, f"the reference evaluator says the assignment breaks {sorted(theirs.violated)}"
    assert result.objective == ours.objective, f"the result says {result.objective!r}, evaluate says {ours.objective!r}"
    if problem.is_integral:
        assert theirs.cost == ours.objective, f"evaluate says {ours.objective!r}, exact sums give {theirs.cost!r}"
    else:
        assert math.isclose(theirs.objective, float(ours.objective), rel_tol=1e-9, abs_tol=1e-9), (
            f"evaluate says {ours.objective!r}, exact sums give {theirs.objective!r}"
        )


def verify_objective(
    problem: PlacementProblem, result: SolveResult, optimum: int | float, *, tolerance: float = 1e-6
) -> None:
    """The result holds a feasible assignment whose objective is ``optimum`` (within a relative tolerance)."""
    verify_feasible(problem, result)
    assert result.objective is not None
    gap = abs(result.objective - optimum)
    assert gap <= _slack(optimum, tolerance), f"objective {result.objective!r}, the optimum is {optimum!r}"


def verify_bound(result: SolveResult, optimum: int | float, *, tolerance: float = 1e-6) -> None:
    """The bound is a number and no bound exceeds the optimum (inf: infeasible), the trace's included."""
    claims = [("bound", result.bound), *((f"bound at {p.time:.3f} s", p.bound) for p in result.trace)]
    for what, bound in claims:
        assert not math.isnan(bound), f"{what} is NaN"
        if math.isfinite(optimum):
            assert bound <= optimum + _slack(optimum, tolerance), f"{what} {bound!r} exceeds the optimum {optimum!r}"


def verify_optimal(
    problem: PlacementProblem, result: SolveResult, optimum: int | float, *, tolerance: float = 1e-6
) -> None:
    """The result says OPTIMAL, its objective is the optimum, and its bound proves it."""
    assert result.termination.reason is Reason.OPTIMAL, f"expected a proved optimum, got {result.termination}"
    verify_objective(problem, result, optimum, tolerance=tolerance)
    verify_bound(result, optimum, tolerance=tolerance)
    assert result.bound >= optimum - _slack(optimum, tolerance), (
        f"OPTIMAL without proof: bound {result.bound!r}, optimum {optimum!r}"
    )


def verify_infeasible(problem: PlacementProblem, result: SolveResult) -> None:
    """The result says INFEASIBLE, holds no assignment, and gives a reason in names of the problem."""
    assert result.termination.reason is Reason.INFEASIBLE, f"expected infeasible, got {result.termination}"
    assert result.assignment is None, "infeasible, yet with an assignment"
    assert result.objective is None, "infeasible, yet with an objective"
    why = result.infeasibility
    assert why is not None, "infeasible without a reason (SolveResult.infeasibility is None)"
    assert why.constraints or why.detail or why.live, "the reason names nothing"
    known = {*problem.constraint_names, *problem.variable_names}
    known |= {problem.edge_name(e) for e in range(problem.num_edges)}
    unknown = [name for name in (*why.constraints, *why.live) if name not in known]
    assert not unknown, f"the reason names {unknown}, which the problem does not have"
