"""From what is left of a `Work` back to `PlacementProblem` values, one per part."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berthage import ClassedTable, CostTable, DenseTable, LabelSet, PlacementProblem
from berthage.problem import IntervalBudget, LinearBudget, Relations
from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency
from berthage_presolve.intake import FLOAT_TOLERANCE
from berthage_presolve.state import Array, Head, Work, pointers, spans
from berthage_presolve.transform import base_table, take_rows

FIXED_USE = "(fixed use)"
"""Name of the one-label variable that carries what decided variables use of interval budgets."""


@dataclass(frozen=True, slots=True)
class Part:
    """One problem that is left, and which variables of the `Work` it has (before the carrier of fixed use, if any)."""

    problem: PlacementProblem
    variables: Array

    @property
    def has_carrier(self) -> bool:
        """Whether the last variable only carries fixed use."""
        return self.problem.num_variables > len(self.variables)


def emit(work: Work, variables: Array, name: str, constant: int | float) -> Part:
    """The problem of some variables, with all edges and budget rows that touch them.

    Args:
        work: Everything; no edge leaves `variables`.
        variables: int64, increasing.
        name: Name of the problem.
        constant: Its constant.
    """
    new_of = np.full(work.size, -1, dtype=np.int64)
    new_of[variables] = np.arange(len(variables))
    sets, set_of = _label_sets(work, variables)
    names = list(work.names(variables))
    which = np.flatnonzero(new_of[work.edges[:, col.U]] >= 0)
    tables, edge_table = _tables(work, which)
    linear, interval, carried = _budgets(work, new_of)
    unary = work.unary[spans(work.ptr[:-1][variables], work.counts[variables])]
    if carried:
        set_of = np.append(set_of, len(sets))
        sets = (*sets, LabelSet(1))
        unary = np.append(unary, 0.0)
        names.append(_unused(FIXED_USE, set(names)))
    problem = PlacementProblem(
        name=name,
        label_sets=sets,
        variable_names=tuple(names),
        variable_label_set=_frozen(set_of, np.int32),
        multiplicity=_frozen(np.ones(len(names)), np.int64),
        unary=_frozen(unary, np.float64),
        tables=tables,
        edge_u=_frozen(new_of[work.edges[which, col.U]], np.int32),
        edge_v=_frozen(new_of[work.edges[which, col.V]], np.int32),
        edge_table=_frozen(edge_table, np.int32),
        edge_multiplicity=_frozen(work.mult[which], np.int64),
        relations=Relations.none(),
        linear_budgets=linear,
        interval_budgets=interval,
        constant=constant,
    )
    return Part(problem, variables)


def _frozen(values: Array, dtype: type[np.generic]) -> Array:
    array: Array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


def _label_sets(work: Work, variables: Array) -> tuple[tuple[LabelSet, ...], Array]:
    """Label sets, shared where original set and labels are the same."""
    problem = work.problem
    lead = work.lead[variables]
    counts = work.counts[variables]
    at = work.ptr[:-1][variables]
    local = np.arange(int(counts.sum())) - np.repeat(pointers(counts)[:-1], counts)
    moved = work.lead_label[spans(at, counts)] != local
    same = counts == problem.num_labels[lead]
    if len(variables):
        same &= ~np.logical_or.reduceat(moved, pointers(counts)[:-1])
    original = problem.variable_label_set[lead]
    used, set_of = np.unique(original, return_inverse=True)
    sets = [problem.label_sets[i] for i in used.tolist()]
    known: dict[tuple[int, bytes], int] = {}
    for i in np.flatnonzero(~same).tolist():
        picked = work.lead_label[at[i] : at[i] + counts[i]]
        key = (int(original[i]), picked.tobytes())
        if key not in known:
            known[key] = len(sets)
            sets.append(_take(problem.label_sets[key[0]], picked))
        set_of[i] = known[key]
    kept, set_of = np.unique(set_of, return_inverse=True)
    return tuple(sets[i] for i in kept.tolist()), set_of


def _take(labels: LabelSet, picked: Array) -> LabelSet:
    """Some labels; of joint choices that share their first label all but the first get a mark, so that names differ."""
    taken = labels.take(picked)
    if len(np.unique(picked)) == len(picked):
        return taken
    seen: set[str] = set()
    names = []
    for label in picked.tolist():
        name = labels.name(label)
        count = 2
        while name in seen:
            name, count = f"{labels.name(label)} #{count}", count + 1
        seen.add(name)
        names.append(name)
    return LabelSet(taken.size, tuple(names), taken.coordinates)


def _tables(work: Work, which: Array) -> tuple[tuple[CostTable, ...], Array]:
    """Tables of some edges; edges whose cells and maps have the same content share one."""
    edges = work.edges[which]
    if not len(edges):
        return (), np.zeros(0, dtype=np.int64)
    hashes = kernels_consistency.hash_maps(work.ptr, edges, work.maps)
    counts = work.counts
    keys = np.stack(
        [
            edges[:, col.KIND],
            np.where(edges[:, col.KIND] == col.LAZY, edges[:, col.SOURCE], edges[:, col.AT]),
            edges[:, col.ROW_STEP],
            edges[:, col.COL_STEP],
            counts[edges[:, col.U]],
            counts[edges[:, col.V]],
            hashes[:, 0].view(np.int64),
            hashes[:, 1].view(np.int64),
        ],
        axis=1,
    )
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    group = _verified(work, edges, first, group)
    tables: list[CostTable] = []
    by_content: dict[tuple[object, ...], int] = {}
    index = np.empty(int(group.max()) + 1, dtype=np.int64)
    seen = np.unique(group, return_index=True)[1]
    plain = _plain(work, edges[seen], counts)
    sizes = np.stack([counts[edges[seen, col.U]], counts[edges[seen, col.V]]], axis=1).tolist()
    for g, (e, whole, (k_u, k_v)) in enumerate(zip(seen.tolist(), plain.tolist(), sizes, strict=True)):
        source = int(edges[e, col.SOURCE])
        table, key = _table(work, edges[e], k_u, k_v, work.tables[source] if whole else None)
        index[g] = by_content.setdefault(key, len(tables))
        if index[g] == len(tables):
            tables.append(table)
    return tuple(tables), index[group]


def _verified(work: Work, edges: Array, first: Array, group: Array) -> Array:
    """Split groups whose hashes agree by accident."""
    counts = work.counts
    wrong = np.zeros(len(edges), dtype=np.bool_)
    for end, at in ((col.U, col.ROW_AT), (col.V, col.COL_AT)):
        size = counts[edges[:, end]]
        mine = work.maps[spans(edges[:, at], size)]
        model = work.maps[spans(edges[first[group], at], size)]
        wrong |= np.logical_or.reduceat(mine != model, pointers(size)[:-1])
    if wrong.any():
        group = group.copy()
        group[wrong] = int(group.max()) + 1 + np.arange(int(wrong.sum()))
    return group


def _plain(work: Work, edges: Array, counts: Array) -> Array:
    """bool[m]: edges whose labels are still the rows and columns of the table they came with, all and in order."""
    plain: Array = (edges[:, col.KIND] == col.COST) & (edges[:, col.SOURCE] >= 0)
    for end, at, size in ((col.U, col.ROW_AT, col.ROWS), (col.V, col.COL_AT, col.COLS)):
        k = counts[edges[:, end]]
        local = np.arange(int(k.sum())) - np.repeat(pointers(k)[:-1], k)
        plain &= (k == edges[:, size]) & ~np.logical_or.reduceat(
            work.maps[spans(edges[:, at], k)] != local, pointers(k)[:-1]
        )
    return plain


def _table(
    work: Work, edge: Array, k_u: int, k_v: int, original: CostTable | None
) -> tuple[CostTable, tuple[object, ...]]:
    """One edge's table over the labels that are left, and a key that says what it holds."""
    if isinstance(original, DenseTable):
        return original, ("original", id(original))
    rows = work.maps[edge[col.ROW_AT] : edge[col.ROW_AT] + k_u]
    cols = work.maps[edge[col.COL_AT] : edge[col.COL_AT] + k_v]
    row_used, row_class = _compact(rows, int(edge[col.ROWS]))
    col_used, col_class = _compact(cols, int(edge[col.COLS]))
    if edge[col.KIND] == col.LAZY:
        lazy = base_table(work, int(edge[col.SOURCE]))
        if len(row_used) == len(rows) and len(col_used) == len(cols):
            return lazy.take(rows, cols), ("lazy", id(lazy), rows.tobytes(), cols.tobytes())
        classed = ClassedTable(lazy.take(row_used, col_used), row_class, col_class)
        return classed, ("classed lazy", id(lazy), rows.tobytes(), cols.tobytes())
    if edge[col.KIND] == col.TIE:
        values = np.where(row_used[:, None] == col_used[None, :], 0.0, np.inf)
    else:
        at = edge[col.AT] + row_used.astype(np.int64)[:, None] * edge[col.ROW_STEP]
        values = work.cells[at + col_used.astype(np.int64) * edge[col.COL_STEP]]
    # classes pay when a message over them, labels + classes², is clearly cheaper than one over all pairs of labels
    if 2 * values.size <= len(rows) * len(cols):
        key = ("classed", values.shape, values.tobytes(), row_class.tobytes(), col_class.tobytes())
        return ClassedTable(DenseTable(values), row_class, col_class), key
    values = values[np.ix_(row_class, col_class)]
    return DenseTable(values), ("dense", values.shape, values.tobytes())


