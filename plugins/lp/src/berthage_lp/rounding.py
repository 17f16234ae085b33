"""From a fractional solution to assignments: conditioning, diving through the relaxation, polish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berthage import PlacementProblem, SolveContext, evaluate
from berthage.linear import Decoded, LinearProgram
from berthage_lp.engine import Engine, Status
from berthage_lp.moves import Moves
from berthage_lp.polish import descend, polish
from berthage_lp.relaxation import Control, Relaxation

__all__ = ["greedy_start", "round_solution", "settle_budgets"]

Floats = NDArray[np.float64]

_RELAXATIONS = 2000
"""Most relaxations one dive may solve."""

_LEAST_ITERATIONS = 50_000
_ITERATION_FACTOR = 10
"""A dive may spend this many times the simplex iterations of the relaxation, and `_LEAST_ITERATIONS` at least."""

_SHARE = 0.25
"""Share of the fractional groups that a step of the dive fixes."""

_TIGHTENINGS = 4
"""Most attempts to pull an integral solution back under an integer budget."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a dive: upper bounds of the label columns before it, and the columns it fixed at 1."""

    upper: Floats
    columns: NDArray[np.int64]


def round_solution(problem: PlacementProblem, relaxation: Relaxation, context: SolveContext, control: Control) -> None:
    """Look for assignments near the solution of a relaxation; what is found is told to the context.

    Args:
        problem: The problem.
        relaxation: Solved, with its solution.
        context: Evaluates and keeps assignments.
        control: Limits.
    """
    program, x = relaxation.program, relaxation.x
    if x is None:
        return
    moves = Moves(program)
    _offer(moves, x, context, control)
    # Interior point leaves no basis to go on from: a dive then solves once more from scratch, so it is only
    # taken when nothing else has worked.
    if relaxation.engine is not None and (relaxation.method == "simplex" or context.best_assignment is None):
        _Dive(problem, relaxation, relaxation.engine, moves, context, control).run(x)
    if context.best_assignment is not None:
        polish(moves, context.best_assignment, context, control.stop)


def greedy_start(program: LinearProgram, context: SolveContext, control: Control) -> None:
    """Offer an assignment found without the relaxation, so that an early stop is not left with nothing."""
    moves = Moves(program)
    choice = moves.cheapest()
    context.incumbent(moves.assignment(descend(moves, choice, control.stop)))


def _offer(moves: Moves, x: Floats, context: SolveContext, control: Control) -> None:
    """Offer the nearest assignment and what a descent makes of it."""
    assignment = moves.program.decode(x).assignment
    context.incumbent(assignment)
    context.incumbent(moves.assignment(descend(moves, moves.choice(assignment), control.stop)))


class _Dive:
    """Fix the surest fractional groups, solve again, and so on; where that leads nowhere, step back."""

    def __init__(
        self,
        problem: PlacementProblem,
        relaxation: Relaxation,
        engine: Engine,
        moves: Moves,
        context: SolveContext,
        control: Control,
    ) -> None:
        self.problem, self.program, self.engine = problem, relaxation.program, engine
        self.moves, self.context, self.control = moves, context, control
        self.labels = np.arange(moves.num_labels)
        self.stack: list[_Step] = []
        self.relaxations_left = _RELAXATIONS
        self.iterations_left = max(_LEAST_ITERATIONS, _ITERATION_FACTOR * relaxation.iterations)

    def run(self, x: Floats) -> None:
        """Dive from a solution of the relaxation; assignments found are told to the context."""
        self.engine.options(solver="simplex", simplex_iteration_limit=2**31 - 1)
        upper = np.where(self.program.upper[self.labels] > 0.0, np.inf, 0.0)
        share = _SHARE
        while True:
            decoded = self.program.decode(x)
            if decoded.fractional == 0:
                if self._accept(decoded.assignment):
                    return
                # Integral within the tolerance, yet over a budget: the least sure of its labels goes.
                upper = upper.copy()
                upper[self._least_sure(decoded)] = 0.0
                found = self._solve(upper)
                if found is None:
                    back = self._step_back()
                    if back is None:
                        return
                    upper, found = back
                x = found
                continue
            columns = self._surest(decoded, share)
            self.stack.append(_Step(upper, columns))
            upper = self._fixed(upper, columns)
            found = self._solve(upper)
            if found is None:
                share /= 4.0
                back = self._step_back()
                if back is None:
                    return
                upper, found = back
            else:
                share = min(_SHARE, 2.0 * share)
            x = found

    def _accept(self, assignment: NDArray[np.int32]) -> bool:
        """Offer an assignment, moved under the budgets if need be."""
        if self.context.incumbent(assignment) is not None:
            return True
        args = (self.problem, self.program, self.engine, assignment, self.context, self.control)
        return settle(*args) is not None

    def _least_sure(self, decoded: Decoded) -> int:
        """Column of the chosen label with the least value."""
        choice = self.moves.choice(decoded.assignment)
        value = np.zeros(len(choice))
        value[self.program.group_of] = decoded.certainty
        return int(choice[int(np.argmin(value))])

    def _surest(self, decoded: Decoded, share: float) -> NDArray[np.int64]:
        """Columns of the groups nearest to integral among the fractional ones, surest first."""
        value = np.zeros(len(self.program.group_ptr) - 1)
        value[self.program.group_of] = decoded.certainty
        fractional = np.flatnonzero(value < 1.0 - 1e-6)
        order = fractional[np.argsort(-value[fractional], kind="stable")]
        return self.moves.choice(decoded.assignment)[order[: max(1, int(share * len(order)))]]

    def _fixed(self, upper: Floats, columns: NDArray[np.int64]) -> Floats:
        """Upper bounds with the given columns fixed at 1: every other label of their groups at 0."""
        fixed = np.zeros(len(self.program.group_ptr) - 1, dtype=bool)
        fixed[self.moves.group_of_column[columns]] = True
        keep = np.zeros(len(upper), dtype=bool)
        keep[columns] = True
        return np.where(fixed[self.moves.group_of_column] & ~keep, 0.0, upper)

    def _solve(self, upper: Floats) -> Floats | None:
        """The relaxation under the bounds; None when it is infeasible or was not solved."""
        spent = self.relaxations_left <= 0 or self.iterations_left <= 0
        if spent or self.engine.abandoned or self.control.stop():
            self.relaxations_left = 0
            return None
        self.relaxations_left -= 1
        self.engine.set_column_bounds(self.labels, np.zeros(len(upper)), upper)
        run = self.engine.run(self.control.stop, self.control.remaining())
        self.iterations_left -= run.iterations
        return run.x if run.status is Status.OPTIMAL else None

    def _step_back(self) -> tuple[Floats, Floats] | None:
        """Undo steps until a relaxation is feasible again: fix one column instead of many, then forbid it."""
        while self.stack and self.relaxations_left > 0:
            step = self.stack.pop()
            if len(step.columns) > 1:
                upper = self._fixed(step.upper, step.columns[:1])
                self.stack.append(_Step(step.upper, step.columns[:1]))
            else:
                upper = step.upper.copy()
                upper[step.columns] = 0.0
            found = self._solve(upper)
            if found is not None:
                return upper, found
        return None


