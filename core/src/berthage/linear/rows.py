"""Collecting the columns and rows of a linear program in bulk, then sorting them into CSR once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Collector", "Rows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rows:
    """Constraint rows in CSR form, without duplicate entries in a row."""

    ptr: NDArray[np.int64]
    index: NDArray[np.int64]
    value: Floats
    lower: Floats
    upper: Floats
    budget: NDArray[np.int32]


@dataclass(slots=True)
class Collector:
    """Grows columns and rows; every call adds many at once."""

    num_cols: int = 0
    num_rows: int = 0
    _cost: list[Floats] = field(default_factory=list)
    _col_lower: list[Floats] = field(default_factory=list)
    _col_upper: list[Floats] = field(default_factory=list)
    _row_lower: list[Floats] = field(default_factory=list)
    _row_upper: list[Floats] = field(default_factory=list)
    _budget: list[NDArray[np.int32]] = field(default_factory=list)
    _entries: list[tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]] = field(default_factory=list)

    def columns(self, cost: Any, lower: Any, upper: Any) -> int:
        """Add columns (arrays or scalars of a common shape); returns the index of the first."""
        cost_, lower_, upper_ = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (cost, lower, upper))
        )
        self._cost.append(cost_)
        self._col_lower.append(lower_)
        self._col_upper.append(upper_)
        first = self.num_cols
        self.num_cols += len(cost_)
        return first

    def rows(self, lower: Any, upper: Any, budget: int = -1) -> int:
        """Add rows (arrays or scalars of a common shape); returns the index of the first."""
        lower_, upper_ = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (lower, upper)))
        self._row_lower.append(lower_)
        self._row_upper.append(upper_)
        self._budget.append(np.full(len(lower_), budget, dtype=np.int32))
        first = self.num_rows
        self.num_rows += len(lower_)
        return first

    def entries(self, row: Any, col: Any, value: Any) -> None:
        """Add coefficients; entries of the same row and column add up."""
        row_, col_, value_ = np.broadcast_arrays(np.atleast_1d(row), np.atleast_1d(col), np.atleast_1d(value))
        self._entries.append((row_.astype(np.int64), col_, value_))

    def finish_columns(self) -> tuple[Floats, Floats, Floats]:
        """``(cost, lower, upper)`` of all columns."""
        return _join(self._cost), _join(self._col_lower), _join(self._col_upper)

    def finish_rows(self) -> Rows:
        """All rows, sorted, duplicates added up."""
        width = max(self.num_cols, 1)
        key = np.concatenate([np.zeros(0, dtype=np.int64), *(row * width + col for row, col, _ in self._entries)])
        value = _join([e[2] for e in self._entries])
        self._entries.clear()
        order = np.argsort(key)
        key, value = key[order], value[order]
        head = np.ones(len(key), dtype=bool)
        np.not_equal(key[1:], key[:-1], out=head[1:])
        if not head.all():
            at = np.flatnonzero(head)
            key, value = key[at], np.add.reduceat(value, at)
        ptr = np.searchsorted(key, np.arange(self.num_rows + 1) * width).astype(np.int64)
        key -= np.repeat(np.arange(self.num_rows) * width, np.diff(ptr))
        return Rows(
            ptr=ptr,
            index=key,
            value=value,
            lower=_join(self._row_lower),
            upper=_join(self._row_upper),
            budget=np.concatenate([np.zeros(0, dtype=np.int32), *self._budget]),
        )


def _join(parts: list[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])
