"""Plans in words: what holds for copies of a layer is said once."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berthage.cli import words
from berthage_torch.plans.comparing import Change, CostChange
from berthage_torch.plans.placed import PlannedEdge, PlannedNode
from berthage_torch.plans.plan import Plan

__all__ = [
    "change_lines",
    "cost_lines",
    "dearest_moves",
    "edges_document",
    "edges_of",
    "node_lines",
    "over_layers",
    "parameters",
    "summary_lines",
    "us",
]

_NUMBER = re.compile(r"(?<![^.])\d+(?=[./]|$)")


class ParameterRow(NamedTuple):
    """Parameters of the same name but for the layer, placed alike."""

    name: str
    copies: int
    placement: str


class MoveRow(NamedTuple):
    """Moves between the same nodes but for the layer, alike in what they do."""

    producer: str
    consumer: str
    before: str
    after: str
    collectives: str
    copies: int
    us: float


def over_layers(name: str) -> str:
    """A name with a star for the number of the layer: ``layers.*.attention.wq/mm``."""
    return _NUMBER.sub("*", name)


def us(value: float) -> str:
    """Microseconds."""
    return f"{value:,.1f} us"


def parameters(plan: Plan) -> list[ParameterRow]:
    """The parameters by name and placement."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for node in plan.nodes:
        if node.op == "parameter":
            counts[over_layers(node.fqn or node.name), node.outputs[0]] += 1
    return [ParameterRow(name, count, placement) for (name, placement), count in counts.items()]


def dearest_moves(plan: Plan, most: int) -> list[MoveRow]:
    """The moves that take longest, all copies of a layer together."""
    rows: dict[tuple[str, str, str, str, str], list[float]] = defaultdict(list)
    for edge in plan.edges:
        if edge.us > 0.0:
            key = (over_layers(edge.producer), over_layers(edge.consumer), edge.before, edge.after, collectives(edge))
            rows[key].append(edge.us)
    found = [MoveRow(*key, len(each), sum(each)) for key, each in rows.items()]
    return sorted(found, key=lambda row: (-row.us, row))[:most]


def collectives(edge: PlannedEdge) -> str:
    """The steps of a move."""
    return ", ".join(f"{step.kind} on {step.dim}" for step in edge.path)


def summary_lines(plan: Plan, moves: int = 8) -> Iterator[str]:
    """A plan in some lines: how good it is, where its time goes, parameters, and the dearest moves."""
    mesh = ", ".join(f"{name}={size}" for name, size in plan.mesh.items())
    moved = sum(edge.us > 0.0 for edge in plan.edges)
    yield f"plan       {plan.model} on {mesh}, prices of {plan.cost_model[0]}"
    yield f"objective  {us(plan.objective)} a step"
    yield f"bound      {us(plan.bound) if plan.bound > -math.inf else '-'}, gap {words.gap(plan.relative_gap)}"
    yield f"proof      {plan.termination.replace('_', ' ')}, by {plan.solver}"
    yield f"compute    {us(plan.compute_us)}"
    yield f"moves      {us(plan.communication_us)} in {words.count(moved, 'move')}"
    yield f"hash       {plan.placement_hash()}"
    rows = parameters(plan)
    if rows:
        width = max(len(row.name) for row in rows)
        yield ""
        yield f"{'parameter':<{width}}  {'copies':>6}  placement ({', '.join(plan.mesh)})"
        for row in rows:
            yield f"{row.name:<{width}}  {row.copies:>6}  {row.placement}"
    dearest = dearest_moves(plan, moves)
    if dearest:
        yield ""
        yield "dearest moves"
    for move in dearest:
        times = f" x {move.copies}" if move.copies > 1 else ""
        yield f"  {move.us:>12,.1f} us{times:<5}  {move.producer} -> {move.consumer or 'its users'}"
        yield f"{'':>17}       {move.before} -> {move.after}: {move.collectives or 'no collective'}"


