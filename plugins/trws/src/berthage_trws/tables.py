"""Pools the cost tables of a problem: one copy of each, equal rows and columns merged, inner classes unwrapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, CostTable

from .pack import find_classes

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_CELLS = 1024
"""Smaller tables are not searched for equal rows: a message over them costs less than mapping would save."""

MAP_COST = 12
"""Cells whose message time equals mapping one label to its class and back: an estimate, some 1.5 ns at 8 Gcell/s."""


@dataclass(frozen=True, eq=False, slots=True)
class TablePool:
    """Cost tables between classes of labels, row-major one after the other.

    Attributes:
        base: All entries; ``inf`` where forbidden.
        start, rows, columns: ``int64[tables]``: where each begins, and its shape in classes.
        row_of_label, column_of_label: For each table, the row (column) of each label, or None for itself.
        low, high: Least and greatest finite entry of each table (0 where there is none).
    """

    base: Floats
    start: Ints
    rows: Ints
    columns: Ints
    row_of_label: tuple[Ints | None, ...]
    column_of_label: tuple[Ints | None, ...]
    low: Floats
    high: Floats


def pool_tables(tables: Sequence[CostTable], given: Sequence[Floats | None] | None = None) -> TablePool:
    """Pool ``tables``: flatten, unwrap classes, merge equal rows and columns where that pays.

    Args:
        tables: The tables.
        given: Matrices to take instead of what is inside some of the tables. They are left as they are, and one given
            several times is stored once.
    """
    matrices: list[Floats] = []
    maps: list[tuple[Ints | None, Ints | None]] = []
    for slot, table in enumerate(tables):
        inner, row, column = _peel(table)
        matrix = None if given is None else given[slot]
        if matrix is None:
            matrix = np.ascontiguousarray(inner.to_dense())
            if matrix.size >= LEAST_CELLS:
                matrix, row, column = _merge_equal(matrix, row, column)
        matrices.append(matrix)
        maps.append((row, column))
    stored = list({id(matrix): matrix for matrix in matrices}.values())
    place = {id(matrix): i for i, matrix in enumerate(stored)}
    which = np.array([place[id(matrix)] for matrix in matrices], np.int64)
    rows = np.array([m.shape[0] for m in stored], np.int64)
    columns = np.array([m.shape[1] for m in stored], np.int64)
    base = np.concatenate([m.ravel() for m in stored]) if stored else np.zeros(0)
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows * columns)])[:-1]
    low = high = np.zeros(len(stored))
    if stored:
        low = np.minimum.reduceat(base, start)
        high = np.maximum.reduceat(np.where(base < np.inf, base, -np.inf), start)
        low, high = np.where(low < np.inf, low, 0.0), np.where(low < np.inf, high, 0.0)
    row_maps, column_maps = tuple(row for row, _ in maps), tuple(column for _, column in maps)
    return TablePool(base, start[which], rows[which], columns[which], row_maps, column_maps, low[which], high[which])


def _peel(table: CostTable) -> tuple[CostTable, Ints | None, Ints | None]:
    """The innermost table of a (nested) classed one, and the row and column of each label."""
    row: Ints | None = None
    column: Ints | None = None
    while isinstance(table, ClassedTable):
        mine, other = table.row_class.astype(np.int64), table.col_class.astype(np.int64)
        row, column = (mine if row is None else mine[row]), (other if column is None else other[column])
        table = table.table
    return table, row, column


def _merge_equal(matrix: Floats, row: Ints | None, column: Ints | None) -> tuple[Floats, Ints | None, Ints | None]:
    """Merge equal rows and equal columns of a matrix where that saves more than mapping labels costs."""
    mine, other = np.empty(matrix.shape[0], np.int64), np.empty(matrix.shape[1], np.int64)
    rows, columns = find_classes(matrix.view(np.uint64), mine, other)
    if matrix.size - rows * columns <= MAP_COST * sum(matrix.shape):
        return matrix, row, column
    merged = matrix[np.ix_(_first(mine, rows), _first(other, columns))]
    return merged, _compose(row, mine), _compose(column, other)


def _first(classes: Ints, count: int) -> Ints:
    """The first member of each class."""
    first = np.empty(count, np.int64)
    first[classes[::-1]] = np.arange(len(classes) - 1, -1, -1)
    return first


def _compose(outer: Ints | None, classes: Ints) -> Ints | None:
    """Label to merged line; None when that is the identity."""
    mapped: Any = classes if outer is None else classes[outer]
    return None if np.array_equal(mapped, np.arange(len(mapped))) else mapped.copy()
