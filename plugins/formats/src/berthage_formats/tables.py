"""A pool of pairwise tables: equal ones are kept once, and cells are counted before they are allocated."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import DenseTable, InvalidProblemError

__all__ = ["CellCount", "TablePool"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class CellCount:
    """Counts costs against a limit.

    Args:
        limit: Greatest number of costs.
        source: How errors call the file.
    """

    def __init__(self, limit: int, source: str) -> None:
        self._limit = limit
        self._source = source
        self._total = 0

    def add(self, cells: int, what: str) -> None:
        """Count `cells` more.

        Raises:
            InvalidProblemError: They exceed the limit.
        """
        self.check(cells, what)
        self._total += cells

    def check(self, cells: int, what: str) -> None:
        """Refuse `cells` that would exceed the limit, before they are allocated, without counting them."""
        if self._total + cells > self._limit:
            raise InvalidProblemError(
                f"{self._source}: {what} brings the problem to {self._total + cells} costs, more than "
                f"{self._limit}; "
                "if the file is right, raise the option max_cells"
            )


class TablePool:
    """Distinct tables in the order they were first met.

    Args:
        count: Where the cells of distinct tables are counted.
    """

    def __init__(self, count: CellCount) -> None:
        self.tables: list[DenseTable] = []
        self._count = count
        self._index: dict[bytes, int] = {}

    def known(self, rows: int, cols: int, *raw: npt.NDArray[np.generic]) -> tuple[bytes, int | None]:
        """A key of a table's content and, if the pool has it already, its index.

        Args:
            rows: Number of rows.
            cols: Number of columns.
            raw: Arrays that together say what is in the table.
        """
        digest = hashlib.blake2b(b"%d %d" % (rows, cols), digest_size=16)
        for array in raw:
            digest.update(np.ascontiguousarray(array).data)
        key = digest.digest()
        return key, self._index.get(key)

    def store(self, key: bytes, values: npt.NDArray[Any], residual: IntArray | None, what: str) -> int:
        """Keep a table (floats, or Python numbers) under a key that :meth:`known` gave."""
        self._count.add(values.size, what)
        self.tables.append(DenseTable(values, residual))
        self._index[key] = len(self.tables) - 1
        return len(self.tables) - 1

    def add(self, values: FloatArray, residual: IntArray | None, what: str) -> int:
        """Index of a table float64[rows, cols] with optional residual, new or known."""
        parts: tuple[npt.NDArray[np.generic], ...] = (values,) if residual is None else (values, residual)
        key, index = self.known(values.shape[0], values.shape[1], *parts)
        return self.store(key, values, residual, what) if index is None else index
