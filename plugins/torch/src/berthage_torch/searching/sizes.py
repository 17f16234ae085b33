"""Bytes that a rank holds of a tensor, by its largest shard."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch.graph import Node, TensorMeta
from berthage_torch.pricing.strategies import Int8

__all__ = ["held_bytes", "local_bytes"]

Int64 = npt.NDArray[np.int64]


def local_bytes(meta: TensorMeta, placements: Int8, mesh: Mesh) -> Int64:
    """Bytes of the largest shard under each placement: ``int64[L]`` of ``int8[L, D]``."""
    total = np.full(len(placements), meta.itemsize, dtype=np.int64)
    for d, size in enumerate(meta.shape):
        local = np.full(len(placements), size, dtype=np.int64)
        for m, ranks in enumerate(mesh.sizes):
            local = np.where(placements[:, m] == codes.shard(d), -(-local // ranks), local)
        total *= local
    return total


def held_bytes(node: Node, output: int, placements: Int8, mesh: Mesh) -> Int64:
    """The same of an output of a node.

    A value that a `local_map` region saves for its other direction has no placement; it counts as shared evenly by the
    ranks of every mesh dimension on which anything of the region is not replicated, as the region's work does.
    """
    meta = node.outputs[output]
    assert meta is not None  # only what exists is held
    region = node.local_map
    if region is None or region.outputs[output] is not None:
        return local_bytes(meta, placements, mesh)
    declared = [row for row in (*region.inputs, *region.outputs) if row is not None]
    ranks = 1
    for m, (axis, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        if any(_code(row, m, axis) != codes.REPLICATE for row in declared):
            ranks *= size
    return np.full(len(placements), -(-meta.nbytes // ranks), dtype=np.int64)


def _code(declared: Sequence[object], m: int, axis: str) -> int:
    """What a declaration says of one mesh dimension."""
    named: dict[object, object] = dict(pair for pair in declared if isinstance(pair, tuple))
    code = named.get(axis, codes.REPLICATE) if named or not declared else declared[m]
    assert isinstance(code, int)  # a placement code
    return code
