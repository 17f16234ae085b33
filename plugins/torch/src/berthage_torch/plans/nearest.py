"""Of assignments that cost the same, one that changes less: what a solver moved for nothing is moved back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem, evaluate

__all__ = ["nearest"]

Int32 = npt.NDArray[np.int32]

_ROUNDING = 1e-12
"""By how much, relatively, sums of the same costs may differ."""


def nearest(problem: PlacementProblem, found: Int32, base: Int32, kept: int) -> Int32:
    """An assignment that costs no more than ``found``, with more of ``base`` in it.

    Changed variables that no edge or relation joins to each other can be decided apart: each such island is put back to
    ``base`` unless that costs something or breaks a budget.

    Args:
        problem: The problem.
        found: ``int32[n]``, feasible.
        base: ``int32[n]``.
        kept: A variable whose island stays as found.
    """
    objective = float(evaluate(problem, found).objective)
    limit = objective + _ROUNDING * abs(objective)
    islands = _islands(problem, np.flatnonzero(found != base))
    result = found
    for number in np.unique(islands[islands >= 0]).tolist():
        if number == islands[kept]:
            continue
        trial = np.where(islands == number, base, result).astype(np.int32)
        evaluation = evaluate(problem, trial)
        if evaluation.feasible and evaluation.objective <= limit:
            result = trial
    return result


def _islands(problem: PlacementProblem, changed: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``int64[n]``: the least variable of each changed variable's island, -1 for what is not changed."""
    island = np.full(problem.num_variables, -1, dtype=np.int64)
    island[changed] = changed
    pairs = problem.relations.v >= 0
    u = np.concatenate([problem.edge_u, problem.relations.u[pairs]])
    v = np.concatenate([problem.edge_v, problem.relations.v[pairs]])
    inside = (island[u] >= 0) & (island[v] >= 0)
    u, v = u[inside], v[inside]
    while True:
        before = island.copy()
        np.minimum.at(island, u, before[v])
        np.minimum.at(island, v, before[u])
        island[changed] = island[island[changed]]
        if np.array_equal(before, island):
            return island
