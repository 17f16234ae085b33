"""Pair columns of the local polytope: one per allowed pair of label classes, once folding is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berthage.linear.groups import Groups
from berthage.linear.pool import PairTerms
from berthage.linear.ragged import starts_of

__all__ = ["PairColumns", "pair_columns"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_CHUNK_CELLS = 1 << 21
"""Cells handled at once: large enough to amortise numpy calls, small enough to stay in cache and memory."""

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class PairColumns:
    """What the pairwise terms contribute to a linear program.

    Pair ``p`` joins the groups ``first[p] < second[p]``. Labels whose (shifted) costs agree form one class;
    there is one column per allowed pair of classes and one row per class (its columns sum to its labels'
    columns).

    Attributes:
        first, second: ``int64[P]`` groups of each pair that keeps columns.
        class_ptr: ``int64[P+1]`` offsets into ``label_class``: first the labels of the first group, then of
            the second.
        label_class: class of each label within its side, -1 for a label that no allowed pair holds.
        shape: ``int64[P, 2]`` number of classes on either side.
        cost: ``float64[Y]`` cost of each pair column, non-negative.
        pair: ``int64[Y]`` pair of each column; sorted.
        row, col: ``int64[Y]`` classes of each column.
        unary: ``float64[C]`` what folding adds to the label columns; inf where a label lost its last partner.
        magnitude: ``float64[C]`` sum of the absolute values of what was added, 0 where it was added exactly.
        error: bound on the rounding error of adding parallel terms of opposite signs.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    class_ptr: NDArray[np.int64]
    label_class: NDArray[np.int64]
    shape: NDArray[np.int64]
    cost: Floats
    pair: NDArray[np.int64]
    row: NDArray[np.int64]
    col: NDArray[np.int64]
    unary: Floats
    magnitude: Floats
    error: float


