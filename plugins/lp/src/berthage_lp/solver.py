"""The solver `lp`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    evaluate,
)
from berthage.linear import LinearProgram, linear_program
from berthage_lp.engine import Status
from berthage_lp.options import LpOptions
from berthage_lp.relaxation import Control, Relaxation, solve_relaxation
from berthage_lp.rounding import greedy_start, round_solution, settle_budgets

__all__ = ["LpSolver"]

_TOLERANCE = 1e-9
"""Relative gap within which an assignment counts as the optimum of the relaxation."""


class LpSolver:
    """Solve the local-polytope relaxation; made anew for every solve."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: LpOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve the relaxation of a problem.

        Args:
            problem: The problem; it is only read.
            params: Seed, gap, cutoff, limits. Threads are not used: the answer must not depend on them.
            options: Options of this solver.
            context: Limits, incumbents and bounds.

        Returns:
            Optimal where the relaxation is integral; else ``NOT_INTEGRAL`` with the bound, or, with ``round``, the
            best rounded assignment as feasible.
        """
        options = options or LpOptions()
        with context.phase("build"):
            program = linear_program(problem, intervals=options.intervals)
        stats: dict[str, int | float | str | bool] = {
            "columns": program.num_cols,
            "rows": program.num_rows,
            "nonzeros": program.num_nonzeros,
        }
        if program.impossible:
            detail = "a variable has no allowed label"
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), bound=math.inf, stats=stats)
        if not program.num_cols:
            return _nothing_to_choose(problem, stats)
        control = Control(
            stop=lambda: context.stop_reason() is not None,
            remaining=context.remaining,
            bound=context.bound,
            iteration_limit=params.iteration_limit,
            seed=params.seed,
        )
        if options.round:
            with context.phase("round"):
                greedy_start(program, context, control)
        relaxation = solve_relaxation(program, options, control)
        stats |= {"method": relaxation.method, "iterations": relaxation.iterations}
        if relaxation.status is Status.INFEASIBLE:
            stats["certified"] = relaxation.certified
            detail = "already the linear relaxation is infeasible"
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), bound=math.inf, stats=stats)
        if relaxation.x is None:
            return _unfinished(relaxation, context, stats)
        return _finished(problem, relaxation, params, options, context, control, stats)


def _nothing_to_choose(problem: PlacementProblem, stats: dict[str, int | float | str | bool]) -> SolverOutcome:
    assignment = np.zeros(0, dtype=np.int32)
    evaluation = evaluate(problem, assignment)
    if not evaluation.feasible:
        return SolverOutcome(
            Termination(Reason.INFEASIBLE, detail=evaluation.violations[0].detail), bound=math.inf, stats=stats
        )
    return SolverOutcome(Termination(Reason.OPTIMAL), assignment, float(evaluation.objective), stats=stats)


def _unfinished(
    relaxation: Relaxation, context: SolveContext, stats: dict[str, int | float | str | bool]
) -> SolverOutcome:
    """No solution of the relaxation, but a bound all the same."""
    if relaxation.status is Status.FAILED:
        detail = "HiGHS could not solve the relaxation; the bound is valid nevertheless"
        return SolverOutcome(Termination(Reason.NUMERICAL_ERROR, detail=detail), bound=relaxation.bound, stats=stats)
    if relaxation.status is Status.ITERATIONS:
        limit, word = Limit.ITERATIONS, "the iteration limit"
    else:
        limit = context.stop_reason() or Limit.TIME
        word = "the time limit" if limit is Limit.TIME else "an interruption"
    detail = f"{word} stopped the relaxation; its bound so far is {relaxation.bound:.10g}"
    return SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, limit, detail), bound=relaxation.bound, stats=stats)


def _finished(
    problem: PlacementProblem,
    relaxation: Relaxation,
    params: SolveParams,
    options: LpOptions,
    context: SolveContext,
    control: Control,
    stats: dict[str, int | float | str | bool],
) -> SolverOutcome:
    bound = relaxation.bound
    x = relaxation.x
    assert x is not None
    decoded = relaxation.program.decode(x)
    fractional, total = _fractional_variables(relaxation.program, decoded.certainty)
    stats |= {"fractional_variables": fractional, "relaxation": bound}
    tolerance = max(params.gap, _TOLERANCE)
    candidate: NDArray[np.int32] | None = decoded.assignment
    if decoded.fractional == 0 and not evaluate(problem, decoded.assignment).feasible:
        candidate = settle_budgets(problem, relaxation, context, control)
    if candidate is not None:
        evaluation = evaluate(problem, candidate)
        within = evaluation.feasible and (params.cutoff is None or evaluation.objective <= params.cutoff)
        close = float(evaluation.objective) - bound <= tolerance * max(1.0, abs(float(evaluation.objective)))
        if within and (close or decoded.fractional == 0):
            return SolverOutcome(Termination(Reason.OPTIMAL), candidate, bound, stats=stats)
    if options.round:
        with context.phase("round"):
            round_solution(problem, relaxation, context, control)
        if context.best_assignment is not None:
            limit = context.stop_reason() or Limit.CONVERGED
            detail = f"rounded from a relaxation with {fractional} of {total} variables fractional"
            return SolverOutcome(
                Termination(Reason.FEASIBLE, limit, detail), context.best_assignment, bound, stats=stats
            )
    what = (
        f"is fractional in {fractional} of {total} variables"
        if fractional
        else "is integral only within the solver's tolerance: rounded, its solution exceeds a budget"
    )
    detail = (
        f"the relaxation {what}; its bound is {bound:.10g}. "
        + ("Rounding found no assignment. " if options.round else "")
        + "Use the solver 'ilp' for an assignment"
        + ("." if options.round else ", or the option round=true for a rounded one.")
    )
    return SolverOutcome(Termination(Reason.NOT_INTEGRAL, detail=detail), bound=bound, stats=stats)


def _fractional_variables(program: LinearProgram, certainty: NDArray[np.float64]) -> tuple[int, int]:
    """Variables without a label at 1, and all variables."""
    return int((certainty < 1.0 - 1e-6).sum()), len(program.group_of)
