"""A training step seen on one mesh dimension at a time: the provider of `split-dim`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem
from berthage_nccl import Mesh
from berthage_torch.graph import Node, OpGraph, resolve_placements
from berthage_torch.pricing.pricer import CostModelLike, Pricer
from berthage_torch.pricing.strategies import Int8, StrategySpace
from berthage_torch.pricing.work import Floats

from .building import BuiltProblem, build_problem
from .constraints import PARAMETER_MEMORY, Constraints, Wanted
from .demands import placement_of
from .fitting import Fitting, shared_name
from .folding import Groups, Tie

__all__ = ["MeshDimensions", "MeshSeed", "Piece"]


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """What was chosen on one mesh dimension.

    Attributes:
        groups: ``int64[nodes]``, the first node of each node's group.
        rows: ``int16[nodes]``, the single-dimension strategy of each node (a row of `OneDim`: all inputs and outputs).
        shared: The placement code of each tensor with several users, by (first node of the group, output).
    """

    groups: Groups
    rows: npt.NDArray[np.int16]
    shared: Mapping[tuple[int, int], int]


@dataclass(frozen=True, eq=False, slots=True)
class MeshSeed:
    """A whole strategy (the witness) for each node of a step, put together from one for each mesh dimension.

    Attributes:
        groups: ``int64[nodes]``, as in `Piece`; the same on every dimension.
        index: ``int16[nodes, D]``: what `Strategies.index` has for the witness, so its inputs and outputs.
        shared: Placements ``int8[D]`` of tensors with several users.
        moved: Names of what could not be placed as the single dimensions have it, because shards that fit on each of
            them do not fit on all; it was moved to what is nearest.
    """

    groups: Groups
    index: npt.NDArray[np.int16]
    shared: Mapping[tuple[int, int], Int8]
    moved: tuple[str, ...] = ()


class MeshDimensions:
    """The problems of single mesh dimensions; mesh dimensions of one rank are left out.

    On one dimension every other has one rank, so placements that are demanded or declared by `local_map` keep their
    part on this dimension. The fabric is that of the dimension within the whole mesh, sizes are those of the whole
    tensors. A limit on parameter memory is shared by the dimensions so that the shares of all multiply to it (a mesh
    dimension of n of N ranks gets the share to the power of log n / log N) and never lies below what is possible; the
    least stays the least. A limit on peak memory is not looked at.

    Args:
        graph: The step.
        mesh: The whole mesh.
        cost_model: Prices on the whole mesh. One that has ``along(mesh, dimension)`` is asked for the prices along a
            dimension; otherwise it prices a mesh of that dimension alone.
        constraints: Demands on the whole mesh.
        tie: See `fold`.
        space: Where single-dimension strategies are looked up; what `StrategySpace.keep` leaves out there is only left
            out on the whole mesh.
        name: Of the problems.
    """

    def __init__(
        self,
        graph: OpGraph,
        mesh: Mesh,
        cost_model: CostModelLike,
        constraints: Constraints,
        *,
        tie: Tie = "layers",
        space: StrategySpace | None = None,
        name: str = "placement",
    ) -> None:
        self._space = space or StrategySpace(mesh)
        self._graph, self._mesh, self._constraints, self._tie, self._name = graph, mesh, constraints, tie, name
        self._dims = [d for d, size in enumerate(mesh.sizes) if size > 1]
        self._prices = {d: _Along(cost_model, mesh, d) for d in self._dims}
        self._built: dict[int, BuiltProblem] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The mesh dimensions of more than one rank."""
        return tuple(self._mesh.names[d] for d in self._dims)

    def key(self, dimension: int) -> str:
        """A digest of graph (dtypes included), size, fabric and prices, demands, declared placements and ties.

        Names of mesh dimensions are no part of it: equal dimensions are solved once.
        """
        d = self._dims[dimension]
        demands = self._constraints
        placed = [
            sorted((name, int(self._place(wanted, f"{side} {name}")[d])) for name, wanted in given.items())
            for side, given in (("input", demands.inputs), ("output", demands.outputs), ("pin", demands.pins))
        ]
        declared = []
        for node in self._graph.nodes:
            if node.local_map is not None:
                both = (*node.local_map.inputs, *node.local_map.outputs)
                declared.append([None if p is None else resolve_placements(p, self._mesh.names)[d] for p in both])
        hinted = [node for node in self._graph.nodes if node.hint is not None] if demands.hints else []
        hints = [(node.index, resolve_placements(node.hint or (), self._mesh.names)[d]) for node in hinted]
        digest = hashlib.sha256(b"berthage mesh dimension 1\n")
        for part in (
            self._graph.key,
            self._mesh.sizes[d],
            self._prices[d].key,
            self._prices[d].transition_us,
            placed,
            self._memory(d),
            declared,
            hints,
            self._tie if isinstance(self._tie, str) else [list(group) for group in self._tie],
        ):
            digest.update(f"{part!r}\n".encode())
        return digest.hexdigest()

    def problem(self, dimension: int) -> PlacementProblem:
        """The problem of one dimension."""
        d = self._dims[dimension]
        sizes = tuple(size if at == d else 1 for at, size in enumerate(self._mesh.sizes))
        mesh = Mesh(self._mesh.names, sizes)
        share = self._memory(d)
        demands = replace(self._constraints, parameter_memory=None if share is None else "least", peak_memory=None)
        pricer = Pricer(mesh, self._prices[d])
        name = f"{self._name} on {self._mesh.names[d]}"
        built = build_problem(self._graph, pricer, demands, tie=self._tie, space=self._space.on(mesh), name=name)
        if isinstance(share, float):
            built = replace(built, problem=_raised(built.problem, share * _parameter_bytes(self._graph)))
        self._built[dimension] = built
        return built.problem

    def piece(self, dimension: int, assignment: npt.NDArray[np.int32]) -> Piece:
        """The strategies that an assignment stands for."""
        d, built = self._dims[dimension], self._built[dimension]
        labels = assignment[built.variable]
        rows = [space.index[label, d] for space, label in zip(built.strategies, labels.tolist(), strict=True)]
        found = np.array(rows, dtype=np.int16)
        found.flags.writeable = False
        shared = {
            tensor: int(alias.placements[assignment[alias.variable], d]) for tensor, alias in built.aliases.items()
        }
        return Piece(built.groups, found, MappingProxyType(shared))

    def compose(self, pieces: Sequence[Piece]) -> MeshSeed:
        """The witness of each node on the whole mesh; row 0 (Replicate) on mesh dimensions of one rank.

        Where it does not hold together there, the nearest that does takes its place: fewest mesh dimensions changed,
        the last ones first, and to Replicate rather than to another shard.
        """
        graph, dims = self._graph, len(self._mesh.sizes)
        groups = pieces[0].groups
        index = np.zeros((len(graph.nodes), dims), dtype=np.int16)
        for d, piece in zip(self._dims, pieces, strict=True):
            index[:, d] = piece.rows
        before = index.copy()
        fitting = Fitting(graph, self._space.on(self._mesh))
        moved: dict[str, None] = {}
        for first in np.unique(groups).tolist():
            node = graph.nodes[first]
            if node.local_map is not None:
                index[first] = np.arange(dims)  # a region has a row for each mesh dimension, not a choice
                continue
            wanted = index[first]
            if node.role.endswith("-cast"):
                wanted = self._followed(node, index, before, groups)
            found = fitting.node(node, wanted)
            if (found != index[first]).any():
                moved[node.name] = None
                index[first] = found
        index = index[groups]
        shared = {}
        for u, output in pieces[0].shared:
            place = np.zeros(dims, dtype=np.int8)
            place[self._dims] = [piece.shared[u, output] for piece in pieces]
            meta = graph.nodes[u].outputs[output]
            assert meta is not None  # a graph has no edge from an output that does not exist
            shared[u, output] = fitting.tensor(meta, place)
            if (shared[u, output] != place).any():
                moved[shared_name(graph, u, output)] = None
            shared[u, output].flags.writeable = False
        index.flags.writeable = False
        return MeshSeed(groups, index, MappingProxyType(shared), tuple(moved))

    def _followed(
        self, cast: Node, index: npt.NDArray[np.int16], before: npt.NDArray[np.int16], groups: Groups
    ) -> npt.NDArray[np.int16]:
        """The witness of a cast that goes where what it casts was moved to: moves between them may be ruled out."""
        graph, space = self._graph, self._space
        own: npt.NDArray[np.int16] = before[cast.index].copy()
        producer, output = cast.inputs[0]
        source = graph.nodes[int(groups[producer])]
        if source.local_map is not None:
            return own
        made, used = space.single(graph, source).outputs[:, output], space.single(graph, cast)
        for d in np.flatnonzero(index[source.index] != before[source.index]).tolist():
            was, now = made[before[source.index, d]], made[index[source.index, d]]
            rows = np.flatnonzero(used.inputs[:, 0] == now)
            if used.inputs[own[d], 0] == was and len(rows):
                own[d] = rows[0]
        return own

    def _place(self, wanted: Wanted, what: str) -> Int8:
        return placement_of(wanted, self._mesh, what)

    def _memory(self, d: int) -> str | float | None:
        """What a dimension is told of parameter memory: nothing, ``"least"``, or a share of all parameters."""
        demand = self._constraints.parameter_memory
        if demand is None or isinstance(demand, str):
            return demand
        high = float(demand[1])
        share = high if high <= 1.0 else high / max(1, _parameter_bytes(self._graph))
        if share >= 1.0:
            return None
        return math.pow(max(share, 0.0), math.log(self._mesh.sizes[d]) / math.log(self._mesh.ranks))


