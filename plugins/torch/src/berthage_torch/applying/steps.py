"""The steps of a redistribution on the shards of one rank, as functional collectives and local operations.

Shards need not be even: they are filled up to the largest before they travel, as the price says, and cut afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx

from berthage_nccl import placements as codes
from berthage_torch.errors import ApplyError
from berthage_torch.policy import torch_dtype

from .extents import Place, Shape, cut
from .writing import Writer

__all__ = ["COLLECTIVE", "Mover"]

COLLECTIVE: Final = "berthage_collective"
"""In the metadata of a collective: ``(kind, mesh dimension, bytes)``, the bytes of its larger side."""

aten = torch.ops.aten
_c10d = torch.ops._c10d_functional
_REDUCTIONS: Final = MappingProxyType(
    {codes.PARTIAL_SUM: "sum", codes.PARTIAL_AVG: "sum", codes.PARTIAL_MAX: "max", codes.PARTIAL_MIN: "min"}
)


@dataclass(frozen=True, slots=True)
class Mover:
    """Writes the moves of tensors.

    Attributes:
        writer: Where to.
        place: The rank.
        names: Names of the mesh dimensions.
        groups: Name of the rank's process group on each mesh dimension.
    """

    writer: Writer
    place: Place
    names: tuple[str, ...]
    groups: tuple[str, ...]

    def step(
        self, tensor: fx.Node, shape: Shape, dtype: str, dim: int, before: Sequence[int], after: Sequence[int]
    ) -> fx.Node:
        """One step: the placement changes on mesh dimension ``dim`` only.

        Args:
            tensor: What the rank holds.
            shape: Sizes of the whole tensor.
            dtype: Its dtype.
            dim: The mesh dimension.
            before: Placement codes before.
            after: Placement codes after.
        """
        ranks = self.place.sizes[dim]
        source, target = int(before[dim]), int(after[dim])
        if ranks == 1 or source == target:
            return tensor
        held, wanted = list(self.place.shape(shape, before)), list(self.place.shape(shape, after))
        if source == codes.REPLICATE:
            return self._locally(tensor, dim, target, held)
        write = self.writer
        if dtype.startswith("complex"):
            tensor = write.call(aten.view_as_real.default, tensor)
            held, wanted = [*held, 2], [*wanted, 2]
        elif dtype == "bool":
            tensor = write.call(aten._to_copy.default, tensor, dtype=torch.uint8)
        itemsize = torch_dtype(dtype).itemsize // (2 if dtype.startswith("complex") else 1)
        tensor = _Transfer(self, dim, itemsize).run(tensor, source, target, held, wanted)
        if source == codes.PARTIAL_AVG:
            tensor = write.call(aten.div.Tensor, tensor, ranks)
        if dtype.startswith("complex"):
            tensor = write.call(aten.view_as_complex.default, tensor)
        elif dtype == "bool":
            tensor = write.call(aten._to_copy.default, tensor, dtype=torch.bool)
        return tensor

    def _locally(self, tensor: fx.Node, dim: int, target: int, held: list[int]) -> fx.Node:
        """From a replica."""
        rank = self.place.coordinate[dim]
        if codes.is_shard(target):
            d = target - codes.shard(0)
            start, length = cut(held[d], self.place.sizes[dim], rank)
            return self.writer.narrow(tensor, d, start, length)
        if target == codes.PARTIAL_SUM:
            # The first rank holds the whole sum: exact in every dtype, which dividing is not.
            return self.writer.call(aten.zeros_like.default if rank > 0 else aten.clone.default, tensor)
        return tensor


@dataclass(frozen=True, slots=True)
class _Transfer:
    """One collective and what packs and unpacks it. ``held`` and ``wanted`` are local sizes before and after."""

    mover: Mover
    dim: int
    itemsize: int

    @property
    def write(self) -> Writer:
        return self.mover.writer

    @property
    def ranks(self) -> int:
        return self.mover.place.sizes[self.dim]

    def run(self, tensor: fx.Node, source: int, target: int, held: list[int], wanted: list[int]) -> fx.Node:
        first = codes.shard(0)
        if codes.is_shard(source) and codes.is_shard(target):
            return self._exchange(tensor, source - first, target - first, held, wanted)
        if codes.is_shard(source) and target == codes.REPLICATE:
            return self._gather(tensor, source - first, held, wanted)
        if codes.is_partial(source) and codes.is_shard(target):
            return self._scatter(tensor, _REDUCTIONS[source], target - first, held, wanted)
        if codes.is_partial(source) and target == codes.REPLICATE:
            tensor = self.write.call(aten.contiguous.default, tensor)
            return self._collective("all-reduce", held, _c10d.all_reduce.default, tensor, _REDUCTIONS[source])
        raise ApplyError(f"no step leads from {codes.format([source])} to {codes.format([target])}")

    def _collective(self, kind: str, buffer: list[int], op: Any, *args: Any) -> fx.Node:
        """A collective on a buffer of these sizes on its larger side."""
        node = self.write.call(op, *args, self.mover.groups[self.dim])
        node.meta[COLLECTIVE] = (kind, self.mover.names[self.dim], prod(buffer) * self.itemsize)
        return self.write.call(_c10d.wait_tensor.default, node)

    def _gather(self, tensor: fx.Node, d: int, held: list[int], wanted: list[int]) -> fx.Node:
        """Shard(d) to Replicate."""
        full = -(-wanted[d] // self.ranks)
        uneven = full * self.ranks != wanted[d]
        part = _with(wanted, d, full)
        tensor = self._filled(tensor, d, held, full, uneven)
        op, whole = _c10d.all_gather_into_tensor.default, _with(part, d, full * self.ranks)
        tensor = self._collective("all-gather", whole, op, tensor, self.ranks)
        tensor = self._unstacked(tensor, d, part)
        return self.write.narrow(tensor, d, 0, wanted[d]) if uneven else tensor

    def _scatter(self, tensor: fx.Node, reduction: str, d: int, held: list[int], wanted: list[int]) -> fx.Node:
        """Partial to Shard(d)."""
        full = -(-held[d] // self.ranks)
        uneven = full * self.ranks != held[d]
        whole = _with(held, d, full * self.ranks)
        tensor = self._filled(tensor, d, held, full * self.ranks, uneven)
        tensor = self._stacked(tensor, d, whole)
        op = _c10d.reduce_scatter_tensor.default
        tensor = self._collective("reduce-scatter", whole, op, tensor, reduction, self.ranks)
        tensor = self.write.call(aten.view.default, tensor, _with(held, d, full))
        return self.write.narrow(tensor, d, 0, wanted[d]) if uneven else tensor

    def _exchange(self, tensor: fx.Node, d: int, e: int, held: list[int], wanted: list[int]) -> fx.Node:
        """Shard(d) to Shard(e)."""
        full_d, full_e = -(-wanted[d] // self.ranks), -(-held[e] // self.ranks)
        uneven_d, uneven_e = full_d * self.ranks != wanted[d], full_e * self.ranks != held[e]
        tensor = self._filled(tensor, d, held, full_d, uneven_d)
        sent = _with(held, d, full_d)
        tensor = self._filled(tensor, e, sent, full_e * self.ranks, uneven_e)
        sent = _with(sent, e, full_e * self.ranks)
        tensor = self._stacked(tensor, e, sent)
        part = _with(sent, e, full_e)
        lengths = [part[0]] * self.ranks
        op = _c10d.all_to_all_single.default
        tensor = self._collective("all-to-all", sent, op, tensor, lengths, lengths)
        tensor = self._unstacked(tensor, d, part)
        if uneven_d:
            tensor = self.write.narrow(tensor, d, 0, wanted[d])
        return self.write.narrow(tensor, e, 0, wanted[e]) if uneven_e else tensor

    def _filled(self, tensor: fx.Node, d: int, held: list[int], length: int, uneven: bool) -> fx.Node:
        """A contiguous tensor of ``length`` in dimension ``d``, with zeros at the end."""
        if uneven:
            pad = [0, 0] * (len(held) - 1 - d) + [0, length - held[d]]
            tensor = self.write.call(aten.constant_pad_nd.default, tensor, pad)
        return self.write.call(aten.contiguous.default, tensor)

    def _stacked(self, tensor: fx.Node, d: int, shape: list[int]) -> fx.Node:
        """Equal parts of dimension ``d``, one for each rank, one behind the other in the first dimension."""
        if d == 0:
            return tensor
        part = shape[d] // self.ranks
        tensor = self.write.call(aten.view.default, tensor, [*shape[:d], self.ranks, part, *shape[d + 1 :]])
        order = [d, *range(d), *range(d + 1, len(shape) + 1)]
        tensor = self.write.call(aten.permute.default, tensor, order)
        tensor = self.write.call(aten.contiguous.default, tensor)
        merged = [self.ranks * shape[0], *shape[1:d], part, *shape[d + 1 :]]
        return self.write.call(aten.view.default, tensor, merged)

    def _unstacked(self, tensor: fx.Node, d: int, part: list[int]) -> fx.Node:
        """The other way round: parts of these sizes, one behind the other, to one tensor along ``d``."""
        if d == 0:
            return tensor
        tensor = self.write.call(aten.view.default, tensor, [self.ranks, *part])
        order = [*range(1, d + 1), 0, *range(d + 1, len(part) + 1)]
        tensor = self.write.call(aten.permute.default, tensor, order)
        tensor = self.write.call(aten.contiguous.default, tensor)
        return self.write.call(aten.view.default, tensor, _with(part, d, self.ranks * part[d]))


def _with(sizes: list[int], d: int, size: int) -> list[int]:
    return [*sizes[:d], size, *sizes[d + 1 :]]
