"""Parallel edges with lazy tables, added up without pricing them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, CostTable, LazyTable
from berthage_trws.tables import Floats, Ints

from .pool import inner_table

__all__ = ["Part", "add_lazily"]

Part: TypeAlias = tuple[CostTable, int]
"""A table and how often it counts."""


def add_lazily(parts: Sequence[Part]) -> CostTable | None:
    """The sum of tables of one shape, some of them lazy, as a classed lazy table; None when none is lazy.

    Two labels are in one class when they are in every one of the tables.
    """
    if not any(isinstance(inner_table(table), LazyTable) for table, _ in parts):
        return None
    row, row_class = _joint([_classes(table, 0) for table, _ in parts])
    column, column_class = _joint([_classes(table, 1) for table, _ in parts])
    return ClassedTable(LazyTable(_Sum(parts, row, column)), row_class, column_class)


class _Sum:
    """An oracle over the sum of tables at some of their rows and columns."""

    def __init__(self, parts: Sequence[Part], row: Ints, column: Ints) -> None:
        self._parts, self._row, self._column = tuple(parts), row, column
        digest = hashlib.sha256(row.tobytes() + column.tobytes())
        for table, copies in self._parts:
            digest.update(repr(copies).encode())
            for piece in table.digest_parts():
                digest.update(piece.tobytes() if isinstance(piece, np.ndarray) else repr(piece).encode())
        self._key = digest.digest()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self._row), len(self._column)

    @property
    def key(self) -> bytes:
        return self._key

    @property
    def is_integral(self) -> bool:
        return all(table.is_integral for table, _ in self._parts)

    def price(self, rows: Ints, cols: Ints) -> Floats:
        total = np.zeros(len(rows))
        for table, copies in self._parts:
            total = total + copies * table.lookup(self._row[rows], self._column[cols])
        return total

    def lower_bound(self, rows: Ints, cols: Ints) -> Floats:
        total = np.zeros(len(rows))
        for table, copies in self._parts:
            total = total + copies * _bounds(table, self._row[rows], self._column[cols])
        return total


def _bounds(table: CostTable, rows: npt.NDArray[np.integer], cols: npt.NDArray[np.integer]) -> Floats:
    while isinstance(table, ClassedTable):
        rows, cols = table.row_class[rows], table.col_class[cols]
        table = table.table
    return table.bounds(rows, cols) if isinstance(table, LazyTable) else table.lookup(rows, cols)


def _classes(table: CostTable, axis: int) -> Ints:
    """The class of each row (or column) in the innermost table."""
    found = np.arange(table.shape[axis])
    while isinstance(table, ClassedTable):
        found = (table.row_class, table.col_class)[axis].astype(np.int64)[found]
        table = table.table
    return found


def _joint(classes: Sequence[Ints]) -> tuple[Ints, Ints]:
    """A label of each joint class, and the joint class of each label."""
    stacked = np.stack(classes, axis=1)
    _, first, joint = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    return first.astype(np.int64), joint.reshape(-1).astype(np.int64)
