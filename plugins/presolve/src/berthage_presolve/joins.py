"""Rule ``merge-ties``: variables that determine each other, or nearly so, become one variable of joint choices."""

from __future__ import annotations

import numpy as np

from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency, kernels_joins
from berthage_presolve.consistency import forbidding
from berthage_presolve.lifting import Remap
from berthage_presolve.outcome import Outcome
from berthage_presolve.state import Array, Work, pointers, spans
from berthage_presolve.transform import remap


def merge_ties(work: Work) -> Outcome:
    """Join the ends of every edge that allows no more pairs than its larger end has labels.

    Ties and other partial bijections are of this kind, and so is every edge that makes one end a function of the
    other. What the edge and its parallels cost becomes a unary cost of the joint choice.
    """
    hard = np.flatnonzero(forbidding(work))
    edges = work.edges[hard]
    pairs = np.empty(len(edges), dtype=np.int64)
    kernels_consistency.allowed_pairs(work.ptr, edges, work.maps, work.cells, pairs)
    counts = work.counts
    ku, kv = counts[edges[:, col.U]], counts[edges[:, col.V]]
    small = (pairs <= np.maximum(ku, kv)) & (np.minimum(ku, kv) > 1) & (pairs > 0)
    small &= _stays_small(work, edges, pairs, ku, kv)
    if not small.any():
        return Outcome(work)
    group, size, at, column = kernels_joins.join(work.ptr, edges[small], work.maps, work.cells)
    # The least member leads each group: it gives the name, and the order of joint choices is that of its labels.
    lead = np.full(work.size, work.size)
    np.minimum.at(lead, group, np.arange(work.size))
    firsts, new_of = np.unique(lead[group], return_inverse=True)
    if len(firsts) == work.size:
        return Outcome(work)
    counts = size[group[firsts]]
    owner = np.repeat(np.arange(len(firsts)), counts)
    order = np.lexsort((column[spans(at[firsts], counts)], owner)) - np.repeat(pointers(counts)[:-1], counts)
    every = counts[new_of]
    label = column[np.repeat(at, every) + order[spans(pointers(counts)[:-1][new_of], every)]]
    step = Remap(new_of, pointers(every)[:-1], label, counts)
    new = remap(work, step, firsts)
    return Outcome(new, (step,), {"variables merged": work.size - new.size}, True)


def _stays_small(work: Work, edges: Array, pairs: Array, ku: Array, kv: Array) -> Array:
    """Whether the tables of other edges at the ends, written out, grow by no more than a few times what goes."""
    load = np.bincount(work.edges[:, col.U], weights=work.counts[work.edges[:, col.V]], minlength=work.size)
    load += np.bincount(work.edges[:, col.V], weights=work.counts[work.edges[:, col.U]], minlength=work.size)
    growth = (pairs - ku) * (load[edges[:, col.U]] - kv) + (pairs - kv) * (load[edges[:, col.V]] - ku)
    fits: Array = growth <= 4 * ku * kv
    return fits
