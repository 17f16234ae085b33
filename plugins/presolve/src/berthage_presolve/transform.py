"""Bulk changes of a `Work`: keep some labels, merge variables, drop variables. Each returns the step that undoes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berthage import ClassedTable, CostTable
from berthage_presolve import edge_columns as col
from berthage_presolve.lifting import Drop, Remap
from berthage_presolve.state import EPSILON, Array, BoolArray, Rows, Work, peaks, pointers, spans


def keep_labels(work: Work, alive: BoolArray) -> tuple[Work, Remap]:
    """Remove labels; every variable must keep one."""
    counts = np.add.reduceat(alive, work.ptr[:-1], dtype=np.int64) if work.size else np.zeros(0, dtype=np.int64)
    label = (np.arange(len(alive), dtype=np.int64) - np.repeat(work.ptr[:-1], work.counts))[alive]
    step = Remap(np.arange(work.size, dtype=np.int64), pointers(counts)[:-1], label, counts)
    return remap(work, step, np.arange(work.size, dtype=np.int64)), step


def remap(work: Work, step: Remap, first_of: Array) -> Work:
    """Apply a `Remap`: the new variable's cost is the sum of its members', and so are its budget rows.

    Args:
        work: Before.
        step: What becomes of every variable and label.
        first_of: int64[n'], the old variable that gives each new one its name and labels.
    """
    ptr = pointers(step.counts)
    counts = step.counts[step.new_of]
    old = spans(step.at, counts)
    labels = step.label[old]
    cells = np.repeat(work.ptr[:-1], counts) + labels
    where = spans(ptr[:-1][step.new_of], counts)
    merged = len(step.counts) < work.size
    unary: Array
    if merged:
        unary = np.bincount(where, weights=work.unary[cells], minlength=int(ptr[-1]))
    else:
        unary = np.empty(int(ptr[-1]))
        unary[where] = work.unary[cells]
    lead_label, cause = np.empty(int(ptr[-1]), dtype=np.int64), np.empty(int(ptr[-1]), dtype=np.int64)
    first_counts = step.counts
    first_cells = np.repeat(work.ptr[:-1][first_of], first_counts) + step.label[spans(step.at[first_of], first_counts)]
    lead_label[:] = work.lead_label[first_cells]
    cause[:] = work.cause[first_cells]
    edges, maps = _remap_edges(work, step)
    error = work.error
    if merged and isinstance(work.constant, float):
        error += EPSILON * float(peaks(work.ptr, work.unary).sum())
    new = replace(
        work,
        ptr=ptr,
        unary=unary,
        lead=work.lead[first_of],
        lead_label=lead_label,
        cause=cause,
        edges=edges,
        maps=maps,
        rows=_remap_rows(work, step, merged),
        error=error,
    )
    return _fold_loops(new) if merged else new


def _remap_edges(work: Work, step: Remap) -> tuple[Array, Array]:
    edges = work.edges.copy()
    maps, size = [], 0
    for end, at in ((col.U, col.ROW_AT), (col.V, col.COL_AT)):
        var = edges[:, end]
        new = step.new_of[var]
        counts = step.counts[new]
        source = np.repeat(edges[:, at], counts) + step.label[spans(step.at[var], counts)]
        maps.append(work.maps[source])
        edges[:, at] = size + pointers(counts)[:-1]
        edges[:, end] = new
        size += len(source)
    return edges, np.concatenate(maps)


def _remap_rows(work: Work, step: Remap, merged: bool) -> Rows:
    rows = work.rows
    var = step.new_of[rows.var]
    counts = step.counts[var]
    weights = rows.weights[np.repeat(rows.at, counts) + step.label[spans(step.at[rows.var], counts)]]
    new = Rows(rows.budget, var, rows.start, rows.stop, pointers(counts)[:-1], weights)
    return combine_rows(new, step.counts) if merged else new


def combine_rows(rows: Rows, counts: Array) -> Rows:
    """Add up rows of one budget that belong to one variable and are live over the same interval."""
    order = np.lexsort((rows.stop, rows.start, rows.var, rows.budget))
    keys = np.stack([rows.budget[order], rows.var[order], rows.start[order], rows.stop[order]])
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    if new.all():
        return take_rows(rows, counts, order)
    group = np.cumsum(new) - 1
    first = order[new]
    size = counts[rows.var[first]]
    at = pointers(size)
    every = counts[rows.var[order]]
    weights = np.bincount(
        spans(at[:-1][group], every), weights=rows.weights[spans(rows.at[order], every)], minlength=int(at[-1])
    )
    return Rows(rows.budget[first], rows.var[first], rows.start[first], rows.stop[first], at[:-1], weights)


def take_rows(rows: Rows, counts: Array, which: Array) -> Rows:
    """Some of the rows, in the given order (which must keep budgets together)."""
    size = counts[rows.var[which]]
    weights = rows.weights[spans(rows.at[which], size)]
    at = pointers(size)[:-1]
    return Rows(rows.budget[which], rows.var[which], rows.start[which], rows.stop[which], at, weights)


def _fold_loops(work: Work) -> Work:
    """Edges whose ends became one variable are unary costs."""
    loops = np.flatnonzero(work.edges[:, col.U] == work.edges[:, col.V])
    if not len(loops):
        return work
    edges = work.edges[loops]
    counts = work.counts[edges[:, col.U]]
    rows = work.maps[spans(edges[:, col.ROW_AT], counts)].astype(np.int64)
    cols = work.maps[spans(edges[:, col.COL_AT], counts)].astype(np.int64)
    each = np.repeat(np.arange(len(loops)), counts)
    kind = edges[each, col.KIND]
    costs = np.where(rows == cols, 0.0, np.inf)
    stored = np.flatnonzero(kind == col.COST)
    costs[stored] = work.cells[
        edges[each[stored], col.AT]
        + rows[stored] * edges[each[stored], col.ROW_STEP]
        + cols[stored] * edges[each[stored], col.COL_STEP]
    ]
    for i in np.flatnonzero(edges[:, col.KIND] == col.LAZY).tolist():
        mine = each == i  # one price per label is left of the whole table
        costs[mine] = base_table(work, int(edges[i, col.SOURCE])).lookup(rows[mine], cols[mine])
    costs *= work.mult[loops][each]
    where = spans(work.ptr[:-1][edges[:, col.U]], counts)
    unary = work.unary + np.bincount(where, weights=costs, minlength=len(work.unary))
    error = work.error
    if isinstance(work.constant, float):
        error += EPSILON * len(loops) * float(peaks(work.ptr, unary).sum())
        error += EPSILON * float(np.where(np.isfinite(costs), np.abs(costs), 0.0).sum())
    stay = np.ones(len(work.edges), dtype=np.bool_)
    stay[loops] = False
    return replace(work, unary=unary, edges=work.edges[stay], mult=work.mult[stay], error=error)


def base_table(work: Work, source: int) -> CostTable:
    """The table between classes under a table of the problem."""
    table = work.tables[source]
    while isinstance(table, ClassedTable):
        table = table.table
    return table


def drop_variables(work: Work, gone: BoolArray) -> tuple[Work, Drop]:
    """Remove variables that no edge and no budget row refers to any more."""
    kept = np.flatnonzero(~gone)
    new_of = np.cumsum(~gone) - 1
    counts = work.counts[kept]
    cells = spans(work.ptr[:-1][kept], counts)
    edges = work.edges.copy()
    edges[:, col.U] = new_of[edges[:, col.U]]
    edges[:, col.V] = new_of[edges[:, col.V]]
    new = replace(
        work,
        ptr=pointers(counts),
        unary=work.unary[cells],
        lead=work.lead[kept],
        lead_label=work.lead_label[cells],
        cause=work.cause[cells],
        edges=edges,
        rows=replace(work.rows, var=new_of[work.rows.var]),
    )
    return new, Drop(kept, work.size)
