"""Pairwise cost tables: dense, classed and lazy, behind one protocol.

Many edges share few tables, so a table is a value of its own and edges refer to it. Rows belong to the first end of
an edge, columns to the second. Entries are costs; ``inf`` means that the pair is forbidden.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError, PluginError
from berthage.problem.arrays import (
    Array,
    BoolArray,
    Float64Array,
    Int32Array,
    Int64Array,
    frozen,
    is_whole,
    split_exact,
)

__all__ = ["ClassedTable", "CostOracle", "CostTable", "DenseTable", "LazyTable"]

Indices = npt.NDArray[np.integer]
Where = npt.NDArray[np.integer] | int


class CostTable(ABC):
    """A read-only matrix of pairwise costs, shape ``(rows, cols)``."""

    __slots__ = ()

    @property
    @abstractmethod
    def kind(self) -> Literal["dense", "classed", "lazy"]:
        """Which of the three kinds this table is."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @abstractmethod
    def exact(self, rows: Where, cols: Where) -> tuple[Float64Array, Int64Array | None]:
        """Entries at broadcast indices as float64 values and, if needed, the int64 residual that makes them exact."""

    @abstractmethod
    def to_dense(self) -> Float64Array:
        """All entries, float64[rows, cols], read-only. Prices everything when the table is lazy."""

    @abstractmethod
    def lower_bound(self) -> float:
        """A number that no entry is below. Never prices an entry."""

    @abstractmethod
    def take(self, rows: Indices | None, cols: Indices | None) -> CostTable:
        """The table of the given rows and columns, in that order; None keeps all."""

    @abstractmethod
    def transpose(self) -> CostTable:
        """The table with rows and columns exchanged."""

    @abstractmethod
    def digest_parts(self) -> tuple[object, ...]:
        """What the content digest depends on."""

    @property
    @abstractmethod
    def is_integral(self) -> bool:
        """Whether every finite entry is known to be a whole number."""

    def lookup(self, rows: Where, cols: Where) -> Float64Array:
        """Entries at broadcast indices, float64."""
        return self.exact(rows, cols)[0]


class DenseTable(CostTable):
    """A table stored as a matrix.

    Args:
        values: Costs, shape [rows, cols]. Integers of any size are kept exactly.
        residual: int64[rows, cols] to add to ``int(values)``, or None. Usually left to the constructor to find.
    """

    __slots__ = ("_values", "residual")

    def __init__(self, values: npt.ArrayLike, residual: Int64Array | None = None) -> None:
        floats, found = split_exact(values, "a cost table")
        if floats.ndim != 2 or 0 in floats.shape:
            raise InvalidProblemError(f"a cost table must be a matrix with rows and columns, got shape {floats.shape}")
        extra = residual if residual is not None and residual.any() else found
        self._values: Float64Array = frozen(floats, np.float64)
        self.residual: Int64Array | None = None if extra is None else frozen(extra, np.int64)

    @property
    def kind(self) -> Literal["dense"]:
        """``"dense"``."""
        return "dense"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return (self._values.shape[0], self._values.shape[1])

    @property
    def values(self) -> Float64Array:
        """The matrix, float64[rows, cols], read-only."""
        return self._values

    def exact(self, rows: Where, cols: Where) -> tuple[Float64Array, Int64Array | None]:
        """See `CostTable.exact`."""
        return self._values[rows, cols], None if self.residual is None else self.residual[rows, cols]

    def to_dense(self) -> Float64Array:
        """See `CostTable.to_dense`."""
        return self._values

    def lower_bound(self) -> float:
        """The least entry."""
        return float(self._values.min())

    def take(self, rows: Indices | None, cols: Indices | None) -> DenseTable:
        """See `CostTable.take`."""
        return DenseTable(
            _select(self._values, rows, cols),
            None if self.residual is None else _select(self.residual, rows, cols),
        )

    def transpose(self) -> DenseTable:
        """See `CostTable.transpose`."""
        return DenseTable(self._values.T, None if self.residual is None else self.residual.T)

    def digest_parts(self) -> tuple[object, ...]:
        """See `CostTable.digest_parts`."""
        return ("dense", self._values, self.residual)

    @property
    def is_integral(self) -> bool:
        """See `CostTable.is_integral`."""
        return is_whole(self._values)


