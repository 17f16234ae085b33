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
    sizing = _Sizing(lattice, counts, n)
    contexts = counts.shape[1]
    us = np.full((q, q, contexts), np.inf)
    size = np.zeros((q, q, contexts))
    us[np.arange(q), np.arange(q)] = 0.0
    partials = [i for i, code in enumerate(codes) if is_partial(code)]
    shards = [i for i, code in enumerate(codes) if is_shard(code)]
    whole, part = sizing.whole(), sizing.parts()
    full = n * part
    blocked = np.where(free, 0.0, np.inf)
    reduced = pricer.collective("all-reduce", dim, np.concatenate([whole[None], full]))
    local = pricer if n > 1 else Pricer(pricer.collective, np.zeros_like)
    packed = np.where(sizing.leading, 0.0, local.copy(2 * full))
    gather = np.minimum(pricer.collective("all-gather", dim, full) + packed, reduced[1:]) + blocked
    for i in partials:
        us[i, 0], size[i, 0] = reduced[0], whole
        # Averages, maxima and minima of equal values are the values; a sum of equal values must be divided first.
        us[0, i], size[0, i] = local.copy(2 * whole) if codes[i] == PARTIAL_SUM else 0.0, whole
    us[shards, 0], size[shards, 0] = gather, full
    us[0, shards] = np.where(sizing.leading, 0.0, local.copy(2 * part)) + blocked
    size[0, shards] = part
    if partials and shards:
        scatter = np.minimum(pricer.collective("reduce-scatter", dim, full) + packed, reduced[1:]) + blocked
        us[np.ix_(partials, shards)], size[np.ix_(partials, shards)] = scatter, full
    if len(shards) > 1:
        between, buffer = _reshard(dim, n, sizing, gather, local)
        own = np.eye(len(shards), dtype=np.bool_)[:, :, None]
        us[np.ix_(shards, shards)] = np.where(own, 0.0, between + blocked[:, None] + blocked[None])
        size[np.ix_(shards, shards)] = buffer
    grid = (q, q, q**dim, q**later)
    return DimMoves(us.reshape(grid), size.reshape(grid))


def _reshard(dim: int, n: int, sizing: _Sizing, gather: Floats, pricer: Pricer) -> tuple[Floats, Floats]:
    """Shard(d) to Shard(e) by all-to-all: pack unless e leads, unpack unless d leads.

    Never above 0.995 of gathering the same tensor from 1 MiB a rank on: it moves 1/n of the bytes.

    Returns:
        Prices and bytes, ``float64[d, e, contexts]``.
    """
    buffer = n * sizing.pairs()
    copy = pricer.copy(2 * buffer)
    us = pricer.collective("all-to-all", dim, buffer)
    us = us + np.where(sizing.leading[None], 0.0, copy) + np.where(sizing.leading[:, None], 0.0, copy)
    least = np.full(1, n * RESHARD_BYTES)
    bare = pricer.collective("all-gather", dim, least)
    reduced = pricer.collective("all-reduce", dim, least)
    at_least = np.minimum(bare + np.where(sizing.leading, 0.0, pricer.copy(2 * least)), reduced)
    cap = np.where(sizing.parts() >= RESHARD_BYTES, gather, at_least)
    return np.minimum(us, RESHARD_SHARE * cap[:, None]), buffer


class _Sizing:
    """Local sizes of a tensor in every context, with this mesh dimension sharding some tensor dimensions.

    Attributes:
        leading: ``bool[T, contexts]``: whether everything in front of a tensor dimension has length 1, so that its
            slices are contiguous.
    """

    def __init__(self, lattice: Lattice, counts: npt.NDArray[np.int64], n: int) -> None:
        shape = np.array(lattice.shape, dtype=np.int64)[:, None]
        rank, contexts = counts.shape
        self._itemsize = float(lattice.itemsize)
        self._local = (-(-shape // counts)).astype(np.float64)
        self._cut = (-(-shape // (counts * n))).astype(np.float64)
        before = np.concatenate([np.ones((1, contexts)), np.cumprod(self._local, axis=0)])[:rank]
        self.leading: npt.NDArray[np.bool_] = before <= 1

    def whole(self) -> Floats:
        """``float64[contexts]``: bytes of the largest shard when this mesh dimension shards nothing."""
        return np.asarray(self._local.prod(axis=0) * self._itemsize, dtype=np.float64)

    def parts(self) -> Floats:
        """``float64[T, contexts]``: the same when it shards tensor dimension d."""
        return self._with(self._cut, np.eye(len(self._cut), dtype=np.bool_))

    def pairs(self) -> Floats:
        """``float64[T, T, contexts]``: the same when it shards both d and e, as an all-to-all cuts it."""
        one = np.eye(len(self._cut), dtype=np.bool_)
        return self._with(self._cut, one[:, None] | one[None])

    def _with(self, cut: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
        factors = np.where(chosen[..., None], cut, self._local)
        return np.asarray(factors.prod(axis=-2) * self._itemsize, dtype=np.float64)


def _contexts(lattice: Lattice, dim: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """For all codes of the other mesh dimensions: how often each tensor dimension is divided, and whether it is free.

    Returns:
        ``counts int64[T, contexts]`` (ranks that divide it) and ``free bool[T, contexts]`` (no later mesh dimension
        shards it).
    """
    codes, others = lattice.codes, [size for k, size in enumerate(lattice.sizes) if k != dim]
    digits = np.indices((len(codes),) * len(others)).reshape(len(others), len(codes) ** len(others))
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
