"""Prices of strategies in microseconds: compute for each label, and redistribution between the ends of an edge."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, CostTable, DenseTable, LazyTable
from berthage.problem import CostOracle
from berthage_nccl import Mesh
from berthage_nccl.placements import REPLICATE
from berthage_torch.graph import LocalMap, Node, Ref, TensorMeta

from .rules import OneDim
from .strategies import Int8, Int32, Strategies
from .work import Floats, Work, is_free, work

__all__ = ["CostModelLike", "LazyCostModelLike", "Pricer", "is_contiguous"]


class CostModelLike(Protocol):
    """What a cost model must be able to do; `berthage_nccl.CostModel` is one."""

    transition_us: float

    @property
    def key(self) -> str:
        """A digest of everything that the prices depend on."""

    def compute(
        self, flops: npt.ArrayLike, bytes: npt.ArrayLike, dtype: str, matmul: bool | npt.NDArray[np.bool_] = False
    ) -> Floats:
        """Microseconds of operations on one device."""

    def redistribute(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        sources: Int8,
        targets: Int8,
        contiguous: bool = True,
    ) -> Floats:
        """``float64[S, T]`` microseconds of changing placements; inf where impossible."""


@runtime_checkable
class LazyCostModelLike(CostModelLike, Protocol):
    """A cost model that can price redistributions one by one as well."""

    def redistribution(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        sources: Int8,
        targets: Int8,
        contiguous: bool = True,
    ) -> CostOracle:
        """What `redistribute` says and, for any change, ``transition_us``; priced on demand, with lower bounds."""


@runtime_checkable
class PricesProducts(Protocol):
    """What a cost model may be able to do as well: matrix products by their shapes, not by FLOPs and bytes alone."""

    def products(self, shapes: npt.ArrayLike, dtype: str) -> Floats:
        """Microseconds of products ``[..., 4]``: batch, m, n, k."""


class Pricer:
    """Prices on one mesh with one cost model; what it remembers belongs to it.

    Args:
        mesh: The mesh.
        cost_model: Where prices come from.
        lazy: Whether redistributions are priced only when somebody asks, if the cost model can: the tables are then
            lazy ones. The prices are the same.

    Attributes:
        key: Everything that the prices depend on: the cost model's key and the mesh.
    """

    def __init__(self, mesh: Mesh, cost_model: CostModelLike, *, lazy: bool = False) -> None:
        self.mesh = mesh
        self.cost_model = cost_model
        self.lazy = lazy
        self.key = f"{cost_model.key} {mesh.names} {mesh.sizes}"
        self._compute: dict[Strategies, Floats] = {}
        self._inner: dict[Any, CostTable] = {}
        self._classed: dict[Any, ClassedTable] = {}

    def compute(self, strategies: Strategies) -> Floats:
        """Microseconds on the device under each label, ``float64[L]``; 0 for views and for what is no operation.

        By the largest shard. What happens inside a `local_map` region is shared evenly by the ranks of every mesh
        dimension on which anything of the region is not replicated.
        """
        found = self._compute.get(strategies)
        if found is None:
            found = self._work(strategies)
            found.flags.writeable = False
            self._compute[strategies] = found
        return found

    def edge(self, producer: Strategies, output: int, consumer: Strategies, position: int) -> ClassedTable:
        """The table of an edge: labels of the producer by labels of the consumer.

        Equal questions give one object, and tables whose tensors and placements are equal share their entries.
        """
        meta = producer.node.outputs[output]
        assert meta is not None  # a graph has no edge from an output that does not exist
        return self.table(meta, producer.output_classes[output], consumer.input_classes[position])

    def table(self, meta: TensorMeta, produced: tuple[Int8, Int32], wanted: tuple[Int8, Int32]) -> ClassedTable:
        """The table between placements produced and wanted of one tensor.

        Args:
            meta: The tensor.
            produced: Distinct placements ``int8[S, D]``, and the class of each label ``int32[L]``.
            wanted: The same of the other end.
        """
        sources, rows = produced
        targets, columns = wanted
        contiguous = is_contiguous(meta)
        key = (meta.shape, meta.itemsize, contiguous, sources.tobytes(), targets.tobytes())
        full = (key, rows.tobytes(), columns.tobytes())
        found = self._classed.get(full)
        if found is None:
            if key not in self._inner:
                self._inner[key] = self._between(meta, sources, targets)
            found = ClassedTable(self._inner[key], rows, columns)
            self._classed[full] = found
        return found

    def _between(self, meta: TensorMeta, sources: Int8, targets: Int8) -> CostTable:
        if self.lazy and isinstance(self.cost_model, LazyCostModelLike):
            contiguous = is_contiguous(meta)
            return LazyTable(
                self.cost_model.redistribution(self.mesh, meta.shape, meta.itemsize, sources, targets, contiguous)
            )
        return DenseTable(self.redistribution(meta, sources, targets))

    def redistribution(self, meta: TensorMeta, sources: Int8, targets: Int8) -> Floats:
        """``float64[S, T]`` microseconds from placements ``int8[S, D]`` to ``int8[T, D]``; inf where impossible.

        Any change adds the cost model's ``transition_us``.
        """
        us = self.cost_model.redistribute(
            self.mesh, meta.shape, meta.itemsize, sources, targets, contiguous=is_contiguous(meta)
        )
        changed = (sources[:, None] != targets[None]).any(axis=2)
        return np.asarray(us + np.where(changed, self.cost_model.transition_us, 0.0), dtype=np.float64)

    def _work(self, strategies: Strategies) -> Floats:
        node = strategies.node
        if node.local_map is not None:
            total = _region_us(self, strategies, node.local_map)
            return np.full(len(strategies), total)
        if is_free(node):
            return np.zeros(len(strategies))
        return self.work_us(work(strategies))

    def work_us(self, done: Work) -> Floats:
        """Microseconds of some work, ``float64[L]``."""
        if done.shapes is not None and isinstance(self.cost_model, PricesProducts):
            return np.array(self.cost_model.products(done.shapes, done.dtype), dtype=np.float64)
        dtype = done.dtype if done.matmul else "float32"  # only matrix products have a rate for each dtype
        return np.array(self.cost_model.compute(done.flops, done.bytes, dtype, done.matmul), dtype=np.float64)


def is_contiguous(meta: TensorMeta) -> bool:
    """Whether the global strides are those of a contiguous tensor; dimensions of length one do not matter."""
    expected = 1
    for size, stride in zip(reversed(meta.shape), reversed(meta.stride), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _region_us(pricer: Pricer, strategies: Strategies, region: LocalMap) -> float:
    """The operations inside, each a share of itself at global shapes."""
    placed = np.concatenate([strategies.inputs[0], strategies.outputs[0]])
    split = (placed != REPLICATE).any(axis=0)
    ranks = float(np.prod([size for size, cut in zip(strategies.mesh.sizes, split, strict=True) if cut]))
    total = 0.0
    for node in region.body.nodes:
        if is_free(node):
            continue
        whole = _replicated(node, tuple(_inside(region, ref) for ref in node.inputs), strategies.mesh)
        total += float(pricer.work_us(work(whole).share(ranks))[0])
    return total


def _inside(region: LocalMap, ref: Ref) -> TensorMeta:
    meta = region.body.nodes[ref.node].outputs[ref.output]
    assert meta is not None  # as in a graph
    return meta


def _replicated(node: Node, metas: tuple[TensorMeta, ...], mesh: Mesh) -> Strategies:
    """The node with everything replicated."""
    dims = len(mesh.sizes)
    inputs, outputs = np.zeros((1, len(metas), dims), np.int8), np.zeros((1, len(node.outputs), dims), np.int8)
    single = OneDim(inputs[:, :, 0], outputs[:, :, 0], np.zeros(1, np.bool_), np.zeros(1, np.bool_), "replicate")
    return Strategies(node, metas, mesh, single, np.zeros((1, dims), np.int16), inputs, outputs)