def _compact(classes: Array, count: int) -> tuple[Array, Array]:
    """The classes that occur, and each entry's place among them."""
    occurs = np.zeros(count, dtype=np.bool_)
    occurs[classes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[classes]


def _budgets(work: Work, new_of: Array) -> tuple[tuple[LinearBudget, ...], tuple[IntervalBudget, ...], bool]:
    """Budgets of the variables with a new index, and whether fixed use needs a carrier."""
    linear: list[LinearBudget] = []
    interval: list[IntervalBudget] = []
    carried = False
    carrier = int(new_of.max(initial=-1)) + 1
    for index, head in enumerate(work.heads):
        rows = np.arange(*np.searchsorted(work.rows.budget, (index, index + 1)))
        rows = rows[new_of[work.rows.var[rows]] >= 0]
        if not head.alive or not len(rows):
            continue
        mine = take_rows(work.rows, work.counts, rows)
        dtype = np.int64 if head.whole else np.float64
        var = new_of[mine.var]
        ptr = np.append(mine.at, len(mine.weights))
        if not head.interval:
            lower, upper = _limits(head)
            linear.append(
                LinearBudget(
                    head.name,
                    _frozen(var, np.int32),
                    _frozen(ptr, np.int64),
                    _frozen(mine.weights, dtype),
                    lower,
                    upper,
                    head.price,
                )
            )
            continue
        start, stop, weight = _profile(work, index, mine.start, mine.stop)
        carried |= len(weight) > 0
        interval.append(
            IntervalBudget(
                head.name,
                _frozen(np.concatenate([var, np.full(len(weight), carrier)]), np.int32),
                _frozen(np.concatenate([mine.start, start]), np.int64),
                _frozen(np.concatenate([mine.stop, stop]), np.int64),
                _frozen(np.concatenate([ptr, ptr[-1] + 1 + np.arange(len(weight))]), np.int64),
                _frozen(np.concatenate([mine.weights, weight]), dtype),
                head.upper,
                head.price,
            )
        )
    return tuple(linear), tuple(interval), carried


def _limits(head: Head) -> tuple[int | float, int | float]:
    """Limits of what is left of a linear budget.

    `evaluate` grants hard budgets with float weights a slack relative to the limit; what the new limit earns less (or
    more) than the original one is made up for, so that the same assignments stay feasible.
    """
    lower, upper = head.lower, head.upper
    if head.tolerance:
        earned = FLOAT_TOLERANCE * max(1.0, abs(float(upper if math.isfinite(upper) else lower)))
        missing = head.tolerance - earned
        if lower - missing <= upper + missing:
            lower, upper = lower - missing, upper + missing
    return lower, upper


def _profile(work: Work, index: int, start: Array, stop: Array) -> tuple[Array, Array, Array]:
    """Fixed use of an interval budget (a hard one: where the given rows are live), in as few rows as possible."""
    fixed = np.flatnonzero(work.fixed.budget == index)
    if not len(fixed):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    begin, end, weight = work.fixed.start[fixed], work.fixed.stop[fixed], work.fixed.weight[fixed]
    instants, where = np.unique(np.concatenate([begin, end, start, stop]), return_inverse=True)
    k, r = len(fixed), len(start)
    change = np.bincount(where[:k], weights=weight, minlength=len(instants))
    change -= np.bincount(where[k : 2 * k], weights=weight, minlength=len(instants))
    live = np.bincount(where[2 * k : 2 * k + r], minlength=len(instants)) - np.bincount(
        where[2 * k + r :], minlength=len(instants)
    )
    use = np.cumsum(change)[:-1]
    if work.heads[index].hard:  # a soft budget pays for the peak wherever it is
        use = np.where(np.cumsum(live)[:-1] > 0, use, 0.0)
    if not work.heads[index].whole:
        use = np.where(use > 1e-12 * weight.sum(), use, 0.0)  # what rounding leaves after the last row has ended
    run = np.flatnonzero(np.append(True, use[1:] != use[:-1]))
    ends = np.append(run[1:], len(use))
    held = use[run] > 0.0
    return instants[run[held]], instants[ends[held]], use[run[held]]
