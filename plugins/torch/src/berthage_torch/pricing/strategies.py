"""Strategies on a mesh of any number of dimensions: one single-dimension strategy for each, as arrays.

A label is a row of `Strategies.index`. What it means for a tensor is looked up; no object is made for it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import LabelSet
from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch.graph import LocalMap, Node, OpGraph, Ref, TensorMeta, resolve_placements

from .rules import OneDim, one_dim

__all__ = [
    "MissingRuleWarning",
    "Strategies",
    "StrategySpace",
    "alike",
    "can_be_placed",
    "classes_of",
    "combined",
    "metas_of",
]

Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]


class MissingRuleWarning(UserWarning):
    """An operation has no sharding rule, so it is replicated on every rank."""


@dataclass(frozen=True, eq=False)
class Strategies:
    """The strategies of a node on a mesh: L labels, D mesh dimensions, A tensor arguments, O outputs.

    Attributes:
        node: A node they are for; others with the same operation, arguments and sizes share this object.
        metas: What is known of its tensor arguments.
        mesh: The mesh.
        one_dim: The single-dimension strategies; of a `local_map` region, one for each mesh dimension.
        index: ``int16[L, D]``: row of `one_dim` on each mesh dimension. Row 0 replicates everything, except for
            regions, whose only label is what was declared.
        inputs: ``int8[L, A, D]``: placement wanted of each argument.
        outputs: ``int8[L, O, D]``: placement of each output.
        uneven: How many labels were left out because shards would be uneven where they must not be.
        empty: How many because some rank would hold nothing; cutting a dimension of one element does not count.
    """

    node: Node
    metas: tuple[TensorMeta, ...]
    mesh: Mesh
    one_dim: OneDim
    index: npt.NDArray[np.int16]
    inputs: Int8
    outputs: Int8
    uneven: int = 0
    empty: int = 0

    def __len__(self) -> int:
        """Number of labels, L."""
        return len(self.index)

    @cached_property
    def label_set(self) -> LabelSet:
        """The labels by name, with the placement codes of the first output (without one, argument) as coordinates."""
        side = self.outputs if self.outputs.shape[1] else self.inputs
        place = side[:, 0] if side.shape[1] else np.zeros((len(self), len(self.mesh.sizes)))
        return LabelSet.of(self._names(), place.astype(np.int32))

    def name(self, label: int) -> str:
        """A label as text, e.g. ``"S(0)R, RS(1) -> S(0)S(1)"``."""
        sides = [", ".join(codes.format(row) for row in side[label].tolist()) for side in (self.inputs, self.outputs)]
        return f"{sides[0]} -> {sides[1]}" if sides[0] else sides[1]

    def _names(self) -> list[str]:
        found = [self.name(label) for label in range(len(self))]
        masked = np.flatnonzero(self.one_dim.masked[self.index].any(axis=1))
        for label in masked:
            found[label] += " (masked)"
        return found

    @cached_property
    def input_classes(self) -> tuple[tuple[Int8, Int32], ...]:
        """For each argument the distinct placements ``int8[c, D]`` and the class of each label ``int32[L]``."""
        return tuple(classes_of(self.inputs[:, a]) for a in range(self.inputs.shape[1]))

    @cached_property
    def output_classes(self) -> tuple[tuple[Int8, Int32], ...]:
        """The same for each output."""
        return tuple(classes_of(self.outputs[:, o]) for o in range(self.outputs.shape[1]))

    def take(self, labels: npt.NDArray[np.integer]) -> Strategies:
        """Only some labels, in the order given."""
        return dataclasses.replace(
            self, index=self.index[labels], inputs=self.inputs[labels], outputs=self.outputs[labels]
        )

    def find(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> int:
        """The label with these placements (a row for each argument and output); -1 when there is none."""
        wanted = np.array(inputs, dtype=np.int8).reshape(self.inputs.shape[1:])
        given = np.array(outputs, dtype=np.int8).reshape(self.outputs.shape[1:])
        hits = np.flatnonzero((self.inputs == wanted).all(axis=(1, 2)) & (self.outputs == given).all(axis=(1, 2)))
        return int(hits[0]) if len(hits) else -1


def classes_of(placements: Int8) -> tuple[Int8, Int32]:
    """Distinct rows of ``int8[L, D]`` in increasing order, and which of them each row is."""
    weights = 128 ** np.arange(placements.shape[1] - 1, -1, -1, dtype=np.int64)
    _, first, inverse = np.unique(placements.astype(np.int64) @ weights, return_index=True, return_inverse=True)
    return placements[first], inverse.astype(np.int32)


class StrategySpace:
    """Strategies of the nodes of graphs on one mesh; equal operations share theirs.

    Args:
        mesh: The mesh. What is remembered belongs to this object and to this mesh.
        keep: Which labels are offered, ``bool[L]`` of the strategies of a node; None offers all that hold together.

    Attributes:
        missing: Operations without a rule seen so far, sorted when read; each was warned of once.
    """

    def __init__(self, mesh: Mesh, keep: Callable[[Strategies], npt.NDArray[np.bool_]] | None = None) -> None:
        self.mesh = mesh
        self.keep = keep
        self._one_dim: dict[Any, OneDim] = {}
        self._spaces: dict[Any, Strategies] = {}
        self._missing: set[str] = set()

    def on(self, mesh: Mesh) -> StrategySpace:
        """A space on another mesh, offering everything, that shares what is known of single mesh dimensions."""
        other = StrategySpace(mesh)
        other._one_dim, other._missing = self._one_dim, self._missing
        return other

    @property
    def missing(self) -> tuple[str, ...]:
        """Operations without a rule."""
        return tuple(sorted(self._missing))

    def of(self, graph: OpGraph, node: Node) -> Strategies:
        """The strategies of a node of a graph. Warns once of each operation without a rule (`MissingRuleWarning`)."""
        metas, key = metas_of(graph, node), alike(graph, node)
        found = self._spaces.get(key)
        if found is None:
            if node.local_map is not None:
                found = _declared(node, metas, node.local_map, self.mesh)
            else:
                found = self.offered(product(node, metas, self.mesh, self.single(graph, node)))
            self._spaces[key] = found
        return found

    def offered(self, strategies: Strategies) -> Strategies:
        """Without the labels that `keep` leaves out."""
        return strategies if self.keep is None else strategies.take(np.flatnonzero(self.keep(strategies)))

    def single(self, graph: OpGraph, node: Node) -> OneDim:
        """The strategies of a node, no `local_map` region, on one mesh dimension; warns as `of` does."""
        key = alike(graph, node)
        if key not in self._one_dim:
            found = one_dim(node, metas_of(graph, node))
            if found.source == "missing" and node.op not in self._missing:
                self._missing.add(node.op)
                warnings.warn(f"{node.op} has no sharding rule and is replicated", MissingRuleWarning, stacklevel=4)
            self._one_dim[key] = found
        return self._one_dim[key]


def product(node: Node, metas: tuple[TensorMeta, ...], mesh: Mesh, single: OneDim) -> Strategies:
    """All combinations of single-dimension strategies that hold together on a mesh.

    Left out are: all but Replicate on dimensions of one rank; shards without an element;
    uneven shards where `OneDim.even` says so, counted over the mesh dimensions from left to right; and tensors that
    would be a sum over some ranks and a maximum or minimum over others, which do not commute.
    """
    choices = [np.arange(len(single.inputs) if size > 1 else 1, dtype=np.int16) for size in mesh.sizes]
    grid = np.meshgrid(*choices, indexing="ij")
    return combined(node, metas, mesh, single, np.stack([axis.ravel() for axis in grid], axis=1))


def combined(
    node: Node, metas: tuple[TensorMeta, ...], mesh: Mesh, single: OneDim, index: npt.NDArray[np.int16]
) -> Strategies:
    """Those of some combinations ``int16[L, D]`` of single-dimension strategies that hold together; see `product`."""
    inputs = np.swapaxes(single.inputs[index], 1, 2)
    outputs = np.swapaxes(single.outputs[index], 1, 2)
    filled, even = _sizes_fit(metas, inputs, mesh, single.even[index])
    filled_out, even_out = _sizes_fit(node.outputs, outputs, mesh, single.even[index])
    commuting = _commute(inputs) & _commute(outputs)
    full = filled & filled_out
    thick = _cuts_more_than_one(metas, inputs) & _cuts_more_than_one(node.outputs, outputs)
    possible = full & commuting
    keep = np.flatnonzero(possible & even & even_out)
    return Strategies(
        node,
        metas,
        mesh,
        single,
        index[keep],
        np.ascontiguousarray(inputs[keep]),
        np.ascontiguousarray(outputs[keep]),
        int(possible.sum()) - len(keep),
        int((commuting & thick & ~full).sum()),
    )


def _sizes_fit(
    metas: Sequence[TensorMeta | None], placements: Int8, mesh: Mesh, must: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """For each label whether no rank gets an empty shard of a tensor, and whether all divides where it ``must[L, D]``.

    Shards are cut as torch cuts them: of size / ranks rounded up, the last one the rest, and each of these again by
    the next mesh dimension on the same tensor dimension.
    """
    filled = np.ones(len(placements), dtype=np.bool_)
    even = np.ones(len(placements), dtype=np.bool_)
    for t, meta in enumerate(metas):
        for d, size in enumerate(meta.shape if meta is not None else ()):
            if size % mesh.ranks == 0:
                continue  # divides however it is cut
            # The local sizes that occur: of the full shards and of the last, cut by cut.
            local = np.full((len(placements), 1), size, dtype=np.int64)
            for m, many in enumerate(mesh.sizes):
                here = (placements[:, t, m] == codes.shard(d))[:, None]
                full = np.where(here, -(-local // many), local)
                last = np.where(here, local - (many - 1) * full, local)
                even &= ~(here[:, 0] & must[:, m]) | (full == last).all(axis=1)
                local = np.concatenate([full, last], axis=1)
            filled &= (local > 0).all(axis=1)
    return filled, even


def can_be_placed(meta: TensorMeta, placements: Int8, mesh: Mesh) -> npt.NDArray[np.bool_]:
    """``bool[L]``: whether a tensor can have these placements ``int8[L, D]``: no empty shard, no mixed reduction."""
    filled, _ = _sizes_fit([meta], placements[:, None], mesh, np.zeros(placements.shape, dtype=np.bool_))
    return filled & _commute(placements[:, None])


def _cuts_more_than_one(metas: Sequence[TensorMeta | None], placements: Int8) -> npt.NDArray[np.bool_]:
    """For each label whether every dimension that is sharded has more than one element."""
    found = np.ones(len(placements), dtype=np.bool_)
    for t, meta in enumerate(metas):
        for d, size in enumerate(meta.shape if meta is not None else ()):
            if size <= 1:
                found &= (placements[:, t] != codes.shard(d)).all(axis=1)
    return found


def _commute(placements: Int8) -> npt.NDArray[np.bool_]:
    """For each label whether no tensor mixes sums (averages are sums) with maxima or minima."""
    sums = ((placements == codes.PARTIAL_SUM) | (placements == codes.PARTIAL_AVG)).any(axis=2)
    top, bottom = (placements == codes.PARTIAL_MAX).any(axis=2), (placements == codes.PARTIAL_MIN).any(axis=2)
    return np.asarray(((sums.astype(np.int8) + top + bottom) <= 1).all(axis=1))


def _declared(node: Node, metas: tuple[TensorMeta, ...], region: LocalMap, mesh: Mesh) -> Strategies:
    """The one strategy of a `local_map` region. Values saved inside it count as replicated, on both sides of an edge.

    On dimensions of one rank every placement is Replicate.
    """
    alone = np.array([size == 1 for size in mesh.sizes])

    def rows(declared: Sequence[Any]) -> Int8:
        resolved = [
            (codes.REPLICATE,) * len(mesh.sizes) if one is None else resolve_placements(one, mesh.names)
            for one in declared
        ]
        table = np.array(resolved, dtype=np.int8).reshape(len(resolved), len(mesh.sizes))
        table[:, alone] = codes.REPLICATE
        return table

    inputs, outputs = rows(region.inputs), rows(region.outputs)
    dims = len(mesh.sizes)
    flags = np.zeros(dims, dtype=np.bool_)
    single = OneDim(inputs.T.copy(), outputs.T.copy(), flags, flags, "declared")
    return Strategies(node, metas, mesh, single, np.arange(dims, dtype=np.int16)[None], inputs[None], outputs[None])


def metas_of(graph: OpGraph, node: Node) -> tuple[TensorMeta, ...]:
    """What is known of the tensors of ``node.inputs``."""
    return tuple(_meta(graph, ref) for ref in node.inputs)


def alike(graph: OpGraph, node: Node) -> tuple[Any, ...]:
    """What the strategies of a node depend on, the mesh aside: nodes with equal ones share theirs."""
    kind = "op" if node.kind == "op" else "free"
    metas = metas_of(graph, node)
    return (kind, node.op, _plain(node.args), _plain(node.kwargs), metas, node.outputs, node.local_map)


def _meta(graph: OpGraph, ref: Ref) -> TensorMeta:
    meta = graph.nodes[ref.node].outputs[ref.output]
    assert meta is not None  # a graph has no edge from an output that does not exist
    return meta


def _plain(value: Any) -> Any:
    """An argument without saying which tensors, hashable and with the types of its constants."""
    if type(value) is tuple:
        return tuple(_plain(item) for item in value)
    if isinstance(value, Ref):
        return Ref
    return (type(value), value)
