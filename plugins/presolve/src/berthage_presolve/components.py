"""Rule ``components``: parts that nothing connects are problems of their own."""

from __future__ import annotations

import numpy as np

from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency
from berthage_presolve.state import Array, Work

MOST_PARTS = 16
"""The largest components become parts of their own; the rest, which is small, stays together in one."""


def components(work: Work, most_parts: int = MOST_PARTS) -> list[Array]:
    """Variables of each part, increasing; parts in the order of their first variable.

    Edges connect, and so do budgets: a linear or soft one everything it counts; a hard interval budget only what is
    live at a common instant or linked by others that are.
    """
    if work.size == 0:
        return []
    pairs = [work.edges[:, [col.U, col.V]]]
    for index, head in enumerate(work.heads):
        rows = np.arange(*np.searchsorted(work.rows.budget, (index, index + 1)))
        if len(rows) < 2:
            continue
        var, start, stop = work.rows.var[rows], work.rows.start[rows], work.rows.stop[rows]
        if head.interval and head.hard:
            order = np.argsort(start, kind="stable")
            reach = np.maximum.accumulate(stop[order])
            linked = start[order][1:] < reach[:-1]  # overlaps something that began before
            pairs.append(np.stack([var[order][:-1][linked], var[order][1:][linked]], axis=1))
        else:
            pairs.append(np.stack([var[:-1], var[1:]], axis=1))
    links = np.concatenate(pairs)
    first, second = np.ascontiguousarray(links[:, 0]), np.ascontiguousarray(links[:, 1])
    root = kernels_consistency.connected(work.size, first, second)
    roots, part = np.unique(root, return_inverse=True)
    if len(roots) > most_parts:
        labels = np.bincount(part, weights=work.counts)
        largest = np.sort(np.argsort(-labels, kind="stable")[: most_parts - 1])
        number = np.full(len(roots), most_parts - 1)
        number[largest] = np.arange(most_parts - 1)
        part = number[part]
    order = np.argsort(part, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(part[order])) + 1)
