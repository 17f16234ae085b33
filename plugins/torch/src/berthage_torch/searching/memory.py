"""Memory over time: as a budget of the problem, and as the timeline of any plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, ProblemBuilder
from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch.graph import Node, OpGraph, TensorMeta
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import Strategies

from .constraints import PEAK_MEMORY, PeakMemory
from .copies import Copies
from .holdings import KINDS, Holding, Holdings
from .sizes import held_bytes

if TYPE_CHECKING:
    from berthage_torch.plans.plan import Plan

__all__ = ["Held", "MemoryTimeline", "limit_peak_memory", "memory_of"]

Int64 = npt.NDArray[np.int64]


def limit_peak_memory(
    demand: PeakMemory,
    builder: ProblemBuilder,
    graph: OpGraph,
    pricer: Pricer,
    strategies: Sequence[Strategies],
    variable: Int64,
    copies: Copies,
) -> None:
    """Add the budget of a limit on memory over time.

    Args:
        demand: The limit.
        builder: The problem under construction.
        graph: The graph.
        pricer: Mesh, and cost model for the memory of a device.
        strategies: The strategies of each node.
        variable: ``int64[nodes]``, the variable of each node.
        copies: The copies of tensors.
    """
    mesh = pricer.mesh
    profile = getattr(pricer.cost_model, "profile", None)
    limit = demand.bytes_of(None if profile is None else profile.device.memory_bytes)
    weights: dict[tuple[object, ...], Int64] = {}

    def weigh(held: Holding) -> tuple[int, Int64]:
        index, output = held.tensor
        copy = copies.of(held)
        if copy is None:
            v = int(variable[index])
            key: tuple[object, ...] = (v, output)
            if key not in weights:
                weights[key] = held_bytes(graph.nodes[index], output, strategies[index].outputs[:, output], mesh)
        else:
            v, key = copy.variable, (copy.variable, held.moved)
            if key not in weights:
                used = held_bytes(graph.nodes[index], output, copy.placements, mesh)
                weights[key] = np.where(copy.moved, used, 0) if held.moved else used
        return v, weights[key]

    rows: list[tuple[int, int, int, Int64]] = []
    trained = set(graph.gradients)
    state = {node for fqn, node in graph.parameters.items() if fqn in trained} if demand.state_bytes else set()
    for held in Holdings(graph):
        if held.moved and copies.of(held) is None:
            continue  # what cannot be moved has no copy
        v, used = weigh(held)
        if held.kind == "parameters" and held.tensor[0] in state:
            meta = graph.nodes[held.tensor[0]].outputs[0]
            assert meta is not None  # a parameter has a value
            used = used + _state(used, meta, demand.state_bytes)
        if used.any():
            rows.append((v, held.start, held.stop, used))
    builder.add_interval_budget(PEAK_MEMORY, rows, limit=limit, price=demand.price)


def _state(used: Int64, meta: TensorMeta, state_bytes: float) -> Int64:
    """Bytes of optimizer state beside so many bytes of a parameter."""
    return np.asarray(np.ceil(used // meta.itemsize * state_bytes), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Held:
    """Something that a rank holds at an instant.

    Attributes:
        name: Name of the node that made it, with ``.1`` and so on for further outputs.
        kind: One of `berthage_torch.searching.holdings.KINDS`.
        placement: Where it lies.
        bytes: Bytes of the largest shard.
    """

    name: str
    kind: str
    placement: str
    bytes: int


@dataclass(frozen=True, eq=False)
class MemoryTimeline:
    """What the rank with the largest shards holds at every instant of a step. An instant is a node of the plan.

    Attributes:
        nodes: The node of each instant.
        by_kind: ``int64[instants]`` bytes of each kind: `berthage_torch.searching.holdings.KINDS`.
        held: Everything held, with its first instant and the first after it.
    """

    nodes: tuple[str, ...]
    by_kind: Mapping[str, Int64]
    held: tuple[tuple[int, int, Held], ...]

    @cached_property
    def total(self) -> Int64:
        """``int64[instants]`` bytes."""
        return np.asarray(np.sum(list(self.by_kind.values()), axis=0, dtype=np.int64))

    @property
    def peak(self) -> int:
        """Bytes at the fullest instant."""
        return int(self.total.max(initial=0))

    @property
    def instant(self) -> int:
        """The first of the fullest instants."""
        return int(self.total.argmax()) if len(self.total) else 0

    def peak_of(self, *kinds: str) -> int:
        """The most bytes of these kinds at once, ``peak_of("parameters", "gradients")``.

        Raises:
            InvalidProblemError: No such kind.
        """
        unknown = set(kinds) - set(KINDS)
        if unknown:
            raise InvalidProblemError(f"nothing held is called {min(unknown)!r}; there are {', '.join(KINDS)}")
        return int(np.sum([self.by_kind[kind] for kind in kinds], axis=0, dtype=np.int64).max(initial=0))

    def live(self, instant: int | None = None) -> tuple[Held, ...]:
        """What is held at an instant, the fullest unless said, largest first."""
        at = self.instant if instant is None else instant
        found = [held for start, stop, held in self.held if start <= at < stop]
        return tuple(sorted(found, key=lambda held: (-held.bytes, held.name)))


def memory_of(plan: Plan, graph: OpGraph, *, optimizer: str | float = "adamw") -> MemoryTimeline:
    """The memory that a plan needs over time, on the rank with the largest shards.

    Parameters, gradients, optimizer state, inputs, buffers, outputs and activations; not what a kernel or a collective
    needs for itself, nor what an allocator loses.

    Args:
        plan: The plan.
        graph: The traced step it was made for.
        optimizer: As in `PeakMemory`.

    Raises:
        InvalidProblemError: The plan is of another graph.
    """
    if len(plan.nodes) != len(graph.nodes) or any(
        planned.name != node.name for planned, node in zip(plan.nodes, graph.nodes, strict=True)
    ):
        raise InvalidProblemError(f"the plan of {plan.model} was made for another step than this graph")
    placed = _Placed(plan, graph)
    state_bytes = PeakMemory(1.0, optimizer).state_bytes
    trained = {graph.parameters[fqn] for fqn in graph.gradients if fqn in graph.parameters}
    found: list[tuple[int, int, Held]] = []
    for held in Holdings(graph):
        placement = placed.of(held)
        if placement is None:
            continue
        index, output = held.tensor
        node = graph.nodes[index]
        used = placed.bytes(node, output, placement)
        name = f"{node.name}.{output}" if output else node.name
        if used:
            found.append((held.start, held.stop, Held(name, held.kind, placement, used)))
        if held.kind == "parameters" and index in trained and state_bytes:
            meta = node.outputs[0]
            assert meta is not None  # a parameter has a value
            state = int(_state(np.array([used]), meta, state_bytes)[0])
            found.append((held.start, held.stop, Held(name, "optimizer", placement, state)))
    change = {kind: np.zeros(len(graph.nodes) + 1, dtype=np.int64) for kind in KINDS}
    for start, stop, each in found:
        change[each.kind][start] += each.bytes
        change[each.kind][stop] -= each.bytes
    use = {kind: np.cumsum(steps)[:-1] for kind, steps in change.items()}
    return MemoryTimeline(tuple(node.name for node in graph.nodes), MappingProxyType(use), tuple(found))


class _Placed:
    """Where a plan has everything that may be held."""

    def __init__(self, plan: Plan, graph: OpGraph) -> None:
        self._graph, self._plan = graph, plan
        self._mesh = Mesh(tuple(plan.mesh), tuple(plan.mesh.values()))
        self._edges = {(e.producer, e.output, e.consumer, e.position): (e.before, e.after) for e in plan.edges}
        self._bytes: dict[tuple[object, ...], int] = {}

    def of(self, held: Holding) -> str | None:
        """The placement; None for what is there only if moved, and was not."""
        index, output = held.tensor
        name = self._graph.nodes[index].name
        if held.edge is None and not held.shared:
            return self._plan.nodes[index].outputs[output]
        if held.edge is None:
            key = (name, output, "", -1)
        else:
            key = (name, output, self._graph.nodes[held.edge.consumer].name, held.edge.position)
        before, after = self._edges[key]
        return None if held.moved and before == after else after

    def bytes(self, node: Node, output: int, placement: str) -> int:
        key = (node.outputs[output], placement, node.local_map, output)
        if key not in self._bytes:
            row = np.array([codes.parse(placement)], dtype=np.int8)
            self._bytes[key] = int(held_bytes(node, output, row, self._mesh)[0])
        return self._bytes[key]