def pair_columns(terms: PairTerms, groups: Groups) -> PairColumns:
    """Combine parallel terms, fold what is separable into the labels, and list the pair columns of the rest.

    Terms are handled in stacks of equal shape, so the work is array work however many edges there are.
    """
    unary = np.zeros(int(groups.ptr[-1]))
    first: list[NDArray[np.int64]] = []
    second: list[NDArray[np.int64]] = []
    classes: list[NDArray[np.int64]] = []
    shape: list[NDArray[np.int64]] = []
    columns: list[tuple[Floats, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    count = 0
    magnitude = np.zeros(len(unary))
    _fold_loops(terms, groups, unary, magnitude)
    error = 0.0
    for g, h, stack, cancelled in _stacks(terms, groups):
        error += cancelled
        _shift(stack, g, h, groups, unary, magnitude)
        finite: Bools = np.isfinite(stack)
        live_a: Bools = np.any(finite, axis=2)
        live_b: Bools = np.any(finite, axis=1)
        # A pair matters when an entry between live labels is priced or forbidden.
        matters: Bools = np.any((stack > 0.0) & live_a[:, :, None] & live_b[:, None, :], axis=(1, 2))
        if not matters.any():
            continue
        stack, finite = stack[matters], finite[matters]
        class_a, rep_a = _classes(stack, live_a[matters])
        class_b, rep_b = _classes(stack.transpose(0, 2, 1), live_b[matters])
        p, i, j = np.nonzero(finite & rep_a[:, :, None] & rep_b[:, None, :])
        columns.append((stack[p, i, j], p + count, class_a[p, i], class_b[p, j]))
        first.append(g[matters])
        second.append(h[matters])
        classes.append(np.concatenate([class_a, class_b], axis=1).reshape(-1))
        shape.append(np.stack([class_a.max(axis=1, initial=-1) + 1, class_b.max(axis=1, initial=-1) + 1], axis=1))
        count += len(stack)
    empty = np.zeros(0, dtype=np.int64)
    first_groups = np.concatenate([empty, *first])
    second_groups = np.concatenate([empty, *second])
    sizes = groups.sizes
    return PairColumns(
        first=first_groups,
        second=second_groups,
        class_ptr=starts_of(sizes[first_groups] + sizes[second_groups]),
        label_class=np.concatenate([empty, *classes]),
        shape=np.concatenate([np.zeros((0, 2), dtype=np.int64), *shape]),
        cost=np.concatenate([np.zeros(0), *(c[0] for c in columns)]),
        pair=np.concatenate([empty, *(c[1] for c in columns)]),
        row=np.concatenate([empty, *(c[2] for c in columns)]),
        col=np.concatenate([empty, *(c[3] for c in columns)]),
        unary=unary,
        magnitude=magnitude,
        error=error,
    )


def _fold_loops(terms: PairTerms, groups: Groups, unary: Floats, magnitude: Floats) -> None:
    """Terms between variables merged into one group cost what their joint label costs."""
    loops = np.flatnonzero(groups.group_of[terms.u] == groups.group_of[terms.v])
    for e in loops.tolist():
        u, v = terms.u[e], terms.v[e]
        g = groups.group_of[u]
        size = groups.ptr[g + 1] - groups.ptr[g]
        label_u = groups.sel[groups.sel_ptr[u] : groups.sel_ptr[u] + size]
        label_v = groups.sel[groups.sel_ptr[v] : groups.sel_ptr[v] + size]
        row = terms.maps[terms.row_start[e] + label_u]
        col = terms.maps[terms.col_start[e] + label_v]
        cost = terms.weight[e] * terms.values[terms.start[e] + row * terms.width[e] + col]
        unary[groups.ptr[g] : groups.ptr[g + 1]] += cost
        if not _whole(cost):
            magnitude[groups.ptr[g] : groups.ptr[g + 1]] += np.where(np.isfinite(cost), np.abs(cost), 0.0)


def _stacks(terms: PairTerms, groups: Groups) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Floats, float]]:
    """Yield ``(first groups, second groups, costs[P, k_first, k_second], error)``, every pair once."""
    gu, gv = groups.group_of[terms.u], groups.group_of[terms.v]
    flip = gu > gv
    g, h = np.where(flip, gv, gu), np.where(flip, gu, gv)
    ka, kb = groups.sizes[g], groups.sizes[h]
    keep = np.flatnonzero((g != h) & (ka > 0) & (kb > 0))
    order = keep[np.lexsort((h[keep], g[keep], kb[keep], ka[keep]))]
    if not len(order):
        return
    g, h, ka, kb, flip = g[order], h[order], ka[order], kb[order], flip[order]
    new_pair = np.ones(len(order), dtype=bool)
    new_pair[1:] = (g[1:] != g[:-1]) | (h[1:] != h[:-1])
    new_shape = np.ones(len(order), dtype=bool)
    new_shape[1:] = (ka[1:] != ka[:-1]) | (kb[1:] != kb[:-1])
    borders = np.append(np.flatnonzero(new_shape), len(order))
    pair_starts = np.flatnonzero(new_pair)
    for begin, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        step = max(1, _CHUNK_CELLS // int(ka[begin] * kb[begin]))
        while begin < end:
            stop = begin + step
            if stop < end:  # move the cut back (or, inside one long run, forward) to where a pair starts
                at = int(np.searchsorted(pair_starts, stop, side="right")) - 1
                stop = int(pair_starts[at])
                if stop <= begin:
                    stop = int(pair_starts[at + 1]) if at + 1 < len(pair_starts) else end
            stop = min(stop, end)
            part = slice(begin, stop)
            costs = _gather(terms, groups, order[part], flip[part], int(ka[begin]), int(kb[begin]))
            heads = np.flatnonzero(new_pair[part])
            cancelled = 0.0
            if len(heads) < stop - begin:
                parallel, costs = costs, np.add.reduceat(costs, heads, axis=0)
                if not _whole(parallel):
                    cancelled = _cancellation(np.add.reduceat(np.abs(parallel), heads, axis=0), costs)
            yield g[part][heads], h[part][heads], costs, cancelled
            begin = stop


def _gather(
    terms: PairTerms, groups: Groups, e: NDArray[np.int64], flip: NDArray[np.bool_], ka: int, kb: int
) -> Floats:
    """Costs ``[E, ka, kb]`` of the terms ``e`` over the label columns of their groups."""
    a, b = np.where(flip, terms.v[e], terms.u[e]), np.where(flip, terms.u[e], terms.v[e])
    label_a = groups.sel[groups.sel_ptr[a][:, None] + np.arange(ka)]
    label_b = groups.sel[groups.sel_ptr[b][:, None] + np.arange(kb)]
    map_a = np.where(flip, terms.col_start[e], terms.row_start[e])
    map_b = np.where(flip, terms.row_start[e], terms.col_start[e])
    stride_a = np.where(flip, 1, terms.width[e])
    stride_b = np.where(flip, terms.width[e], 1)
    at_a = terms.start[e][:, None] + terms.maps[map_a[:, None] + label_a] * stride_a[:, None]
    at_b = terms.maps[map_b[:, None] + label_b] * stride_b[:, None]
    costs: Floats = terms.values[at_a[:, :, None] + at_b[:, None, :]]
    if (terms.weight[e] != 1.0).any():
        costs *= terms.weight[e][:, None, None]
    return costs


def _shift(
    stack: Floats,
    g: NDArray[np.int64],
    h: NDArray[np.int64],
    groups: Groups,
    unary: Floats,
    magnitude: Floats,
) -> None:
    """Subtract row minima, then column minima, in place, adding them to the labels.

    Afterwards every entry is at least 0 and every live row and column holds a 0, so a separable table is all
    zeros (up to rounding, which is cleared).
    """
    noise = None if _whole(stack) else np.abs(stack)
    for axis, group in ((2, g), (1, h)):
        low = stack.min(axis=axis)
        gone = np.isinf(low)
        low[gone] = 0.0
        stack -= np.expand_dims(low, axis)
        columns = (groups.ptr[group][:, None] + np.arange(low.shape[1])).reshape(-1)
        np.add.at(unary, columns, np.where(gone, np.inf, low).reshape(-1))
        if noise is not None:
            noise += np.expand_dims(np.abs(low), axis)
            np.add.at(magnitude, columns, np.abs(low).reshape(-1))
    if noise is not None:
        # What rounding leaves of a separable table; lowering a cost keeps bounds valid.
        stack[(stack <= (4.0 * _EPS) * noise) & np.isfinite(stack)] = 0.0


def _cancellation(size: Floats, total: Floats) -> float:
    """Rounding error of sums beyond what is relative to their own size, summed over the pairs."""
    known = np.isfinite(total)
    lost = np.where(known, size, 0.0) - np.where(known, np.abs(total), 0.0)
    return 8.0 * _EPS * float(lost.max(axis=(1, 2), initial=0.0).sum())


def _whole(values: Floats) -> bool:
    """Whether all finite values are integers small enough that sums of many stay exact."""
    finite = values[np.isfinite(values)]
    return bool(np.abs(finite).max(initial=0.0) < 2.0**44 and np.array_equal(finite, np.rint(finite)))


def _classes(stack: Floats, live: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Classes of equal rows: ``(class[P, k], is_representative[P, k])``; dead rows get class -1.

    Rows are compared by a 64-bit hash and the outcome is then verified entry by entry.
    """
    pairs, rows, cols = stack.shape
    bits = (stack + 0.0).view(np.uint64)
    weights = _odd_numbers(cols)
    with np.errstate(over="ignore"):
        mixed = bits ^ (bits >> np.uint64(29))
        mixed = (mixed * weights[None, None, :]) ^ (mixed >> np.uint64(31))
        key = (mixed * weights[None, None, ::-1]).sum(axis=2, dtype=np.uint64)
    order = np.argsort(key, axis=1, kind="stable")
    ranked = np.take_along_axis(key, order, axis=1)
    head = np.ones((pairs, rows), dtype=bool)
    head[:, 1:] = ranked[:, 1:] != ranked[:, :-1]
    # Representative of every row: the first row of its run (stable sort: the smallest index).
    position = np.maximum.accumulate(np.where(head, np.arange(rows)[None, :], 0), axis=1)
    leader = np.empty((pairs, rows), dtype=np.int64)
    np.put_along_axis(leader, order, np.take_along_axis(order, position, axis=1), axis=1)
    if not np.array_equal(stack, np.take_along_axis(stack, leader[:, :, None], axis=1)):
        leader = np.broadcast_to(np.arange(rows), (pairs, rows)).copy()  # a hash collision: no merging in this stack
    is_rep = (leader == np.arange(rows)[None, :]) & live
    number = np.cumsum(is_rep, axis=1) - 1
    classes = np.where(live, np.take_along_axis(number, leader, axis=1), -1)
    return classes, is_rep


def _odd_numbers(count: int) -> NDArray[np.uint64]:
    """Fixed pseudo-random odd 64-bit multipliers (splitmix64)."""
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) | np.uint64(1)