def node_lines(plan: Plan, node: PlannedNode) -> Iterator[str]:
    """A node: its placements and price, and how tensors come to it and leave it."""
    yield f"node       {node.name}"
    yield f"operation  {node.op}, {node.phase}{f', in {node.path}' if node.path else ''}"
    yield f"inputs     {', '.join(node.inputs) or '-'}"
    yield f"outputs    {', '.join(node.outputs) or '-'}"
    yield f"compute    {us(node.compute_us)}"
    incoming, outgoing = edges_of(plan, node)
    shared = {(edge.producer, edge.output): edge for edge in plan.edges if not edge.consumer}
    yield f"incoming   {us(sum(edge.us for edge in incoming))}"
    for edge in incoming:
        copy = shared.get((edge.producer, edge.output))
        through = f", through its copy for all users ({us(copy.us)})" if copy is not None else ""
        yield from _edge_lines(edge, f"argument {edge.position} from {edge.producer}{_output(edge)}{through}")
    yield f"outgoing   {us(sum(edge.us for edge in outgoing))}"
    for edge in outgoing:
        to = f"{edge.consumer}, argument {edge.position}" if edge.consumer else "one copy for all its users"
        yield from _edge_lines(edge, f"to {to}{_output(edge)}")


def edges_document(edges: Iterable[PlannedEdge]) -> list[dict[str, object]]:
    """Moves as JSON has them."""
    return [
        {
            "producer": edge.producer,
            "output": edge.output,
            "consumer": edge.consumer or None,
            "position": edge.position if edge.consumer else None,
            "before": edge.before,
            "after": edge.after,
            "us": edge.us,
            "path": [
                {
                    "kind": step.kind,
                    "mesh_dimension": step.dim,
                    "after": step.after,
                    "bytes": step.bytes,
                    "us": step.us,
                    "algorithm": step.algorithm or None,
                }
                for step in edge.path
            ],
        }
        for edge in edges
    ]


def _output(edge: PlannedEdge) -> str:
    return f" (output {edge.output})" if edge.output else ""


def edges_of(plan: Plan, node: PlannedNode) -> tuple[list[PlannedEdge], list[PlannedEdge]]:
    """What comes to a node and what leaves it."""
    incoming = [edge for edge in plan.edges if edge.consumer == node.name]
    return incoming, [edge for edge in plan.edges if edge.producer == node.name]


def _edge_lines(edge: PlannedEdge, where: str) -> Iterator[str]:
    change = edge.before if edge.before == edge.after else f"{edge.before} -> {edge.after}, {us(edge.us)}"
    yield f"  {where}: {change}"
    for step in edge.path:
        by = f", {step.algorithm}" if step.algorithm else ""
        yield f"      {step.kind} on {step.dim} -> {step.after}, {step.bytes:,} bytes, {us(step.us)}{by}"


def cost_lines(costs: Iterable[CostChange]) -> Iterator[str]:
    """The parts of two objectives that differ."""
    for row in costs:
        if row.before != row.after:
            on = f" on {row.mesh_dim}" if row.mesh_dim else ""
            change = f"{row.before:,.1f} -> {us(row.after)} ({row.after - row.before:+,.1f})"
            yield f"  {row.phase} {row.kind}{on}: {change}"


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    """Nodes of two plans that are placed differently, with what they cost more; copies of a layer once."""
    counts: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for change in changes:
        if change.placed_elsewhere:
            key = (over_layers(change.name), _placed(change.before), _placed(change.after))
            counts[key].append(change.compute_us + change.moves_us)
    for (name, before, after), costs in counts.items():
        times = f" x {len(costs)}" if len(costs) > 1 else ""
        yield f"{name}{times}: {math.fsum(costs):+,.1f} us"
        yield f"  - {before}"
        yield f"  + {after}"


def _placed(node: PlannedNode | None) -> str:
    if node is None:
        return "not there"
    given = ", ".join(node.outputs)
    return f"{', '.join(node.inputs)} -> {given}" if node.inputs else given
