"""`solve` where nothing can be found: which constraints clash, and when the claim is not believed."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from solver_answers import OPTIMAL, honest, labels, run, says, small

from berthage import (
    Infeasibility,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    SolutionUnavailableError,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    evaluate,
    solve,
)


def test_a_false_infeasible_is_exposed_when_the_constraints_can_be_met() -> None:
    """A solver that says infeasible only where costs are large: the second opinion finds an assignment."""

    def confused(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        if problem.unary.max() > 0:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        return honest(problem, params, options, context)

    result = run(confused)
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert "infeasible" in result.termination.detail
    assert result.assignment is not None
    assert evaluate(small(), result.assignment).feasible


def test_infeasible_names_the_constraints_that_clash() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.allow_pairs("a", "b", np.eye(2, dtype=bool), name="same")
    b.allow_pairs("b", "c", np.eye(2, dtype=bool), name="irrelevant")
    b.allow_pairs("a", "b", ~np.eye(2, dtype=bool), name="differ")
    b.add_budget("loose", {"c": [0, 1]}, upper=1)
    result = run(honest, b.build())
    assert result.termination.reason is Reason.INFEASIBLE
    assert result.infeasibility is not None
    assert set(result.infeasibility.constraints) == {"same", "differ"}
    assert "'same'" in result.infeasibility.detail
    with pytest.raises(SolutionUnavailableError, match="same"):
        result.require()


def clashing() -> PlacementProblem:
    """Three ties that cannot hold together; static checks do not see it."""
    b = ProblemBuilder("clashing")
    for name in "abc":
        b.add_variable(name, 2)
    b.tie("a", "b", [0, 1], name="t1")
    b.tie("b", "c", [0, 1], name="t2")
    b.tie("c", "a", [1, 0], name="t3")
    b.add_budget("loose", {"c": [0, 1]}, upper=1)
    return b.build()


def test_the_solver_s_own_reason_is_kept_when_what_it_names_suffices() -> None:
    why = Infeasibility("because", ("t1", "t2", "t3"))
    result = run(says(SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf, why)), clashing())
    assert result.infeasibility == why


def test_a_reason_that_names_no_removable_constraints_is_completed() -> None:
    why = Infeasibility("variable 'a' has no label left", ("a",))

    def vague(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        outcome = honest(problem, params, options, context)
        return dataclasses.replace(outcome, infeasibility=why) if outcome.assignment is None else outcome

    result = run(vague, clashing())
    assert result.infeasibility is not None
    assert result.infeasibility.constraints == ("t1", "t2", "t3")
    assert "no label left" in result.infeasibility.detail


def test_a_budget_that_only_clashes_with_pins_names_the_pins_too() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.fix("a", 1, name="F0")
    b.fix("b", 1, name="F1")
    b.add_budget("mem", {"a": [0, 1], "b": [0, 1]}, upper=1)
    result = run(honest, b.build())
    assert result.infeasibility is not None
    assert set(result.infeasibility.constraints) == {"F0", "F1", "mem"}


def test_a_claim_of_infeasibility_is_refuted_where_nothing_forbids_anything() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [0.5, 1.25])
    result = run(says(SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)), b.build())
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.objective == 0.5


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_a_cutoff_that_a_loose_proof_does_not_reach_is_not_called_infeasible(gap: float) -> None:
    def loose(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        dearest = np.array([int(np.argmax(problem.unary_of(v))) for v in range(problem.num_variables)])
        context.incumbent(dearest)
        return SolverOutcome(OPTIMAL, dearest, 0.0)

    b = ProblemBuilder()
    b.add_variable("a", 2, [10, 11])
    b.add_variable("b", 2, [10, 11])
    for params in ({}, {"presolve": ["components"]}):
        result = solve(b.build(), loose, cutoff=20, gap=gap, **{"presolve": False, **params})
        assert result.termination.reason is not Reason.INFEASIBLE


def test_too_little_memory_is_named_before_any_solver_runs() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.add_interval_budget("memory", [("a", 0, 3, [5, 4]), ("b", 2, 6, [7, 6])], limit=9)
    result = run(says(SolverOutcome(OPTIMAL)), b.build())
    why = result.infeasibility
    assert why is not None
    assert (why.constraints, why.instant, set(why.live), why.least_limit) == (("memory",), 2, {"a", "b"}, 10)
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_budget("sum", {"a": [5, 4]}, upper=3)
    why = run(says(SolverOutcome(OPTIMAL)), b.build()).infeasibility
    assert why is not None
    assert (why.constraints, why.least_limit) == (("sum",), 4)


@pytest.mark.parametrize("kind", ["sum", "over time"])
def test_a_pin_that_fills_a_budget_is_named_with_it(kind: str) -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.allow("a", [0], name="pin of a")
    b.allow("b", [1], name="pin of b")  # takes nothing that is needed
    b.allow("c", [0], name="pin of c")  # has no part in the budget
    if kind == "sum":
        b.add_budget("memory", {"a": [9, 1], "b": [5, 2]}, upper=5)
    else:
        b.add_interval_budget("memory", [("a", 0, 3, [9, 1]), ("b", 2, 6, [5, 2])], limit=5)
    why = run(says(SolverOutcome(OPTIMAL)), b.build()).infeasibility
    assert why is not None
    assert why.constraints == ("memory", "pin of a")
    assert "'memory' with 'pin of a'" in why.detail


@pytest.mark.parametrize("cutoff", [0, -7, 0.5])
def test_nothing_at_or_below_the_cutoff_is_infeasible_and_says_so(cutoff: float) -> None:
    result = run(honest, cutoff=cutoff)
    assert result.termination.reason is Reason.INFEASIBLE
    assert result.assignment is None
    assert result.infeasibility is not None
    assert str(cutoff) in result.infeasibility.detail
    assert result.bound <= 1


def test_a_solver_that_ignores_the_cutoff_is_not_believed() -> None:
    ignorant = says(SolverOutcome(OPTIMAL, labels(1, 0), 1.0))
    result = run(ignorant, cutoff=0)
    assert result.assignment is None
    assert result.termination.reason in (Reason.INFEASIBLE, Reason.NUMERICAL_ERROR)
