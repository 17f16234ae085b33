"""Rules ``merge-edges`` and ``eliminate``: fewer edges, then fewer variables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berthage import Infeasibility
from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency, kernels_elimination
from berthage_presolve.lifting import Eliminated
from berthage_presolve.outcome import Contradiction, Outcome
from berthage_presolve.state import EPSILON, EXACT_FLOAT, Work
from berthage_presolve.transform import drop_variables

GROWTH = 1.5
"""A computed table may have this many times the cells of the tables it replaces,"""
FREE_CELLS = 64
"""plus this many."""


def merge_edges(work: Work) -> Outcome:
    """Fold edges that are a sum of two unary costs, then add up parallel and reversed edges."""
    unary = work.unary.copy()
    alive = np.ones(len(work.edges), dtype=np.bool_)
    folded, magnitude = kernels_consistency.separate(
        work.ptr, unary, work.edges, work.mult, work.maps, work.cells, alive
    )
    counts = {}
    # folding f(a) + g(b) may need up to thrice the range of the table
    if folded and (isinstance(work.constant, float) or work.magnitude + 2.0 * magnitude < EXACT_FLOAT):
        error = work.error + (4.0 * EPSILON * magnitude if isinstance(work.constant, float) else 0.0)
        work = replace(
            work,
            unary=unary,
            edges=work.edges[alive],
            mult=work.mult[alive],
            error=error,
            magnitude=work.magnitude + 2.0 * magnitude,
        )
        counts["edges folded into unary costs"] = int(folded)
    merged = _contract(work, False)
    return Outcome(merged.work, merged.steps, {**counts, **merged.counts}, bool(counts) or merged.changed)


def eliminate(work: Work) -> Outcome:
    """Merge parallel edges and minimise out variables of degree 0, 1 and 2 that carry no budget weight.

    Degree 2 leaves a table between the neighbours; it is skipped where that table would be much larger than the two
    it replaces. Variables on edges that are priced on demand stay.

    Raises:
        Contradiction: When a variable turns out to have no allowed label.
    """
    return _contract(work, True)


def _contract(work: Work, eliminates: bool) -> Outcome:
    m, n = len(work.edges), work.size
    if n == 0:
        return Outcome(work)
    edges = np.empty((2 * m + 2 * n, col.WIDTH), dtype=np.int64)
    mult = np.empty(len(edges))
    edges[:m], mult[:m] = work.edges, work.mult
    blocked = np.zeros(n, dtype=np.bool_)
    blocked[work.rows.var] = True
    unary = work.unary.copy()
    used_edges, alive, maps, cells, order, used, merged, magnitude, bad = kernels_elimination.contract(
        work.ptr, unary, edges, mult, m, work.maps, work.cells, blocked, eliminates, GROWTH, FREE_CELLS
    )
    if bad >= 0:
        name = work.names(np.array([bad]))
        raise Contradiction(Infeasibility(f"variable {name[0]!r} has no label that its neighbours allow", name))
    if not merged and not len(order):
        return Outcome(work)
    edges, mult = edges[:used_edges], mult[:used_edges]
    gone = np.zeros(n, dtype=np.bool_)
    gone[order] = True
    alone = order[used[:, 0] < 0]
    ends = np.minimum.reduceat(unary, work.ptr[:-1])[alone]
    whole = isinstance(work.constant, int)
    constant = work.constant + (int(ends.sum()) if whole else float(ends.sum()))
    error = work.error
    if not whole:
        error += EPSILON * (2.0 * magnitude + len(ends) * float(np.abs(ends).sum()))
    new = replace(
        work,
        unary=unary,
        edges=edges[alive],
        mult=mult[alive],
        maps=maps,
        cells=cells,
        constant=constant,
        error=error,
    )
    counts = {"edges merged": int(merged), "variables eliminated": len(order)}
    if not len(order):
        return Outcome(new, (), counts, True)
    step = Eliminated(np.flatnonzero(~gone), work.ptr, unary, edges, mult, maps, cells, order, used)
    return Outcome(drop_variables(new, gone)[0], (step,), counts, True)
