"""A lazy-table oracle over a stored matrix, for tests: it prices honestly, bounds cheaply and counts."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ArrayOracle"]


class ArrayOracle:
    """Prices entries of a given matrix on demand.

    Args:
        values: float64[rows, cols]; inf for forbidden pairs.
        slack: how far below the price the lower bounds lie (>= 0); forbidden pairs are bounded by the least
            finite price, as an oracle that does not know them to be forbidden would.
    """

    def __init__(self, values: npt.ArrayLike, slack: float = 1.0) -> None:
        self._values: npt.NDArray[np.float64] = np.array(values, dtype=np.float64)
        self._slack = float(slack)
        finite = self._values[np.isfinite(self._values)]
        self._floor = float(finite.min()) if finite.size else 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        rows, cols = self._values.shape
        return int(rows), int(cols)

    @property
    def key(self) -> bytes:
        """Identity of the content."""
        digest = hashlib.sha256(repr((self.shape, self._slack)).encode())
        digest.update(self._values.tobytes())
        return digest.digest()

    @property
    def is_integral(self) -> bool:
        """Whether every finite price is a whole number."""
        finite = self._values[np.isfinite(self._values)]
        return bool((finite == np.floor(finite)).all())

    def price(self, rows: npt.NDArray[Any], cols: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """The entries ``(rows[i], cols[i])``."""
        prices: npt.NDArray[np.float64] = self._values[rows, cols]
        return prices

    def lower_bound(self, rows: npt.NDArray[Any], cols: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Lower bounds of the same entries: the price less the slack."""
        values = self._values[rows, cols]
        return np.where(np.isfinite(values), values, self._floor) - self._slack
