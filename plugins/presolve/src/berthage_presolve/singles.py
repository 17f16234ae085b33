"""Rule ``single-labels``: variables with one label are decided; their costs go to the neighbours and the constant."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berthage import Infeasibility
from berthage_presolve import edge_columns as col
from berthage_presolve.outcome import Contradiction, Outcome
from berthage_presolve.state import EPSILON, Array, Work, peaks, spans
from berthage_presolve.transform import drop_variables


def fix_singles(work: Work) -> Outcome:
    """Fold variables that have one label, no budget row and no edge that is priced on demand.

    Raises:
        Contradiction: When two decided variables forbid each other.
    """
    gone = work.counts == 1
    gone[work.rows.var] = False
    lazy = work.edges[work.edges[:, col.KIND] == col.LAZY]
    gone[lazy[:, col.U]] = False
    gone[lazy[:, col.V]] = False
    if not gone.any():
        return Outcome(work)
    unary = work.unary.copy()
    added = 0.0
    touched = gone[work.edges[:, col.U]] | gone[work.edges[:, col.V]]
    for side in range(2):  # a decided row end adds to its column end, and the other way round
        mine = np.flatnonzero(gone[work.edges[:, col.U + side]] & ~gone[work.edges[:, col.V - side]])
        costs, where = _message(work, mine, side)
        unary += np.bincount(where, weights=costs, minlength=len(unary))
        added += float(np.where(np.isfinite(costs), np.abs(costs), 0.0).sum())
    both = np.flatnonzero(gone[work.edges[:, col.U]] & gone[work.edges[:, col.V]])
    settled, _ = _message(work, both, 0)
    alone = work.unary[work.ptr[:-1][gone]]
    _refuse_infinite(work, settled, work.edges[both][:, [col.U, col.V]])
    _refuse_infinite(work, alone, np.flatnonzero(gone)[:, None])
    decided = np.concatenate([alone, settled])
    whole = isinstance(work.constant, int)
    constant = work.constant + (int(decided.sum()) if whole else float(decided.sum()))
    error = work.error
    if not whole:
        sums = len(decided) * float(np.abs(decided).sum()) + 2.0 * added + float(peaks(work.ptr, unary).sum())
        error += EPSILON * sums
    edges, mult = work.edges[~touched], work.mult[~touched]
    slim = replace(work, unary=unary, constant=constant, error=error, edges=edges, mult=mult)
    new, step = drop_variables(slim, gone)
    return Outcome(new, (step,), {"variables fixed": int(gone.sum())}, True)


def _refuse_infinite(work: Work, costs: Array, variables: Array) -> None:
    bad = np.flatnonzero(np.isinf(costs))
    if len(bad):
        clash = work.names(variables[bad[0]])
        shown = " and ".join(map(repr, clash))
        raise Contradiction(Infeasibility(f"the only labels left for {shown} are forbidden", clash))


def _message(work: Work, which: Array, side: int) -> tuple[Array, Array]:
    """Costs that edges with a decided end `side` put on the labels of the other, and the flat index of those labels."""
    edges = work.edges[which]
    other = edges[:, col.V - side]
    counts = work.counts[other]
    each = np.repeat(np.arange(len(which)), counts)
    own = work.maps[edges[:, col.ROW_AT + side]].astype(np.int64)[each]
    classes = work.maps[spans(edges[:, col.COL_AT - side], counts)].astype(np.int64)
    costs = np.where(own == classes, 0.0, np.inf)
    stored = np.flatnonzero(edges[each, col.KIND] == col.COST)
    e = each[stored]
    costs[stored] = work.cells[
        edges[e, col.AT] + own[stored] * edges[e, col.ROW_STEP + side] + classes[stored] * edges[e, col.COL_STEP - side]
    ]
    return costs * work.mult[which][each], spans(work.ptr[:-1][other], counts)
