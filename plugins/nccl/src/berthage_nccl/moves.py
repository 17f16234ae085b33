"""Single-dimension moves on the placement lattice of one tensor, and what each costs.

A state gives every mesh dimension Replicate, a Partial kind or Shard(d). Shards of one tensor dimension nest from left
to right over the mesh, so only the last mesh dimension that shards it can be gathered or re-sharded, and a new shard
can only be put behind the others. Uneven shards count as the largest one, padding included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.collectives import RESHARD_BYTES, RESHARD_SHARE
from berthage_nccl.placements import PARTIAL_SUM, is_partial, is_shard

__all__ = ["DimMoves", "Lattice", "Pricer", "dim_moves"]

_FIRST_SHARD: Final = 8
Floats = npt.NDArray[np.float64]


class Pricer:
    """What moves need to know of the machine.

    Args:
        collective: ``(kind, mesh dimension, bytes) -> us``.
        copy: ``bytes read and written -> us`` of a local copy.
    """

    def __init__(self, collective: Callable[[str, int, Floats], Floats], copy: Callable[[Floats], Floats]) -> None:
        self.collective = collective
        self.copy = copy


@dataclass(frozen=True, slots=True)
class Lattice:
    """All placements of one tensor over some codes.

    Attributes:
        sizes: Mesh sizes.
        shape: Tensor shape.
        itemsize: Bytes of an element.
        codes: The codes that a mesh dimension may take, Replicate first.
    """

    sizes: tuple[int, ...]
    shape: tuple[int, ...]
    itemsize: int
    codes: tuple[int, ...]

    @property
    def states(self) -> int:
        """How many placements there are."""
        return int(len(self.codes) ** len(self.sizes))

    def index(self, placements: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
        """State numbers of ``int8[S, D]``; every code must be one of :attr:`codes`."""
        lookup = np.zeros(128, dtype=np.int64)
        lookup[list(self.codes)] = np.arange(len(self.codes))
        weights = len(self.codes) ** np.arange(len(self.sizes) - 1, -1, -1, dtype=np.int64)
        return np.asarray(lookup[placements.astype(np.int64)] @ weights, dtype=np.int64)

    def placement(self, state: int) -> npt.NDArray[np.int8]:
        """The codes of a state, ``int8[D]``."""
        digits = np.unravel_index(state, (len(self.codes),) * len(self.sizes))
        return np.array([self.codes[int(digit)] for digit in digits], dtype=np.int8)

    def local_bytes(self, state: int) -> int:
        """Bytes of the largest shard in a state."""
        count = [1] * len(self.shape)
        for code, size in zip(self.placement(state).tolist(), self.sizes, strict=True):
            if is_shard(code):
                count[code - _FIRST_SHARD] *= size
        return self.itemsize * prod(-(-extent // many) for extent, many in zip(self.shape, count, strict=True))


@dataclass(frozen=True, slots=True)
class DimMoves:
    """The moves on one mesh dimension. ``q`` codes; contexts are the codes of the other mesh dimensions.

    Attributes:
        us: ``float64[q, q, before, after]``: from code, to code, codes of the earlier and of the later mesh
            dimensions; inf where there is no such move, 0 from a code to itself.
        bytes: The same for the collective's bytes (nccl-tests size), or those a local move writes.
    """

    us: Floats
    bytes: Floats


def dim_moves(lattice: Lattice, dim: int, pricer: Pricer) -> DimMoves:
    """Price every move on mesh dimension ``dim`` in every context, vectorised over contexts."""
    codes, n = lattice.codes, lattice.sizes[dim]
    q, later = len(codes), len(lattice.sizes) - dim - 1
    counts, free = _contexts(lattice, dim)
    contexts = counts.shape[1]
    us = np.full((q, q, contexts), np.inf)
    size = np.zeros((q, q, contexts))
    us[np.arange(q), np.arange(q)] = 0.0
    sizing = _Sizing(lattice, counts, n)
    shards = [i for i, code in enumerate(codes) if is_shard(code)]
    whole = sizing.bytes()
    for i, code in enumerate(codes):
        if is_partial(code):
            us[i, 0], size[i, 0] = pricer.collective("all-reduce", dim, whole), whole
            # Averages, maxima and minima of equal values are the values; a sum of equal values must be divided first.
            local = pricer.copy(2 * whole) if code == PARTIAL_SUM else np.zeros(contexts)
            us[0, i], size[0, i] = (local, whole) if n > 1 else (np.zeros(contexts), whole)
    for i in shards:
        d = codes[i] - _FIRST_SHARD
        part = sizing.bytes(d)
        full = n * part
        packed = np.where(sizing.leading(d), 0.0, pricer.copy(2 * full)) if n > 1 else np.zeros(contexts)
        cap = pricer.collective("all-reduce", dim, full)
        blocked = np.where(free[d], 0.0, np.inf)
        us[i, 0] = np.minimum(pricer.collective("all-gather", dim, full) + packed, cap) + blocked
        size[i, 0] = full
        scatter = np.minimum(pricer.collective("reduce-scatter", dim, full) + packed, cap) + blocked
        for p, code in enumerate(codes):
            if is_partial(code):
                us[p, i], size[p, i] = scatter, full
        sliced = np.where(sizing.leading(d), 0.0, pricer.copy(2 * part)) if n > 1 else np.zeros(contexts)
        us[0, i], size[0, i] = sliced + blocked, part
    for i in shards:
        for j in shards:
            if i != j:
                us[i, j], size[i, j] = _reshard(codes[i], codes[j], dim, n, sizing, free, us[i, 0], pricer)
    grid = (q, q, q**dim, q**later)
    return DimMoves(us.reshape(grid), size.reshape(grid))


def _reshard(
    source: int,
    target: int,
    dim: int,
    n: int,
    sizing: _Sizing,
    free: npt.NDArray[np.bool_],
    gather: Floats,
    pricer: Pricer,
) -> tuple[Floats, Floats]:
    """Shard(d) to Shard(e) by all-to-all: pack unless e leads, unpack unless d leads.

    Never above 0.98 of gathering the same tensor from 1 MiB a rank on: it moves 1/n of the bytes.
    """
    d, e = source - _FIRST_SHARD, target - _FIRST_SHARD
    buffer = n * sizing.bytes(d, e)
    blocked = np.where(free[d] & free[e], 0.0, np.inf)
    if n == 1:
        return blocked, buffer
    copy = pricer.copy(2 * buffer)
    us = pricer.collective("all-to-all", dim, buffer)
    us = us + np.where(sizing.leading(e), 0.0, copy) + np.where(sizing.leading(d), 0.0, copy)
    part = sizing.bytes(d)
    least = np.full_like(part, n * RESHARD_BYTES)
    at_least = pricer.collective("all-gather", dim, least)
    at_least = at_least + np.where(sizing.leading(d), 0.0, pricer.copy(2 * least))
    at_least = np.minimum(at_least, pricer.collective("all-reduce", dim, least))
    cap = np.where(part >= RESHARD_BYTES, gather, at_least)
    return np.minimum(us, RESHARD_SHARE * cap) + blocked, buffer


class _Sizing:
    """Local sizes of a tensor in every context, with this mesh dimension sharding some tensor dimensions."""

    def __init__(self, lattice: Lattice, counts: npt.NDArray[np.int64], n: int) -> None:
        self._shape = np.array(lattice.shape, dtype=np.int64)
        self._counts = counts
        self._n = n
        self._itemsize = lattice.itemsize
        self._local = -(-self._shape[:, None] // counts)

    def bytes(self, *sharded: int) -> Floats:
        """Bytes of the largest shard when this mesh dimension shards the given tensor dimensions too."""
        local = self._local
        if sharded:
            local = local.copy()
            for d in sharded:
                local[d] = -(-self._shape[d] // (self._counts[d] * self._n))
        return np.asarray(local.prod(axis=0) * float(self._itemsize), dtype=np.float64)

    def leading(self, d: int) -> npt.NDArray[np.bool_]:
        """Whether everything in front of tensor dimension ``d`` has length 1, so that its slices are contiguous."""
        return np.asarray(self._local[:d].prod(axis=0) <= 1, dtype=np.bool_)


def _contexts(lattice: Lattice, dim: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For all codes of the other mesh dimensions: how often each tensor dimension is divided, and whether it is free.

    Returns:
        ``counts int64[T, contexts]`` (ranks that divide it) and ``free bool[T, contexts]`` (no later mesh dimension
        shards it).
    """
    codes, others = lattice.codes, [size for k, size in enumerate(lattice.sizes) if k != dim]
    digits = np.indices((len(codes),) * len(others)).reshape(len(others), -1)
    placed = np.array(codes, dtype=np.int64)[digits]
    rank = len(lattice.shape)
    contexts = placed.shape[1]
    counts = np.ones((rank, contexts), dtype=np.int64)
    free = np.ones((rank, contexts), dtype=np.bool_)
    for place, size in enumerate(others):
        for d in range(rank):
            here = placed[place] == _FIRST_SHARD + d
            counts[d, here] *= size
            if place >= dim:  # the mesh dimensions behind `dim`, now one place to the left
                free[d] &= ~here
    return counts, free