class ClassedTable(CostTable):
    """A table whose entry depends only on the class of the row and the class of the column.

    ``cost(a, b) = table[row_class[a], col_class[b]]``. A redistribution depends on the producer's output placement and
    the consumer's wanted placement, not on the whole strategies, so few classes stand for many labels; a message over
    such a table costs labels + classes².

    Args:
        table: Costs between classes, any kind of table.
        row_class: int[rows], the class of each row.
        col_class: int[cols], the class of each column.
    """

    __slots__ = ("col_class", "row_class", "table")

    def __init__(self, table: CostTable, row_class: npt.ArrayLike, col_class: npt.ArrayLike) -> None:
        self.table = table
        self.row_class: Int32Array = frozen(row_class, np.int32)
        self.col_class: Int32Array = frozen(col_class, np.int32)
        for name, classes, count in (
            ("row", self.row_class, table.shape[0]),
            ("column", self.col_class, table.shape[1]),
        ):
            if classes.ndim != 1 or not classes.size:
                raise InvalidProblemError(
                    f"{name} classes must be a vector with one class a label, got shape {classes.shape}"
                )
            if classes.min() < 0 or classes.max() >= count:
                raise InvalidProblemError(
                    f"{name} classes must lie in 0 to {count - 1}, got {classes.min()} to {classes.max()}"
                )

    @property
    def kind(self) -> Literal["classed"]:
        """``"classed"``."""
        return "classed"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns (labels, not classes)."""
        return (len(self.row_class), len(self.col_class))

    def exact(self, rows: Where, cols: Where) -> tuple[Float64Array, Int64Array | None]:
        """See `CostTable.exact`."""
        return self.table.exact(self.row_class[rows], self.col_class[cols])

    def to_dense(self) -> Float64Array:
        """See `CostTable.to_dense`."""
        dense: Float64Array = frozen(self.table.to_dense()[np.ix_(self.row_class, self.col_class)], np.float64)
        return dense

    def lower_bound(self) -> float:
        """See `CostTable.lower_bound`."""
        return self.table.lower_bound()

    def take(self, rows: Indices | None, cols: Indices | None) -> ClassedTable:
        """See `CostTable.take`."""
        return ClassedTable(
            self.table,
            self.row_class if rows is None else self.row_class[rows],
            self.col_class if cols is None else self.col_class[cols],
        )

    def transpose(self) -> ClassedTable:
        """See `CostTable.transpose`."""
        return ClassedTable(self.table.transpose(), self.col_class, self.row_class)

    def digest_parts(self) -> tuple[object, ...]:
        """See `CostTable.digest_parts`."""
        return ("classed", self.row_class, self.col_class, *self.table.digest_parts())

    @property
    def is_integral(self) -> bool:
        """See `CostTable.is_integral`."""
        return self.table.is_integral


class CostOracle(Protocol):
    """Prices entries of a lazy table on demand. Must be a pure function of its `key`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        ...

    @property
    def key(self) -> bytes:
        """Identity of the content: two oracles with one key price every entry alike."""
        ...

    @property
    def is_integral(self) -> bool:
        """Whether every finite price is a whole number."""
        ...

    def price(self, rows: Array, cols: Array) -> Float64Array:
        """Costs of the entries ``(rows[i], cols[i])``, float64; inf for a forbidden pair."""
        ...

    def lower_bound(self, rows: Array, cols: Array) -> Float64Array:
        """Cheap lower bounds of the same entries, float64; may be -inf where nothing is known."""
        ...


class _Memo:
    """Prices known so far of one oracle, shared by every selection and transpose of its lazy table."""

    __slots__ = ("calls", "known", "prices")

    def __init__(self, shape: tuple[int, int]) -> None:
        self.prices = np.zeros(shape, dtype=np.float64)
        self.known: BoolArray = np.zeros(shape, dtype=np.bool_)
        self.calls = 0


