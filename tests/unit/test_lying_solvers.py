"""Solvers that return nonsense: core believes none of it, and what it says names the solver or the lie."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from solver_answers import OPTIMAL, says

from berthage import (
    Infeasibility,
    Limit,
    PlacementProblem,
    PluginError,
    ProblemBuilder,
    Reason,
    SolveResult,
    SolverOutcome,
    Termination,
    evaluate,
    solve,
)

INFEASIBLE = Termination(Reason.INFEASIBLE)


def two() -> PlacementProblem:
    """Least cost 0.75 at [1, 0]; nothing is forbidden, and the cheapest labels are not the answer."""
    b = ProblemBuilder("two")
    b.add_variable("a", 2, [0.25, 0.5])
    b.add_variable("b", 3, [0.25, 0.125, 2.0])
    b.add_pairwise("a", "b", [[4.0, 4.0, 4.0], [0.0, 4.0, 4.0]])
    return b.build()


def apart() -> PlacementProblem:
    """Two components, of least cost 1 each."""
    b = ProblemBuilder("apart")
    for name in "ab":
        b.add_variable(name, 2, [1, 3])
    return b.build()


def result_of(outcome: Any, problem: PlacementProblem | None = None, **params: Any) -> SolveResult:
    params.setdefault("presolve", False)
    return solve(problem or two(), says(outcome), **params)


@pytest.mark.parametrize("presolve", [False, ["components"]])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bound", None),
        ("bound", "0.5"),
        ("bound", [0.5]),
        ("bound", np.array([0.5, 0.5])),
        ("bound", 1j),
        ("stats", None),
        ("stats", [("nodes", 3)]),
        ("termination", None),
        ("termination", "optimal"),
        ("termination", Reason.OPTIMAL),
        ("infeasibility", "because"),
    ],
)
def test_a_field_of_the_wrong_kind_is_a_plugin_error_naming_solver_and_field(
    field: str, value: Any, presolve: Any
) -> None:
    pytest.importorskip("berthage_presolve") if presolve else None
    honest = {"termination": OPTIMAL, "assignment": np.array([1, 0]), "bound": 0.75}
    with pytest.raises(PluginError, match=f"'liar'.*{field}"):
        result_of(SolverOutcome(**{**honest, field: value}), presolve=presolve)


@pytest.mark.parametrize("what", [None, (OPTIMAL, [1, 0], 0.75), {"assignment": [1, 0]}, np.array([1, 0]), Termination])
def test_anything_but_an_outcome_is_a_plugin_error(what: Any) -> None:
    with pytest.raises(PluginError, match="'liar' returned"):
        result_of(what)


@pytest.mark.parametrize(
    "assignment",
    [
        [[1], [0, 1]],
        [1, [0]],
        [[1, 0]],
        [1],
        [1, 0, 0],
        [],
        1,
        "10",
        ["1", "0"],
        [1.0, 0.0],
        [0.5, math.nan],
        [True, False],
        [None, 0],
        {"a": 1, "b": 0},
        [2, 0],
        [-1, 0],
        [10**30, 0],
        [2**63, 0],
        object(),
    ],
    ids=lambda value: "object" if type(value) is object else repr(value),
)
@pytest.mark.parametrize("told", ["returned", "incumbent"])
def test_what_is_no_assignment_is_never_taken_for_one(assignment: Any, told: str) -> None:
    """Ragged lists, wrong lengths, labels that are none: NUMERICAL_ERROR or PluginError, nothing else."""

    def lies(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        if told == "incumbent":
            context.incumbent(assignment)
            return SolverOutcome(OPTIMAL, None, 0.75)
        return SolverOutcome(OPTIMAL, assignment, 0.75)

    try:
        result = solve(two(), lies, presolve=False)
    except PluginError as error:
        told = str(error)
    else:
        assert result.termination.reason is Reason.NUMERICAL_ERROR
        assert result.assignment is None
        told = f"'lies': {result.termination.detail}"
    assert "'lies'" in told


@pytest.mark.parametrize("bound", [math.nan, 0.76, 1e300, math.inf])
def test_a_bound_above_an_assignment_that_is_known_is_a_lie(bound: float) -> None:
    result = result_of(SolverOutcome(OPTIMAL, np.array([1, 0]), bound))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.objective == 0.75
    assert result.bound == -math.inf


@pytest.mark.parametrize("bound", [-math.inf, -1e300, 0.0, 0.74])
def test_optimal_without_proof_is_only_feasible(bound: float) -> None:
    result = result_of(SolverOutcome(OPTIMAL, np.array([1, 0]), bound))
    assert result.termination.reason is Reason.FEASIBLE
    assert result.bound == bound


@pytest.mark.parametrize("cutoff", [None, 2, 2.5, 10**30])
@pytest.mark.parametrize("presolve", [False, ["components"]])
@pytest.mark.parametrize("bound", [math.inf, -math.inf, 0.0])
@pytest.mark.parametrize("why", [None, Infeasibility("because", ("nothing",))], ids=["silent", "reasoned"])
def test_infeasible_where_nothing_is_forbidden_is_refuted(
    why: Infeasibility | None, bound: float, presolve: Any, cutoff: float | None
) -> None:
    pytest.importorskip("berthage_presolve") if presolve else None
    outcome = SolverOutcome(INFEASIBLE, None, bound, why)
    result = result_of(outcome, apart(), presolve=presolve, cutoff=cutoff)
    assert result.termination.reason is Reason.NUMERICAL_ERROR, result.termination
    assert "infeasible" in result.termination.detail


def test_infeasible_is_refuted_by_the_cheapest_labels_however_dear_they_are_together() -> None:
    result = result_of(SolverOutcome(INFEASIBLE, None, math.inf))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.objective == evaluate(two(), [0, 1]).objective


def test_infeasible_beside_an_assignment_is_refuted_by_it() -> None:
    result = result_of(SolverOutcome(INFEASIBLE, np.array([1, 0]), math.inf))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.objective == 0.75


@pytest.mark.parametrize("reason", [Reason.OPTIMAL, Reason.FEASIBLE])
def test_a_solution_that_is_claimed_but_not_given_is_a_lie(reason: Reason) -> None:
    ended = Termination(reason, Limit.CONVERGED if reason is Reason.FEASIBLE else None)
    result = result_of(SolverOutcome(ended, None, 0.0))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.assignment is None


def test_a_solver_that_scribbles_over_its_assignment_afterwards_changes_no_result() -> None:
    mine = np.array([1, 0], dtype=np.int32)

    def scribbles(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        assert context.incumbent(mine) == 0.75
        mine[:] = [0, 2]
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.CONVERGED))

    result = solve(two(), scribbles, presolve=False)
    assert result.objective == 0.75
    assert evaluate(two(), result.require()).objective == 0.75