def settle_budgets(
    problem: PlacementProblem, relaxation: Relaxation, context: SolveContext, control: Control
) -> NDArray[np.int32] | None:
    """Pull an integral solution that exceeds an integer budget (within the solver's tolerance) back under it.

    Returns:
        A feasible assignment, or None.
    """
    if relaxation.x is None or relaxation.engine is None:
        return None
    assignment = relaxation.program.decode(relaxation.x).assignment
    return settle(problem, relaxation.program, relaxation.engine, assignment, context, control)


def settle(
    problem: PlacementProblem,
    program: LinearProgram,
    engine: Engine,
    assignment: NDArray[np.int32],
    context: SolveContext,
    control: Control,
) -> NDArray[np.int32] | None:
    """Tighten the rows of violated budgets a little, solve again, and take what is integral and feasible.

    The rows of the engine are as before afterwards.
    """
    try:
        return _tighten(problem, program, engine, assignment, context, control)
    finally:
        rows = np.flatnonzero(program.row_budget >= 0)
        if not engine.abandoned:
            engine.set_row_bounds(rows, program.row_lower[rows], program.row_upper[rows])


def _tighten(
    problem: PlacementProblem,
    program: LinearProgram,
    engine: Engine,
    assignment: NDArray[np.int32],
    context: SolveContext,
    control: Control,
) -> NDArray[np.int32] | None:
    names = [b.name for b in problem.linear_budgets] + [b.name for b in problem.interval_budgets]
    upper = program.row_upper.copy()
    lower = program.row_lower.copy()
    step = 1e-6
    for _ in range(_TIGHTENINGS):
        evaluation = evaluate(problem, assignment)
        if evaluation.feasible:
            context.incumbent(assignment)
            return assignment
        broken = {violation.name for violation in evaluation.violations}
        mine = np.array([name in broken for name in names] or [False])
        rows = np.flatnonzero((program.row_budget >= 0) & mine[np.maximum(program.row_budget, 0)])
        if not len(rows) or control.stop() or engine.abandoned:
            return None
        low, high = lower[rows], upper[rows]
        inequality = high > low
        for bound, way in ((low, 1.0), (high, -1.0)):
            movable = inequality & np.isfinite(bound)
            bound[movable] += way * step * np.maximum(1.0, np.abs(bound[movable]))
        lower[rows], upper[rows] = low, np.maximum(low, high)
        engine.set_row_bounds(rows, lower[rows], upper[rows])
        run = engine.run(control.stop, control.remaining())
        if run.status is not Status.OPTIMAL or run.x is None:
            return None
        decoded = program.decode(run.x)
        if decoded.fractional:
            return None
        assignment = decoded.assignment
        step *= 10.0
    return assignment if evaluate(problem, assignment).feasible else None
