"""Which part of a tensor a rank holds. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from berthage_nccl import placements as codes

__all__ = ["Place", "Shape", "cut"]

Shape = tuple[int, ...]


def cut(size: int, ranks: int, rank: int) -> tuple[int, int]:
    """Where the shard of a rank begins, and how long it is: ``size / ranks`` rounded up, the last ones the rest."""
    full = -(-size // ranks)
    start = min(rank * full, size)
    return start, min(full, size - start)


@dataclass(frozen=True, slots=True)
class Place:
    """A rank of a mesh.

    Attributes:
        sizes: Sizes of the mesh.
        coordinate: The rank's place on each mesh dimension.
    """

    sizes: tuple[int, ...]
    coordinate: tuple[int, ...]

    def extents(self, shape: Shape, placement: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Start and length, in every tensor dimension, of what the rank holds.

        Shards of one tensor dimension nest from left to right over the mesh, as torch cuts them.
        """
        found = [(0, size) for size in shape]
        for code, ranks, rank in zip(placement, self.sizes, self.coordinate, strict=True):
            if codes.is_shard(int(code)):
                d = int(code) - codes.shard(0)
                start, length = cut(found[d][1], ranks, rank)
                found[d] = (found[d][0] + start, length)
        return tuple(found)

    def shape(self, shape: Shape, placement: Sequence[int]) -> Shape:
        """The sizes of what the rank holds."""
        return tuple(length for _, length in self.extents(shape, placement))
