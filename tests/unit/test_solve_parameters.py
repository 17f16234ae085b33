"""What `solve` may be given: solvers, options, parameters, a warm start."""

from __future__ import annotations

import math
from typing import Any

import pytest
from solver_answers import RecorderPlugin, honest, run, says, small

from berthage import (
    InvalidProblemError,
    Limit,
    OptionError,
    PlacementProblem,
    Reason,
    Registry,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    UnknownNameError,
    solve,
)


def test_a_solver_may_be_an_object_a_callable_or_a_name() -> None:
    class Object:
        name = "object"

        def solve(
            self, problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext
        ) -> SolverOutcome:
            return honest(problem, params, options, context)

    assert run(Object()).solver == "object"
    with pytest.raises(UnknownNameError):
        run("no-such-solver")
    with pytest.raises(OptionError, match="int"):
        run(3)


def test_options_and_parameters_reach_the_solver_checked() -> None:
    registry = Registry({"mine": RecorderPlugin()})
    result = solve(small(), "recorder", options={"sweeps": 5}, seed=4, presolve=False, registry=registry)
    assert result.stats == {"sweeps": 5, "seed": 4}
    assert (result.solver, result.solver_version, result.seed) == ("recorder", "7", 4)
    with pytest.raises(OptionError, match="swaps"):
        solve(small(), "recorder", options={"swaps": 5}, registry=registry)
    with pytest.raises(OptionError, match="sweeps"):
        solve(small(), "recorder", options={"sweeps": "many"}, registry=registry)


@pytest.mark.parametrize(
    "wrong",
    [{"time_limit": "5"}, {"cutoff": "3"}, {"seed": 1.5}, {"iteration_limit": 2.5}, {"seed": True}, {"gap": math.nan}],
)
def test_parameters_of_the_wrong_kind_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        SolveParams(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_limit": -1},
        {"time_limit": math.nan},
        {"gap": -0.1},
        {"threads": 0},
        {"seed": -1},
        {"iteration_limit": -1},
        {"cutoff": math.nan},
        {"tme_limit": 3},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        run(honest, **wrong)


def test_a_warm_start_is_a_floor() -> None:
    nothing = SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.TIME))
    result = run(says(nothing), warm_start=[0, 1])
    assert result.objective == 2
    assert result.termination == Termination(Reason.FEASIBLE, Limit.TIME)
    assert run(says(nothing), warm_start=[1, 1]).assignment is None, "an infeasible start counts for nothing"
    with pytest.raises(InvalidProblemError):
        run(says(nothing), warm_start=[0])