class LazyTable(CostTable):
    """A table priced on demand through an oracle; prices are memoised and counted.

    Args:
        oracle: Where prices come from.
    """

    __slots__ = ("_cols", "_memo", "_rows", "_transposed", "oracle")

    def __init__(self, oracle: CostOracle) -> None:
        self.oracle = oracle
        self._memo = _Memo(oracle.shape)
        self._rows: Indices = np.arange(oracle.shape[0], dtype=np.int64)
        self._cols: Indices = np.arange(oracle.shape[1], dtype=np.int64)
        self._transposed = False

    def _view(self, rows: Indices, cols: Indices, transposed: bool) -> LazyTable:
        view = object.__new__(LazyTable)
        view.oracle, view._memo, view._rows, view._cols, view._transposed = (
            self.oracle,
            self._memo,
            rows,
            cols,
            transposed,
        )
        return view

    @property
    def kind(self) -> Literal["lazy"]:
        """``"lazy"``."""
        return "lazy"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        shape = (len(self._rows), len(self._cols))
        return shape[::-1] if self._transposed else shape

    @property
    def calls(self) -> int:
        """Entries priced by the oracle so far, over all views of this table."""
        return self._memo.calls

    def _locate(self, rows: Where, cols: Where) -> tuple[Array, Array]:
        first, second = (cols, rows) if self._transposed else (rows, cols)
        where = np.broadcast_arrays(self._rows[first], self._cols[second])
        return where[0], where[1]

    def exact(self, rows: Where, cols: Where) -> tuple[Float64Array, Int64Array | None]:
        """Price what is not yet known, then look up. Lazy costs are floats: there is no residual.

        Raises:
            PluginError: When the oracle returns NaN, -inf or a price below its own lower bound.
        """
        r, c = self._locate(rows, cols)
        memo = self._memo
        unknown = ~memo.known[r, c]
        if unknown.any():
            flat = np.unique(np.ravel_multi_index((r[unknown], c[unknown]), memo.known.shape))
            new_rows, new_cols = np.unravel_index(flat, memo.known.shape)
            prices = np.asarray(self.oracle.price(new_rows, new_cols), dtype=np.float64)
            self._check(new_rows, new_cols, prices)
            memo.prices[new_rows, new_cols] = prices
            memo.known[new_rows, new_cols] = True
            memo.calls += len(flat)
        return memo.prices[r, c], None

    def _check(self, rows: Array, cols: Array, prices: Float64Array) -> None:
        if prices.shape != rows.shape:
            raise PluginError(f"the oracle of a lazy table returned {prices.shape} prices for {rows.shape} entries")
        if np.isnan(prices).any() or (prices == -np.inf).any():
            raise PluginError("the oracle of a lazy table returned NaN or -inf; a price is a number or +inf")
        if self.oracle.is_integral and not is_whole(prices):
            raise PluginError(
                "the oracle of a lazy table says that its prices are whole numbers and returned a fraction"
            )
        bounds = np.asarray(self.oracle.lower_bound(rows, cols), dtype=np.float64)
        size = np.where(np.isfinite(bounds), np.abs(bounds), 0.0)  # a bound of inf says that the pair is forbidden
        low = prices < bounds - 1e-9 * np.maximum(1.0, size)
        if low.any():
            i = int(np.flatnonzero(low)[0])
            raise PluginError(
                f"the oracle of a lazy table priced entry ({rows[i]}, {cols[i]}) at {prices[i]!r}, "
                f"below its own lower bound {bounds[i]!r}"
            )

    def bounds(self, rows: Where, cols: Where) -> Float64Array:
        """Lower bounds of entries without pricing any; the price itself where it is known."""
        r, c = self._locate(rows, cols)
        bounds = np.asarray(self.oracle.lower_bound(r.ravel(), c.ravel()), dtype=np.float64).reshape(r.shape)
        return np.where(self._memo.known[r, c], self._memo.prices[r, c], bounds)

    def known(self, rows: Where, cols: Where) -> BoolArray:
        """Whether the entries have been priced."""
        r, c = self._locate(rows, cols)
        known: BoolArray = self._memo.known[r, c]
        return known

    def to_dense(self) -> Float64Array:
        """Price every entry and return the matrix."""
        rows, cols = self.shape
        dense: Float64Array = frozen(self.lookup(np.arange(rows)[:, None], np.arange(cols)[None, :]), np.float64)
        return dense

    def lower_bound(self) -> float:
        """The least of the bounds of all entries; prices none."""
        rows, cols = self.shape
        return float(self.bounds(np.arange(rows)[:, None], np.arange(cols)[None, :]).min())

    def take(self, rows: Indices | None, cols: Indices | None) -> LazyTable:
        """See `CostTable.take`; the selection shares the memo."""
        first, second = (cols, rows) if self._transposed else (rows, cols)
        return self._view(
            self._rows if first is None else self._rows[first],
            self._cols if second is None else self._cols[second],
            self._transposed,
        )

    def transpose(self) -> LazyTable:
        """See `CostTable.transpose`; the transpose shares the memo."""
        return self._view(self._rows, self._cols, not self._transposed)

    def digest_parts(self) -> tuple[object, ...]:
        """See `CostTable.digest_parts`."""
        return ("lazy", self.oracle.key, self._rows, self._cols, self._transposed)

    @property
    def is_integral(self) -> bool:
        """See `CostTable.is_integral`."""
        return bool(self.oracle.is_integral)


def _select(matrix: Array, rows: Indices | None, cols: Indices | None) -> Array:
    if rows is not None:
        matrix = matrix[rows]
    return matrix if cols is None else matrix[:, cols]
