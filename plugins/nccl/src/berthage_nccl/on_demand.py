"""Prices of redistributions on demand, with cheap lower bounds: the oracle of a lazy table."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from berthage_nccl.lattice import PathTable

__all__ = ["Redistribution"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Redistribution:
    """Prices of changing one tensor from each of S placements to each of T. A `berthage.CostOracle`.

    Args:
        table: Shortest paths of the tensor.
        sources: Placement codes, ``int8[S, D]``, on the mesh dimensions of ``table``.
        targets: Placement codes, ``int8[T, D]``, likewise.
        changed: ``bool[S, T]``: whether anything changes, mesh dimensions of one rank included.
        contiguous: Whether the local tensors are contiguous to begin with.
        transition_us: Added for any change.
        tensor: What the prices depend on apart from the placements.
    """

    def __init__(
        self,
        table: PathTable,
        sources: npt.NDArray[np.int8],
        targets: npt.NDArray[np.int8],
        changed: npt.NDArray[np.bool_],
        contiguous: bool,
        transition_us: float,
        tensor: str,
    ) -> None:
        self._table, self._contiguous, self._transition_us = table, contiguous, transition_us
        self._changed = changed
        self._sources, self._targets = table.lattice.index(sources), table.lattice.index(targets)
        self._bounds: Floats | None = None
        text = f"{tensor} {contiguous} {transition_us} {sources.shape}"
        self._key = hashlib.sha256(text.encode() + sources.tobytes() + targets.tobytes()).digest()

    @property
    def shape(self) -> tuple[int, int]:
        """S and T."""
        return len(self._sources), len(self._targets)

    @property
    def key(self) -> bytes:
        """Identity of the content."""
        return self._key

    @property
    def is_integral(self) -> bool:
        """Microseconds are not whole numbers."""
        return False

    def price(self, rows: Ints, cols: Ints) -> Floats:
        """Microseconds from source ``rows[i]`` to target ``cols[i]``; inf where impossible."""
        us = self._table.pairs(self._sources[rows], self._targets[cols], self._contiguous)
        return np.asarray(us + np.where(self._changed[rows, cols], self._transition_us, 0.0), dtype=np.float64)

    def lower_bound(self, rows: Ints, cols: Ints) -> Floats:
        """Bounds of the same: by what each mesh dimension must pay, and by distances to landmarks."""
        if self._bounds is None:
            bounds = self._table.bounds(self._sources, self._targets)
            self._bounds = bounds + np.where(self._changed, self._transition_us, 0.0)
        return self._bounds[rows, cols]
