"""Improving an assignment by single moves, each checked against everything by core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from berthage import SolveContext
from berthage.linear import segment_argmax
from berthage_lp.moves import Moves

__all__ = ["descend", "polish"]

_EVALUATIONS = 400
"""Most evaluations one polish may spend."""

_SWEEPS = 100
"""Most sweeps of a descent."""

_TRIES = 25
"""Most single moves tried from one assignment."""


def polish(moves: Moves, assignment: NDArray[np.int32], context: SolveContext, stop: Callable[[], bool]) -> None:
    """Descend from a feasible assignment; better ones are told to the context.

    Moves of groups that are not neighbours are made together; where a budget objects, one at a time.

    Args:
        moves: Conditional costs.
        assignment: ``int32[n]``, feasible.
        context: Evaluates and keeps assignments.
        stop: Whether to stop now.
    """
    choice = moves.choice(assignment)
    best = context.incumbent(assignment)
    if best is None:
        return
    budget = _EVALUATIONS
    while budget > 0 and not stop():
        costs = moves.costs(choice)
        target = _best_labels(moves, costs)
        gain = costs[choice] - costs[target]  # the choice is feasible, so both are finite
        order = np.argsort(-gain, kind="stable")
        order = order[gain[order] > 1e-12 * max(1.0, abs(float(best)))]
        if not len(order):
            return
        together = _independent(moves, order)
        improved = False
        for group in (together, *(order[i : i + 1] for i in range(min(_TRIES, len(order))))):
            trial = choice.copy()
            trial[group] = target[group]
            objective = context.incumbent(moves.assignment(trial))
            budget -= 1
            if objective is not None and objective < best:
                choice, best, improved = trial, objective, True
                break
            if budget <= 0 or stop():
                return
        if not improved:
            return


def descend(moves: Moves, start: NDArray[np.int64], stop: Callable[[], bool]) -> NDArray[np.int64]:
    """Let groups take their cheapest label until none gains, neighbours never at once; budgets play no part.

    Args:
        moves: Conditional costs.
        start: ``int64[G]`` the choice to begin with; it may hold forbidden labels and pairs.
        stop: Whether to stop now.
    """
    choice = start.copy()
    for _ in range(_SWEEPS):
        if stop():
            break
        costs = moves.costs(choice)
        target = _best_labels(moves, costs)
        here, there = costs[choice], costs[target]
        gain = np.where(np.isfinite(there), here - np.where(np.isfinite(there), there, 0.0), 0.0)
        order = np.argsort(-gain, kind="stable")
        order = order[gain[order] > 1e-12 * np.abs(np.where(np.isfinite(here[order]), here[order], 1.0))]
        if not len(order):
            break
        taken = _independent(moves, order)
        choice[taken] = target[taken]
    return choice


def _best_labels(moves: Moves, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Cheapest label column of every group, the first on equality."""
    return segment_argmax(-costs, moves.program.group_ptr)


def _independent(moves: Moves, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of `order`, none a neighbour of an earlier one that was taken."""
    program = moves.program
    rank = np.full(len(program.group_ptr) - 1, len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    # A group is taken when it outranks all its neighbours: one pass, no order dependence.
    least = np.full(len(rank), len(order), dtype=np.int64)
    np.minimum.at(least, program.pair_first, rank[program.pair_second])
    np.minimum.at(least, program.pair_second, rank[program.pair_first])
    return order[rank[order] < least[order]]
