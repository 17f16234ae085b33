"""From a graph to a placement problem: a variable for each node, a price for every real edge."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from berthage import LabelSet, PlacementProblem, ProblemBuilder
from berthage_nccl import placements as codes
from berthage_torch.graph import Edge, OpGraph, TensorMeta
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import Int8, Int32, Strategies, StrategySpace, classes_of
from berthage_torch.pricing.work import is_free

from .constraints import Constraints, PeakMemory
from .copies import Copies, add_copy, follow
from .demands import apply_constraints
from .folding import Groups, Tie, fold
from .memory import limit_peak_memory

__all__ = ["Alias", "BuiltProblem", "SharedPlacements", "build_problem", "is_shared"]

SharedPlacements: TypeAlias = Mapping[tuple[int, int], Int8]
"""Placements ``int8[L, D]`` of tensors with several users, by (first node of the group, output)."""

CASTS = "a parameter moves in its small form, its gradient in its exact one"


@dataclass(frozen=True, eq=False)
class Alias:
    """A tensor with several users, redistributed once for all of them.

    Attributes:
        variable: Its variable in the problem.
        placements: ``int8[L, D]``, the placement each of its labels gives the tensor; twice where labels also say
            whether it was moved to be there.
    """

    variable: int
    placements: Int8


@dataclass(frozen=True, eq=False)
class BuiltProblem:
    """A placement problem and what its variables stand for.

    Attributes:
        problem: The problem; one variable a group of nodes, and one an aliased tensor.
        graph: The graph.
        strategies: The strategies of each node.
        groups: ``int64[nodes]``, the first node of each node's group.
        variable: ``int64[nodes]``, the variable of each node.
        aliases: The aliases by (first node of the group, output).
        pricer: Where the prices come from.
        seconds: CPU seconds of ``enumerate``, ``price`` and ``build``.
    """

    problem: PlacementProblem
    graph: OpGraph
    strategies: tuple[Strategies, ...]
    groups: Groups
    variable: npt.NDArray[np.int64]
    aliases: dict[tuple[int, int], Alias]
    pricer: Pricer
    seconds: dict[str, float]

    def through(self, edge: Edge) -> Alias | None:
        """The alias that an edge goes through, or None."""
        if not is_shared(self.graph, edge.producer, edge.output):
            return None
        return self.aliases.get((int(self.groups[edge.producer]), edge.output))


def build_problem(
    graph: OpGraph,
    pricer: Pricer,
    constraints: Constraints | None = None,
    *,
    tie: Tie = "layers",
    space: StrategySpace | None = None,
    groups: Groups | None = None,
    shared: SharedPlacements = MappingProxyType({}),
    name: str = "placement",
) -> BuiltProblem:
    """Build the problem of placing a training step on a mesh.

    The objective is the predicted time in µs: the compute of every node and the redistribution on every real edge,
    copies of repeated layers included. A tensor with several users is redistributed at most once for all of them (its
    alias), and from there on for single users.

    Args:
        graph: The training step.
        pricer: Mesh and cost model.
        constraints: What a person demands.
        tie: See `fold`.
        space: Where strategies are looked up; its memory can be shared by searches on the same mesh.
        groups: What `fold` would find, where it is known already.
        shared: The placements that are offered of a tensor with several users, by (first node of the group, output);
            where it says nothing they are those in which it is produced or used.
        name: Name of the problem.
    """
    start = time.process_time()
    space = space or StrategySpace(pricer.mesh)
    strategies = tuple(space.of(graph, node) for node in graph.nodes)
    enumerated = time.process_time()
    groups = fold(graph, strategies, tie) if groups is None else groups
    builder = ProblemBuilder(name)
    members = Counter(groups.tolist())
    variable = np.zeros(len(graph.nodes), dtype=np.int64)
    for node, first in zip(graph.nodes, groups.tolist(), strict=True):
        if first == node.index:
            costs, labels = pricer.compute(strategies[first]), strategies[first].label_set
            variable[first] = builder.add_variable(node.name, labels, costs, multiplicity=members[first])
    variable = variable[groups]
    constraints = constraints or Constraints()
    peak = constraints.peak_memory
    copies = None if peak is None else Copies(groups)
    aliases = _add_edges(builder, graph, pricer, strategies, groups, variable, shared, copies)
    priced = time.process_time()
    _forbid_moves_at_casts(builder, graph, strategies, groups, variable, aliases)
    apply_constraints(constraints, builder, graph, pricer.mesh, list(strategies), variable)
    if copies is not None and isinstance(peak, PeakMemory):
        limit_peak_memory(peak, builder, graph, pricer, strategies, variable, copies)
    problem = builder.build()
    seconds = {
        "enumerate": enumerated - start,
        "price": priced - enumerated,
        "build": time.process_time() - priced,
    }
    return BuiltProblem(problem, graph, strategies, groups, variable, aliases, pricer, seconds)


def is_shared(graph: OpGraph, node: int, output: int) -> bool:
    """Whether a tensor has several users that may want it elsewhere. A parameter that is cast first has one."""
    return graph.is_shared(node, output)


def _add_edges(
    builder: ProblemBuilder,
    graph: OpGraph,
    pricer: Pricer,
    strategies: tuple[Strategies, ...],
    groups: Groups,
    variable: npt.NDArray[np.int64],
    offered: SharedPlacements,
    copies: Copies | None,
) -> dict[tuple[int, int], Alias]:
    """Add every edge, those of copies of a layer as multiplicity; returns the aliases.

    With ``copies``, an edge goes through a variable for the copy that it may make, kept there.
    """
    among: dict[bool, Counter[tuple[int, int, int, int]]] = {False: Counter(), True: Counter()}
    tensors: Counter[tuple[int, int]] = Counter()
    aliased: dict[tuple[int, int], bool] = {}
    for edge in graph.edges():
        tensor = (edge.producer, edge.output)
        if tensor not in aliased:
            aliased[tensor] = is_shared(graph, *tensor)
            if aliased[tensor]:
                tensors[int(groups[edge.producer]), edge.output] += 1
        key = (int(groups[edge.producer]), edge.output, int(groups[edge.consumer]), edge.position)
        among[aliased[tensor]][key] += 1

    def connect(start: int, produced: tuple[Int8, Int32], key: tuple[int, int, int, int], shared: bool) -> None:
        u, output, v, position = key
        meta, taken, count = _tensor(graph, u, output), strategies[v].input_classes[position], among[shared][key]
        if copies is None or (len(produced[0]) == 1 and np.array_equal(produced[0], taken[0])):
            table = pricer.table(meta, produced, taken)
            builder.add_pairwise(start, int(variable[v]), table, multiplicity=count)
            return
        name = f"{graph.nodes[u].name} to {graph.nodes[v].name} {position}{' from shared' if shared else ''}"
        copy = add_copy(builder, pricer, name, meta, start, produced, taken[0], count)
        follow(builder, copy, int(variable[v]), taken)
        copies.along[shared, u, output, v, position] = copy

    for key in among[False]:
        connect(int(variable[key[0]]), strategies[key[0]].output_classes[key[1]], key, False)
    wanted: dict[tuple[int, int], list[Int8]] = {}
    for u, output, v, position in among[True]:
        wanted.setdefault((u, output), []).append(strategies[v].input_classes[position][0])
    aliases: dict[tuple[int, int], Alias] = {}
    sets: dict[bytes, LabelSet] = {}
    for (u, output), count in tensors.items():
        produced = strategies[u].output_classes[output]
        placements = offered.get((u, output))
        if placements is None:
            placements, _ = classes_of(np.concatenate([produced[0], *wanted[u, output]]))
        meta = _tensor(graph, u, output)
        name = f"{graph.nodes[u].name}.{output} shared" if output else f"{graph.nodes[u].name} shared"
        if copies is not None:
            copy = add_copy(builder, pricer, name, meta, int(variable[u]), produced, placements, count)
            copies.shared[u, output] = copy
            aliases[u, output] = Alias(copy.variable, copy.placements)
            continue
        labels = sets.setdefault(placements.tobytes(), _placed(placements))
        v = builder.add_variable(name, labels, multiplicity=count)
        aliases[u, output] = Alias(v, placements)
        own = (placements, np.arange(len(placements), dtype=np.int32))
        builder.add_pairwise(int(variable[u]), v, pricer.table(meta, produced, own), multiplicity=count)
    for key in among[True]:
        alias = aliases[key[0], key[1]]
        own = (alias.placements, np.arange(len(alias.placements), dtype=np.int32))
        connect(alias.variable, own, key, True)
    return aliases


def _tensor(graph: OpGraph, node: int, output: int) -> TensorMeta:
    meta = graph.nodes[node].outputs[output]
    assert meta is not None  # a graph has no edge from an output that does not exist
    return meta


def _placed(placements: Int8) -> LabelSet:
    return LabelSet.of([codes.format(row) for row in placements.tolist()], placements.astype(np.int32))


def _forbid_moves_at_casts(
    builder: ProblemBuilder,
    graph: OpGraph,
    strategies: tuple[Strategies, ...],
    groups: Groups,
    variable: npt.NDArray[np.int64],
    aliases: dict[tuple[int, int], Alias],
) -> None:
    """What travels is the small form of a parameter, and the exact form of its gradient: the one between its casts."""
    seen: set[tuple[int, int]] = set()
    pairs: list[tuple[int, int, npt.NDArray[np.bool_]]] = []
    waiting = _waiting(graph)
    for edge in graph.edges():
        producer, consumer = graph.nodes[edge.producer], graph.nodes[edge.consumer]
        before = producer.kind == "parameter" and consumer.role == "parameter-cast"
        after = consumer.role == "gradient" and producer.role == "gradient-cast" and _growth(graph, edge.producer) < 0
        early = edge.consumer in waiting
        key = (int(variable[edge.producer]), int(variable[edge.consumer]))
        shared = (int(groups[edge.producer]), edge.output) in aliases
        if not (before or after or early) or key in seen or (shared and not early):
            continue
        seen.add(key)
        given = strategies[edge.producer].outputs[:, edge.output]
        taken = strategies[edge.consumer].inputs[:, edge.position]
        pairs.append((*key, (given[:, None] == taken[None]).all(axis=2)))
    for number, (u, v, allowed) in enumerate(pairs):
        builder.allow_pairs(u, v, allowed, name=f"{CASTS} ({number})")


def _waiting(graph: OpGraph) -> set[int]:
    """The casts that make a gradient exact, and what stands between them and where its parts were computed.

    Views, and sums over the uses of a parameter. What else uses a gradient besides its cast is not held up.
    """
    found: set[int] = set()
    for node in reversed(graph.nodes):
        if node.kind != "op" or node.phase != "backward":
            continue
        if node.role == "gradient-cast":
            if _growth(graph, node.index) > 0:
                found.add(node.index)
        elif is_free(node) or node.op == "aten.add.Tensor":
            users = graph.users[node.index]
            if users and all(edge.consumer in found for edge in users):
                found.add(node.index)
    return found


def _growth(graph: OpGraph, cast: int) -> int:
    """By how many bytes a cast makes an element larger."""
    node = graph.nodes[cast]
    source = graph.nodes[node.inputs[0].node].outputs[node.inputs[0].output]
    target = node.outputs[0]
    return 0 if source is None or target is None else target.itemsize - source.itemsize
