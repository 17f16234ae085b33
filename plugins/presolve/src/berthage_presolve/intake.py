"""From a `PlacementProblem` to the `Work` that the rules reduce."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from berthage import ClassedTable, CostTable, DenseTable, LazyTable, PlacementProblem
from berthage.problem import IntervalBudget, LinearBudget, RelationKind
from berthage_presolve import edge_columns as col
from berthage_presolve.state import EPSILON, EXACT_FLOAT, Array, Fixed, Head, Rows, Work, peaks, pointers

FLOAT_TOLERANCE = 1e-9
"""Relative slack that `evaluate` grants budgets with float weights."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """One table or relation matrix, ready for edges to refer to."""

    at: int
    rows: int
    cols: int
    row_at: int
    col_at: int
    kind: int
    row_step: int = 0
    col_step: int = 1


class _Pool:
    """Cells and maps while they are collected."""

    def __init__(self, most_labels: int) -> None:
        self.maps: list[Array] = [np.arange(most_labels, dtype=np.int32)]
        self.cells: list[Array] = []
        self.map_size, self.cell_size = most_labels, 0

    def add_map(self, classes: Array) -> int:
        """Store a class map and return where."""
        at = self.map_size
        self.maps.append(classes.astype(np.int32))
        self.map_size += len(classes)
        return at

    def add_cells(self, matrix: Array) -> int:
        """Store a matrix and return where."""
        at = self.cell_size
        self.cells.append(np.ascontiguousarray(matrix, dtype=np.float64).reshape(-1))
        self.cell_size += matrix.size
        return at


def intake(problem: PlacementProblem) -> Work:
    """Flatten a problem; relations become edges or infinite costs, multiplicities of unary costs are folded in."""
    counts = problem.num_labels.astype(np.int64)
    ptr = problem.label_ptr.astype(np.int64)
    unary = problem.unary * np.repeat(problem.multiplicity, counts)
    pool = _Pool(int(counts.max(initial=1)))
    edges, mult = _cost_edges(problem, pool)
    cause = np.full(len(unary), -1, dtype=np.int64)
    hard = _relation_edges(problem, pool, unary, cause)
    edges = np.concatenate([edges, hard])
    heads, rows = _budgets(problem)
    work = Work(
        problem=problem,
        ptr=ptr,
        unary=unary,
        lead=np.arange(problem.num_variables, dtype=np.int64),
        lead_label=np.arange(len(unary), dtype=np.int64) - np.repeat(ptr[:-1], counts),
        edges=edges,
        mult=np.concatenate([mult, np.ones(len(hard))]),
        maps=np.concatenate(pool.maps),
        cells=np.concatenate([*pool.cells, np.zeros(0)]),
        tables=problem.tables,
        heads=heads,
        rows=rows,
        fixed=Fixed.none(),
        constant=int(problem.constant) if problem.is_integral else float(problem.constant),
        error=0.0,
        magnitude=math.inf,
        cause=cause,
    )
    return replace(work, magnitude=_magnitude(work), error=_soft_error(problem))


def is_exact(work: Work) -> bool:
    """Whether costs may be combined.

    Sums of whole numbers must stay exact. Sums of others are rounded, which is charged to the bound; beyond the same
    size (a cost of 1e308, say) the charge would leave no bound at all, so they are not combined either.
    """
    problem = work.problem
    if problem.unary_residual is not None or any(_has_residual(table) for table in problem.tables):
        return False
    return work.magnitude < EXACT_FLOAT


def _magnitude(work: Work) -> float:
    """An upper limit on the magnitude of every sum of finite costs of this problem."""
    total = float(peaks(work.ptr, work.unary).sum()) + abs(work.constant)
    stored = np.flatnonzero(work.edges[:, col.KIND] == col.COST)
    if not len(stored):
        return total
    starts, which = np.unique(work.edges[stored, col.AT], return_inverse=True)
    sizes = np.zeros(len(starts), dtype=np.int64)
    np.maximum.at(sizes, which, work.edges[stored, col.ROWS] * work.edges[stored, col.COLS])
    finite = np.where(np.isfinite(work.cells), np.abs(work.cells), 0.0)
    top = np.array([finite[at : at + size].max() for at, size in zip(starts.tolist(), sizes.tolist(), strict=True)])
    return total + float((work.mult[stored] * top[which]).sum())


def _soft_error(problem: PlacementProblem) -> float:
    """What rounding may change in the penalties of soft budgets with float weights when constants are taken off."""
    budgets: list[LinearBudget | IntervalBudget] = [*problem.linear_budgets, *problem.interval_budgets]
    soft = [b for b in budgets if b.price is not None and b.weights.dtype.kind == "f"]
    return 8.0 * EPSILON * math.fsum(float(b.price or 0) * float(np.abs(b.weights).sum()) for b in soft)


def _has_residual(table: CostTable) -> bool:
    if isinstance(table, ClassedTable):
        return _has_residual(table.table)
    return isinstance(table, DenseTable) and table.residual is not None


def _cost_edges(problem: PlacementProblem, pool: _Pool) -> tuple[Array, Array]:
    m = problem.num_edges
    edges = np.full((m, col.WIDTH), -1, dtype=np.int64)
    pieces = [_table_piece(table, pool) for table in problem.tables]
    edges[:, col.U], edges[:, col.V] = problem.edge_u, problem.edge_v
    _fill(edges, np.array([_columns(piece) for piece in pieces], dtype=np.int64).reshape(-1, 8), problem.edge_table)
    edges[:, col.SOURCE] = problem.edge_table
    return edges, problem.edge_multiplicity.astype(np.float64)


def _columns(piece: _Piece) -> tuple[int, ...]:
    step = piece.row_step or piece.cols
    return (piece.at, step, piece.col_step, piece.rows, piece.cols, piece.row_at, piece.col_at, piece.kind)


def _fill(edges: Array, columns: Array, which: Array) -> None:
    edges[:, col.AT : col.KIND + 1] = columns[which]


def _table_piece(table: CostTable, pool: _Pool) -> _Piece:
    row_class: Array | None = None
    col_class: Array | None = None
    while isinstance(table, ClassedTable):
        row_class = table.row_class if row_class is None else table.row_class[row_class]
        col_class = table.col_class if col_class is None else table.col_class[col_class]
        table = table.table
    rows, cols = table.shape
    row_at = 0 if row_class is None else pool.add_map(row_class)
    col_at = 0 if col_class is None else pool.add_map(col_class)
    if isinstance(table, LazyTable):
        return _Piece(-1, rows, cols, row_at, col_at, col.LAZY)
    return _Piece(pool.add_cells(table.to_dense()), rows, cols, row_at, col_at, col.COST)


def _relation_edges(problem: PlacementProblem, pool: _Pool, unary: Array, cause: Array) -> Array:
    """Edges of ties and pair relations; label relations go into `unary` and `cause` at once."""
    relations = problem.relations
    pieces: dict[tuple[int, int], tuple[int, ...]] = {}
    found: list[tuple[int, ...]] = []
    for row, relation in enumerate(relations):
        start, stop = int(problem.label_ptr[relation.u]), int(problem.label_ptr[relation.u + 1])
        if relation.kind is RelationKind.LABELS or relation.u == relation.v:
            allowed = relation.array
            if relation.kind is RelationKind.PAIRS:
                allowed = np.diagonal(relation.array)
            elif relation.kind is RelationKind.TIE:
                allowed = relation.array == np.arange(stop - start)
            forbidden = start + np.flatnonzero(~np.asarray(allowed, dtype=np.bool_))
            unary[forbidden] = np.inf
            cause[forbidden] = np.where(cause[forbidden] < 0, row, cause[forbidden])
            continue
        key = (int(relations.data[row]), int(problem.num_labels[relation.v]))
        if key not in pieces:
            if relation.kind is RelationKind.TIE:
                # class K_v stands for "no partner": the identity map never reaches it
                classes = np.where(relation.array < 0, key[1], relation.array)
                piece = _Piece(-1, key[1] + 1, key[1] + 1, pool.add_map(classes), 0, col.TIE)
            else:
                matrix = np.where(relation.array, 0.0, np.inf)
                piece = _Piece(pool.add_cells(matrix), matrix.shape[0], matrix.shape[1], 0, 0, col.COST)
            pieces[key] = _columns(piece)
        found.append((relation.u, relation.v, *pieces[key], -1, row))
    return np.array(found, dtype=np.int64).reshape(-1, col.WIDTH)


def _budgets(problem: PlacementProblem) -> tuple[tuple[Head, ...], Rows]:
    heads: list[Head] = []
    parts: list[tuple[Array, ...]] = []
    budgets: list[LinearBudget | IntervalBudget] = [*problem.linear_budgets, *problem.interval_budgets]
    for budget in budgets:
        interval = isinstance(budget, IntervalBudget)
        k = len(budget.variables)
        start = budget.start if isinstance(budget, IntervalBudget) else np.zeros(k, dtype=np.int64)
        stop = budget.stop if isinstance(budget, IntervalBudget) else np.ones(k, dtype=np.int64)
        lower = budget.lower if isinstance(budget, LinearBudget) else -math.inf
        upper = budget.limit if isinstance(budget, IntervalBudget) else budget.upper
        whole = budget.weights.dtype == np.int64
        tolerance = _tolerance(lower, upper, whole, budget.price)
        heads.append(Head(budget.name, interval, lower, upper, budget.price, whole, tolerance))
        live = np.flatnonzero(stop > start)
        which = np.full(len(live), len(heads) - 1, dtype=np.int64)
        counts = problem.num_labels[budget.variables].astype(np.int64)
        weights = budget.weights[np.repeat(stop > start, counts)]
        var = budget.variables[live].astype(np.int64)
        parts.append((which, var, start[live], stop[live], counts[live], weights))
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return (), Rows(none, none, none, none, none, np.zeros(0))
    which, var, start, stop, counts, weights = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    at = pointers(counts)[:-1]
    return tuple(heads), Rows(which, var, start, stop, at, weights.astype(np.float64))


def budgets_are_exact(work: Work) -> bool:
    """Whether float64 holds every possible use of the whole-number budgets."""
    rows = work.rows
    counts = work.counts[rows.var]
    use = peaks(np.append(rows.at, int(counts.sum())), rows.weights)
    totals = np.bincount(rows.budget, weights=use, minlength=len(work.heads))
    return all(total < EXACT_FLOAT for head, total in zip(work.heads, totals.tolist(), strict=True) if head.whole)


def _tolerance(lower: int | float, upper: int | float, whole: bool, price: int | float | None) -> float:
    if whole or price is not None:
        return 0.0
    return FLOAT_TOLERANCE * max(1.0, abs(float(upper if math.isfinite(upper) else lower)))
