"""`solve` believes no solver: what each lie becomes, and what stands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from solver_answers import OPTIMAL, RecorderPlugin, fractional, honest, labels, run, says, small

from berthage import (
    InvalidProblemError,
    Limit,
    PlacementProblem,
    PluginError,
    ProblemBuilder,
    Reason,
    Registry,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    UnsupportedProblemError,
    evaluate,
    solve,
)
from berthage.solving.params import Progress


def test_an_honest_answer_stands() -> None:
    result = run(honest)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.termination.limit is None
    assert result.objective == 1
    assert type(result.objective) is int
    assert result.bound == 1
    assert result.absolute_gap == result.relative_gap == 0
    assert result.require().tolist() == [1, 0]
    assert result.evaluation is not None
    assert result.evaluation.objective == 1
    assert result.solver == "honest"


LIES: dict[str, tuple[SolverOutcome, str]] = {
    "infeasible assignment": (SolverOutcome(OPTIMAL, labels(1, 1), 0.0), "infeasible"),
    "too short": (SolverOutcome(OPTIMAL, labels(1), 1.0), "2, got"),
    "label out of range": (SolverOutcome(OPTIMAL, labels(1, 2), 1.0), "'b' has 2 labels"),
    "negative label": (SolverOutcome(OPTIMAL, labels(-1, 0), 1.0), "'a' has 2 labels"),
    "float labels": (SolverOutcome(OPTIMAL, np.array([1.0, 0.0]), 1.0), "integers"),  # type: ignore[arg-type]
    "NaN bound": (SolverOutcome(OPTIMAL, labels(1, 0), math.nan), "NaN"),
    "bound above a feasible objective": (SolverOutcome(OPTIMAL, labels(1, 0), 2.0), "above the objective"),
    "infinite bound with an assignment": (SolverOutcome(OPTIMAL, labels(1, 0), math.inf), "above the objective"),
    "infeasible with an assignment": (
        SolverOutcome(Termination(Reason.INFEASIBLE), labels(1, 0), -math.inf),
        "feasible assignment costs",
    ),
    "optimal without an assignment": (SolverOutcome(OPTIMAL, None, 1.0), "no assignment"),
    "feasible without an assignment": (
        SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), None, 1.0),
        "no assignment",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_numerical_error_that_says_what_was_wrong(lie: str) -> None:
    outcome, complaint = LIES[lie]
    result = run(says(outcome))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert complaint in result.termination.detail
    if result.assignment is not None:
        assert evaluate(small(), result.assignment).feasible
        assert result.bound <= float(result.objective or 0)
    assert not math.isnan(result.bound)


def test_optimal_stands_only_with_a_bound_that_proves_it() -> None:
    result = run(says(SolverOutcome(OPTIMAL, labels(0, 1), 0.0)))
    assert result.termination.reason is Reason.FEASIBLE
    assert result.termination.limit is Limit.OTHER
    assert "bound" in result.termination.detail
    assert (result.objective, result.bound) == (2, 0)


def test_a_proof_makes_it_optimal_even_if_the_solver_was_modest() -> None:
    modest = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1, 0), 1.0)
    assert run(says(modest)).termination.reason is Reason.OPTIMAL


def test_bounds_of_whole_problems_are_rounded_up_and_of_others_not() -> None:
    answer = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(0, 1), 0.4)
    assert run(says(answer)).bound == 1
    answer = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1), 0.4)
    assert run(says(answer), fractional()).bound == 0.4


def test_rounding_up_does_not_turn_a_rounding_error_into_a_false_bound() -> None:
    answer = SolverOutcome(OPTIMAL, labels(1, 0), 1.0 + 1e-9)
    result = run(says(answer))
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 1


def test_a_bound_a_hair_above_the_objective_is_clipped() -> None:
    result = run(says(SolverOutcome(OPTIMAL, labels(0), 0.5 + 1e-10)), fractional())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 0.5


def test_a_gap_widens_what_optimal_means() -> None:
    answer = SolverOutcome(OPTIMAL, labels(0, 1), 1.0)
    assert run(says(answer), gap=0.5).termination.reason is Reason.OPTIMAL
    assert run(says(answer), gap=0.4).termination.reason is Reason.FEASIBLE


def test_incumbents_told_on_the_way_count_and_the_best_is_kept() -> None:
    told: list[int | float | None] = []

    def chatty(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        told.append(context.incumbent([0, 0]))
        told.append(context.incumbent([1, 1]))  # forbidden
        told.append(context.incumbent([7, 7]))  # nonsense
        told.append(context.incumbent([1, 0]))
        context.bound(0.0)
        context.bound(-5.0)
        context.bound(math.nan)
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.ITERATIONS), labels(0, 1))

    seen: list[Progress] = []
    result = run(chatty, observer=seen.append)
    assert told == [3, None, None, 1]
    assert result.objective == 1
    assert result.bound == 0
    assert result.termination == Termination(Reason.FEASIBLE, Limit.ITERATIONS)
    assert [p.objective for p in seen if p.event == "incumbent"] == [3, 1]
    assert [p.bound for p in seen if p.event == "bound"] == [0]
    assert [t.time for t in result.trace] == sorted(t.time for t in result.trace)


@pytest.mark.parametrize(
    "wrong",
    [{"bound": None}, {"stats": None}, {"termination": "optimal"}, {"infeasibility": "because"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_outcome_with_fields_of_the_wrong_kind_names_the_solver(wrong: dict[str, Any]) -> None:
    outcome = SolverOutcome(
        **{"termination": Termination(Reason.OPTIMAL), "assignment": labels(1, 0), "bound": 1.0, **wrong}
    )
    with pytest.raises(PluginError, match=f"liar.*{next(iter(wrong))}"):
        run(says(outcome))


def test_an_empty_problem_needs_no_solver() -> None:
    b = ProblemBuilder()
    b.add_constant(5)
    never = says(SolverOutcome(Termination(Reason.NUMERICAL_ERROR)))
    result = run(never, b.build())
    assert (result.termination.reason, result.objective, result.bound) == (Reason.OPTIMAL, 5, 5)
    assert run(never, b.build(), cutoff=4).termination.reason is Reason.INFEASIBLE
    b.add_budget("impossible", {}, lower=1)
    assert run(never, b.build()).termination.reason is Reason.INFEASIBLE


def test_a_solver_that_raises_or_returns_rubbish_is_a_plugin_error() -> None:
    def crashes(*_: Any) -> SolverOutcome:
        raise ZeroDivisionError("oops")

    def rubbish(*_: Any) -> Any:
        return {"objective": 1}

    def refuses(*_: Any) -> SolverOutcome:
        raise UnsupportedProblemError("three-way costs")

    with pytest.raises(PluginError, match=r"'crashes'.*oops"):
        run(crashes)
    with pytest.raises(PluginError, match=r"'rubbish'.*dict"):
        run(rubbish)
    with pytest.raises(UnsupportedProblemError, match="three-way"):
        run(refuses)


def test_a_limit_goes_with_its_reasons_and_no_others() -> None:
    for reason in Reason:
        stopped = reason in (Reason.FEASIBLE, Reason.NO_SOLUTION_FOUND)
        with pytest.raises(ValueError, match="limit"):
            Termination(reason, None if stopped else Limit.TIME)


def test_certify_takes_the_better_bound() -> None:
    weak = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1, 0), -3.0)

    registry = Registry({"mine": RecorderPlugin()})
    result = solve(small(), says(weak), certify="recorder", presolve=False, registry=registry)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 1
    assert result.stats["certified_by"] == "recorder"


def test_enormous_costs_overflow_into_an_error_that_says_so() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1, [1e308])
    b.add_variable("b", 1, [1e308])
    with pytest.raises(InvalidProblemError, match="rescale"):
        run(says(SolverOutcome(OPTIMAL, labels(0, 0), 0.0)), b.build())
