"""Where the time of a plan goes: by phase, kind of collective and mesh dimension, and which collectives will run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from .placed import COLLECTIVES, PlannedEdge, PlannedNode

__all__ = ["Collective", "CostRow", "breakdown", "collectives"]

COMPUTE, TRANSITION = "compute", "transition"


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective that will run.

    Attributes:
        kind: ``all-gather``, ``reduce-scatter``, ``all-reduce`` or ``all-to-all``.
        mesh_dim: Name of the mesh dimension it runs on.
        bytes: As nccl-tests counts them: the whole buffer, the larger side of a gather or scatter.
        node: The node whose tensor moves.
        output: Which of its outputs.
        consumer: The node it moves for; "" when one copy is made for all users.
        position: Which tensor argument of the consumer; -1 for a shared copy.
        phase: ``forward`` or ``backward``: when the consumer runs; a shared copy, when the first of its users does.
        us: Predicted microseconds.
        algorithm: How the cost model expects it to run; "" unknown.
    """

    kind: str
    mesh_dim: str
    bytes: int
    node: str
    output: int
    consumer: str
    position: int
    phase: str
    us: float
    algorithm: str


@dataclass(frozen=True, slots=True)
class CostRow:
    """A part of the objective.

    Attributes:
        phase: ``forward`` or ``backward``.
        kind: ``compute``; a kind of step, see `Step`; or ``transition``: what any change of placement costs besides.
        mesh_dim: Name of the mesh dimension of a step, "" otherwise.
        count: How many there are: operations that take time, steps, or changes of placement.
        bytes: Bytes of the steps, 0 otherwise.
        us: Microseconds.
    """

    phase: str
    kind: str
    mesh_dim: str
    count: int
    bytes: int
    us: float


def phases(nodes: Iterable[PlannedNode], edges: Iterable[PlannedEdge]) -> list[str]:
    """The phase in which each move takes place, in the order of ``edges``."""
    edges = list(edges)
    of = {node.name: node.phase for node in nodes}
    users: dict[tuple[str, int], set[str]] = defaultdict(set)
    for edge in edges:
        if edge.consumer:
            users[edge.producer, edge.output].add(of[edge.consumer])

    def phase(edge: PlannedEdge) -> str:
        if edge.consumer:
            return of[edge.consumer]
        return "forward" if "forward" in users[edge.producer, edge.output] else "backward"

    return [phase(edge) for edge in edges]


def collectives(nodes: Iterable[PlannedNode], edges: Iterable[PlannedEdge]) -> tuple[Collective, ...]:
    """The collectives of all moves, in the order of ``edges`` and of their steps."""
    edges = list(edges)
    return tuple(
        Collective(
            step.kind,
            step.dim,
            step.bytes,
            edge.producer,
            edge.output,
            edge.consumer,
            edge.position,
            phase,
            step.us,
            step.algorithm,
        )
        for edge, phase in zip(edges, phases(nodes, edges), strict=True)
        for step in edge.path
        if step.kind in COLLECTIVES
    )


def breakdown(nodes: Iterable[PlannedNode], edges: Iterable[PlannedEdge]) -> tuple[CostRow, ...]:
    """The objective by phase, kind and mesh dimension; the rows add up to it."""
    nodes, edges = list(nodes), list(edges)
    us: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    moved: dict[tuple[str, str, str], int] = defaultdict(int)
    for node in nodes:
        if node.compute_us:
            us[node.phase, COMPUTE, ""].append(node.compute_us)
    for edge, phase in zip(edges, phases(nodes, edges), strict=True):
        for step in edge.path:
            us[phase, step.kind, step.dim].append(step.us)
            moved[phase, step.kind, step.dim] += step.bytes
        besides = edge.us - math.fsum(step.us for step in edge.path)
        if edge.path and besides:
            us[phase, TRANSITION, ""].append(besides)
    kinds = (COMPUTE, *COLLECTIVES)

    def order(key: tuple[str, str, str]) -> tuple[object, ...]:
        phase, kind, dim = key
        place = len(kinds) + (kind == TRANSITION) if kind not in kinds else kinds.index(kind)
        return phase != "forward", place, kind, dim

    return tuple(CostRow(*key, len(us[key]), moved[key], math.fsum(us[key])) for key in sorted(us, key=order))
