"""Rows that forbid an assignment an engine wrongly took for feasible, from exact arithmetic on the budgets.

Engines work to a tolerance: HiGHS counts 0.999999 as 1, which hides kilobytes of a byte budget. A violated budget
gives a cover cut: not all of a set of labels that together exceed the limit. Its coefficients are 1, so no tolerance
can blur it, and it holds for every feasible assignment.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from berthage import evaluate
from berthage.problem import IntervalBudget
from berthage_ilp.program import Cut

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from berthage import PlacementProblem
    from berthage.linear import LinearProgram
    from berthage.problem import LinearBudget

__all__ = ["cuts_against"]


def cuts_against(problem: PlacementProblem, program: LinearProgram, assignment: NDArray[np.int32]) -> list[Cut]:
    """Rows that every feasible assignment meets and that `assignment`, which is infeasible, does not.

    Args:
        problem: The problem.
        program: Its formulation.
        assignment: int32[n] what the engine's solution decodes to.

    Returns:
        A cover cut for every violated hard budget; when none is violated (a forbidden pair came out of a solution that
        was not integral), the row that forbids this assignment alone. Empty when the assignment is feasible.
    """
    evaluation = evaluate(problem, assignment)
    if evaluation.feasible:
        return []
    uses = {use.name: use for use in evaluation.budget_use}
    cuts: list[Cut] = []
    budgets: tuple[LinearBudget | IntervalBudget, ...] = (*problem.linear_budgets, *problem.interval_budgets)
    for budget in budgets:
        if budget.price is not None:
            continue
        if isinstance(budget, IntervalBudget):
            limit = _limit(budget, budget.limit)
            if uses[budget.name].used <= limit:
                continue
            instant = uses[budget.name].instant or 0
            rows = np.flatnonzero((budget.start <= instant) & (instant < budget.stop))
            cuts += _cover(program, budget, rows, assignment, limit, 1)
        else:
            rows = np.arange(len(budget.variables))
            upper, lower = _limit(budget, budget.upper), _limit(budget, -budget.lower)
            if uses[budget.name].used > upper:
                cuts += _cover(program, budget, rows, assignment, upper, 1)
            if -uses[budget.name].used > lower:
                cuts += _cover(program, budget, rows, assignment, lower, -1)
    if cuts:
        return cuts
    chosen = np.unique(program.col_of_label[program.label_ptr[:-1] + assignment])
    chosen = chosen[chosen >= 0]
    return [Cut(chosen, float(len(chosen) - 1))]


def _limit(budget: LinearBudget | IntervalBudget, limit: int | float) -> int | float | Fraction:
    """The limit as `evaluate` reads it: exact for whole weights, with its slack for others."""
    if budget.weights.dtype.kind == "i" or not np.isfinite(limit):
        return limit
    return Fraction(limit) + Fraction(budget.slack)


def _cover(
    program: LinearProgram,
    budget: LinearBudget | IntervalBudget,
    rows: NDArray[np.int64],
    assignment: NDArray[np.int32],
    limit: int | float | Fraction,
    sign: int,
) -> list[Cut]:
    """Not all of a smallest-found set of choices that exceed the limit whatever the rest chooses.

    Every label at least as heavy as the chosen one may stand in for it, which makes the cut hold for all of them.
    """
    number = (lambda value: int(value)) if budget.weights.dtype.kind == "i" else Fraction
    total: dict[int, list[int | Fraction]] = {}
    for row in rows.tolist():
        weights = [sign * number(w) for w in budget.weights[budget.ptr[row] : budget.ptr[row + 1]].tolist()]
        variable = int(budget.variables[row])
        before = total.get(variable)
        total[variable] = weights if before is None else [a + b for a, b in zip(before, weights, strict=True)]
    least = {
        v: min(w for w, c in zip(weights, _columns(program, v), strict=True) if c >= 0) for v, weights in total.items()
    }
    room = Fraction(limit) - sum(least.values())
    excess = {v: total[v][int(assignment[v])] - least[v] for v in total}
    chosen: list[int] = []
    used: int | Fraction = 0
    for v in sorted(excess, key=lambda v: (-excess[v], v)):
        if used > room:
            break
        chosen.append(v)
        used += excess[v]
    if used <= room:
        return []
    columns: list[int] = []
    for v in chosen:
        heavy = total[v][int(assignment[v])]
        columns += [c for c, w in zip(_columns(program, v), total[v], strict=True) if c >= 0 and w >= heavy]
    return [Cut(np.array(columns, dtype=np.int64), float(len(chosen) - 1))]


def _columns(program: LinearProgram, variable: int) -> list[int]:
    columns: list[int] = program.col_of_label[program.label_ptr[variable] : program.label_ptr[variable + 1]].tolist()
    return columns