class _Along:
    """Prices along one dimension of a mesh whose other dimensions have one rank.

    Args:
        cost_model: Prices on the whole mesh.
        mesh: The whole mesh.
        dimension: Which of its dimensions.
    """

    def __init__(self, cost_model: CostModelLike, mesh: Mesh, dimension: int) -> None:
        along = getattr(cost_model, "along", None)
        self._cost_model: CostModelLike = cost_model if along is None else along(mesh, dimension)
        self._alone = Mesh(("d",), (mesh.sizes[dimension],))
        self._dimension = dimension
        self.transition_us = cost_model.transition_us

    @property
    def key(self) -> str:
        """As of any cost model."""
        return self._cost_model.key

    def compute(
        self, flops: npt.ArrayLike, bytes: npt.ArrayLike, dtype: str, matmul: bool | npt.NDArray[np.bool_] = False
    ) -> Floats:
        """Microseconds of operations on one device."""
        return self._cost_model.compute(flops, bytes, dtype, matmul)

    def redistribute(
        self, mesh: Mesh, shape: tuple[int, ...], itemsize: int, sources: Int8, targets: Int8, contiguous: bool = True
    ) -> Floats:
        """Microseconds of changing placements: those of the one dimension that has ranks."""
        one = slice(self._dimension, self._dimension + 1)
        return self._cost_model.redistribute(
            self._alone, shape, itemsize, sources[:, one], targets[:, one], contiguous=contiguous
        )


def _parameter_bytes(graph: OpGraph) -> int:
    metas = [graph.nodes[index].outputs[0] for index in dict.fromkeys(graph.parameters.values())]
    return sum(meta.nbytes for meta in metas if meta is not None)


def _raised(problem: PlacementProblem, limit: float) -> PlacementProblem:
    """The problem with its limit on parameter memory, now the least possible, raised to ``limit`` bytes."""
    budgets = tuple(
        replace(budget, upper=max(budget.upper, int(limit))) if budget.name == PARAMETER_MEMORY else budget
        for budget in problem.linear_budgets
    )
    return replace(problem, linear_budgets=budgets)
