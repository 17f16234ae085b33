"""Rule ``dominated-labels``: labels that another label of the same variable always replaces without harm."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berthage_presolve import kernels_consistency, kernels_dominance
from berthage_presolve.lifting import Replace
from berthage_presolve.outcome import Outcome
from berthage_presolve.state import EPSILON, Work, pointers
from berthage_presolve.transform import keep_labels

MOST_STEPS = 1_000_000_000
"""Elementary comparisons of one pass, some two seconds."""


def remove_dominated(work: Work) -> Outcome:
    """Remove dominated labels; of two that dominate each other, the first stays."""
    rows = work.rows
    order = np.argsort(rows.var, kind="stable")
    senses = np.array([(head.upper < np.inf) + 2 * (head.lower > -np.inf) for head in work.heads], dtype=np.int64)
    row_ptr = pointers(np.bincount(rows.var, minlength=work.size))
    alive = np.ones(len(work.unary), dtype=np.bool_)
    winners = np.full((len(alive), 2), -1, dtype=np.int64)
    inc_ptr, halves = kernels_consistency.incidence(work.size, work.edges)
    removed, magnitude, _ = kernels_dominance.dominated(
        work.ptr,
        work.unary,
        work.edges,
        work.mult,
        work.maps,
        work.cells,
        inc_ptr,
        halves,
        row_ptr,
        rows.at[order],
        senses[rows.budget[order]] if len(order) else np.zeros(0, dtype=np.int64),
        rows.weights,
        alive,
        winners,
        MOST_STEPS,
    )
    if not removed:
        return Outcome(work)
    losers = np.flatnonzero(~alive)
    losers = losers[np.argsort(winners[losers, 1])]
    var = np.searchsorted(work.ptr, losers, side="right") - 1
    choice = Replace(var, losers - work.ptr[var], winners[losers, 0])
    new, step = keep_labels(work, alive)
    if isinstance(work.constant, float):
        new = replace(new, error=new.error + 4.0 * EPSILON * magnitude)
    return Outcome(new, (choice, step), {"dominated labels": int(removed)}, True)
