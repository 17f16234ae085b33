"""Rule ``merge-ties``: variables that determine each other, or nearly so, become one variable of joint choices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency as kernels
from berthage_presolve.consistency import forbidding
from berthage_presolve.lifting import Remap
from berthage_presolve.outcome import Outcome
from berthage_presolve.state import Array, Work, pointers, spans
from berthage_presolve.transform import remap


@dataclass(slots=True)
class _Group:
    """Variables to merge, with their joint choices: one column of labels a member, the first member names the group."""

    columns: dict[int, Array]

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def name(self) -> int:
        return next(iter(self.columns))


def merge_ties(work: Work) -> Outcome:
    """Join the ends of every edge that allows no more pairs than its larger end has labels.

    Ties and other partial bijections are of this kind, and so is every edge that makes one end a function of the
    other. What the edge and its parallels cost becomes a unary cost of the joint choice.
    """
    hard = np.flatnonzero(forbidding(work))
    edges = work.edges[hard]
    pairs = np.empty(len(edges), dtype=np.int64)
    kernels.allowed_pairs(work.ptr, edges, work.maps, work.cells, pairs)
    counts = work.counts
    ku, kv = counts[edges[:, col.U]], counts[edges[:, col.V]]
    small = (pairs <= np.maximum(ku, kv)) & (np.minimum(ku, kv) > 1) & (pairs > 0)
    small &= _stays_small(work, edges, pairs, ku, kv)
    if not small.any():
        return Outcome(work)
    groups: dict[int, _Group] = {}
    root = np.arange(work.size)
    for e in np.flatnonzero(small).tolist():
        _join(work, edges[e], groups, root)
    if not groups:
        return Outcome(work)
    return _apply(work, groups)


def _stays_small(work: Work, edges: Array, pairs: Array, ku: Array, kv: Array) -> Array:
    """Whether the tables of other edges at the ends, written out, grow by no more than a few times what goes."""
    load = np.bincount(work.edges[:, col.U], weights=work.counts[work.edges[:, col.V]], minlength=work.size)
    load += np.bincount(work.edges[:, col.V], weights=work.counts[work.edges[:, col.U]], minlength=work.size)
    growth = (pairs - ku) * (load[edges[:, col.U]] - kv) + (pairs - kv) * (load[edges[:, col.V]] - ku)
    fits: Array = growth <= 4 * ku * kv
    return fits


def _join(work: Work, edge: Array, groups: dict[int, _Group], root: Array) -> None:
    """Join the groups of the two ends along an edge, if that does not make more labels than the larger had."""
    u, v = int(edge[col.U]), int(edge[col.V])
    left, right = _group(work, u, groups, root), _group(work, v, groups, root)
    if left is right:
        return  # the edge is folded into the unary costs of the joint variable
    first, second = left.columns[u], right.columns[v]
    rows = work.maps[edge[col.ROW_AT] : edge[col.ROW_AT] + work.counts[u]][first]
    cols = work.maps[edge[col.COL_AT] : edge[col.COL_AT] + work.counts[v]][second]
    pairs = _pairs(work, edge, rows, cols, max(left.size, right.size))
    if pairs is None:
        return
    pick_left, pick_right = pairs
    if len(left.columns) < len(right.columns):
        left, right, pick_left, pick_right = right, left, pick_right, pick_left
    if len(pick_left) != left.size or (pick_left != np.arange(left.size)).any():
        left.columns = {member: column[pick_left] for member, column in left.columns.items()}
    del groups[right.name]
    root[np.array(list(right.columns))] = left.name
    left.columns |= {member: column[pick_right] for member, column in right.columns.items()}


def _pairs(work: Work, edge: Array, rows: Array, cols: Array, most: int) -> tuple[Array, Array] | None:
    """Allowed pairs of joint choices, given the class of each; None when there are more than `most` or none at all."""
    if edge[col.KIND] == col.TIE:
        order = np.argsort(cols, kind="stable")
        low, high = np.searchsorted(cols[order], rows, "left"), np.searchsorted(cols[order], rows, "right")
        if not 0 < int((high - low).sum()) <= most:
            return None
        return np.repeat(np.arange(len(rows)), high - low), order[spans(low, high - low)]
    at = edge[col.AT] + np.arange(edge[col.ROWS])[:, None] * edge[col.ROW_STEP]
    allowed = np.isfinite(work.cells[at + np.arange(edge[col.COLS]) * edge[col.COL_STEP]])
    partners = allowed.astype(np.int64) @ np.bincount(cols, minlength=allowed.shape[1])
    if not 0 < int(partners[rows].sum()) <= most:
        return None
    pick_rows, pick_cols = np.nonzero(allowed[rows[:, None], cols[None, :]])
    return pick_rows, pick_cols


def _group(work: Work, variable: int, groups: dict[int, _Group], root: Array) -> _Group:
    at = int(root[variable])
    if at not in groups:
        groups[at] = _Group({variable: np.arange(int(work.counts[variable]), dtype=np.int64)})
    return groups[at]


def _apply(work: Work, groups: dict[int, _Group]) -> Outcome:
    joined = [group for group in groups.values() if len(group.columns) > 1]
    if not joined:
        return Outcome(work)
    leads = np.ones(work.size, dtype=np.bool_)
    lead = np.arange(work.size)
    columns: dict[int, Array] = {}
    for group in joined:
        members = sorted(group.columns)  # the least member leads, and its labels come first in the order of choices
        lead[np.array(members)] = members[0]
        leads[np.array(members[1:])] = False
        order = np.lexsort([group.columns[member] for member in reversed(members)])
        columns |= {member: column[order] for member, column in group.columns.items()}
    new_index = np.cumsum(leads) - 1
    firsts = np.flatnonzero(leads)
    sizes = work.counts
    for member, column in columns.items():
        sizes[member] = len(column)
    at = pointers(sizes)[:-1]
    label = np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(at, sizes)
    for member, column in columns.items():
        label[at[member] : at[member] + len(column)] = column
    step = Remap(new_index[lead], at, label, sizes[firsts])
    new = remap(work, step, firsts)
    return Outcome(new, (step,), {"variables merged": work.size - new.size}, True)
