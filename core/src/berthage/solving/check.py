"""Checking what a solver returned: the assignment is evaluated, the bound held against it, the claim against both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from berthage.errors import InvalidProblemError, PluginError
from berthage.evaluation import evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.solving.context import SolveContext
from berthage.solving.results import Infeasibility, Limit, Reason, SolverOutcome, Termination, relative_gap

__all__ = ["PROOF_TOLERANCE", "CheckedOutcome", "check_outcome", "check_shape", "integral_bound"]

PROOF_TOLERANCE = 1e-9
"""Relative gap within which an assignment counts as proved optimal when no larger gap was asked for."""

FALSE_BOUND_TOLERANCE = 1e-7
"""A bound above the objective by more than this, relative, is false; by less, it is rounding and is clipped."""


@dataclass(frozen=True, slots=True)
class CheckedOutcome:
    """A solver's outcome on one problem after core's checks."""

    termination: Termination
    assignment: Int32Array | None
    objective: int | float | None
    bound: float
    infeasibility: Infeasibility | None


def integral_bound(bound: float) -> float:
    """A bound on whole-number objectives rounded up to the next whole number, safely against rounding errors."""
    if not math.isfinite(bound) or abs(bound) >= 2.0**52:
        return bound
    return max(bound, float(math.ceil(bound - 1e-6 - 1e-9 * abs(bound))))


def check_shape(solver: str, outcome: SolverOutcome) -> None:
    """Refuse an outcome whose fields are of the wrong kind; solvers need not be type-checked."""
    wanted: dict[str, tuple[type, ...]] = {
        "termination": (Termination,),
        "bound": (int, float, np.integer, np.floating),
        "stats": (Mapping,),
        "infeasibility": (Infeasibility, type(None)),
    }
    for field, kinds in wanted.items():
        value = getattr(outcome, field)
        if not isinstance(value, kinds):
            raise PluginError(f"solver {solver!r} returned an outcome whose {field} is {value!r}")


def check_outcome(problem: PlacementProblem, outcome: SolverOutcome, context: SolveContext) -> CheckedOutcome:
    """Evaluate and correct an outcome; a claim that does not stand becomes `Reason.NUMERICAL_ERROR`."""
    claim = outcome.termination
    complaint, dear = "", False
    if claim.reason is Reason.INFEASIBLE and context.best_assignment is None:
        _try_cheapest(problem, context)  # often enough to refute a false claim
    if outcome.assignment is not None:
        complaint, dear = _offer(problem, outcome.assignment, context)
    assignment, objective = context.best_assignment, context.best_objective
    if claim.reason is Reason.INFEASIBLE and objective is not None:
        complaint = complaint or f"it said infeasible, but a feasible assignment costs {objective}"
    bound = max(float(outcome.bound), context.best_bound) if not math.isnan(outcome.bound) else math.nan
    if math.isnan(bound):
        complaint = complaint or "the bound is NaN"
        bound = -math.inf
    if problem.is_integral:
        bound = integral_bound(bound)
    if objective is not None and float(bound) > float(objective):
        excess = float(bound) - float(objective)
        if not excess <= FALSE_BOUND_TOLERANCE * max(1.0, abs(float(objective))):
            complaint = (
                complaint or f"the bound {bound!r} is above the objective {objective!r} of a feasible assignment"
            )
            bound = -math.inf
        else:
            bound = float(objective)
    if complaint:
        termination = Termination(
            Reason.NUMERICAL_ERROR,
            detail=f"what the solver returned did not stand up to checking: {complaint}",
        )
        return CheckedOutcome(termination, assignment, objective, bound, None)
    cutoff = context.params.cutoff
    if cutoff is not None and objective is None and bound > cutoff and claim.reason is not Reason.INFEASIBLE:
        claim = Termination(Reason.INFEASIBLE, detail=f"no assignment costs {cutoff} or less: the bound is {bound}")
    if objective is not None:
        claim = _with_assignment(claim, objective, bound, context)
    elif dear and claim.reason is not Reason.INFEASIBLE:
        # The solver is free to ignore the cutoff; its assignment just does not count.
        detail = f"what was found costs more than {cutoff}, and the bound {bound} does not exclude better"
        claim = Termination(Reason.NO_SOLUTION_FOUND, claim.limit or Limit.OTHER, claim.detail or detail)
    elif claim.reason in (Reason.OPTIMAL, Reason.FEASIBLE):
        claim = Termination(
            Reason.NUMERICAL_ERROR, detail=f"the solver said {claim.reason.value} but gave no assignment"
        )
    return CheckedOutcome(claim, assignment, objective, bound, outcome.infeasibility)


def _try_cheapest(problem: PlacementProblem, context: SolveContext) -> None:
    """Offer the assignment of every variable's cheapest label."""
    x = np.zeros(problem.num_variables, dtype=np.int32)
    owner = np.repeat(np.arange(problem.num_variables), problem.num_labels)
    order = np.lexsort((problem.unary, owner))
    x[:] = order[problem.label_ptr[:-1]] - problem.label_ptr[:-1]
    with suppress(InvalidProblemError):  # a total beyond floats
        context.offer(x, evaluate(problem, x))


def _offer(problem: PlacementProblem, raw: Int32Array, context: SolveContext) -> tuple[str, bool]:
    """Take the returned assignment as an incumbent.

    Returns:
        What is wrong with it (an empty string for nothing), and whether it only costs more than the cutoff.
    """
    try:
        assignment = problem.check_assignment(raw)
    except InvalidProblemError as error:
        return str(error), False
    evaluation = evaluate(problem, assignment)
    if context.offer(assignment, evaluation) is not None:
        return "", False
    if evaluation.feasible:
        return "", True
    return "its assignment is infeasible: " + "; ".join(v.detail for v in evaluation.violations[:3]), False


def _with_assignment(claim: Termination, objective: int | float, bound: float, context: SolveContext) -> Termination:
    """The claim as the gap between a feasible assignment and a bound supports it."""
    gap = relative_gap(objective, bound)
    if gap <= max(context.params.gap, PROOF_TOLERANCE):
        return Termination(Reason.OPTIMAL, detail=claim.detail)
    if claim.reason is Reason.OPTIMAL:
        detail = f"the solver said optimal, but its bound {bound!r} leaves a gap of {gap:.3g}"
        return Termination(Reason.FEASIBLE, Limit.OTHER, f"{claim.detail}; {detail}" if claim.detail else detail)
    if claim.reason is Reason.FEASIBLE:
        return claim
    limit = claim.limit or Limit.CONVERGED
    return Termination(Reason.FEASIBLE, limit, claim.detail)


def exact_sum(values: list[int | float]) -> int | float:
    """Sum of objectives: an int when all are, else correctly rounded."""
    if all(isinstance(value, int | np.integer) for value in values):
        return sum(int(value) for value in values)
    return math.fsum(float(value) for value in values)
