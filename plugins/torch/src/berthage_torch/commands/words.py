"""Plans in words: what holds for copies of a layer is said once."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from berthage.cli import words
from berthage_torch.plans.placed import PlannedEdge
from berthage_torch.plans.plan import Plan
from berthage_torch.searching.seed_report import SeedReport

__all__ = ["dearest_moves", "edges_document", "mesh", "over_layers", "parameters", "seed_lines", "summary_lines", "us"]

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


def mesh(plan: Plan) -> str:
    """Its mesh, ``dp=8, tp=8``."""
    return ", ".join(f"{name}={size}" for name, size in plan.mesh.items())


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
    moved = sum(edge.us > 0.0 for edge in plan.edges)
    yield f"plan       {plan.model} on {mesh(plan)}, prices of {plan.cost_model[0]}"
    yield f"objective  {us(plan.objective)} a step"
    yield f"bound      {us(plan.bound) if plan.bound > -math.inf else '-'}, gap {words.gap(plan.relative_gap)}"
    yield f"proof      {plan.termination.replace('_', ' ')}, by {plan.solver}"
    yield f"compute    {us(plan.compute_us)}"
    yield f"moves      {us(plan.communication_us)} in {words.count(moved, 'move')}"
    yield from _kind_lines(plan)
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


def _kind_lines(plan: Plan) -> Iterator[str]:
    """What the moves consist of, by kind and mesh dimension."""
    kinds: dict[str, dict[str, float]] = defaultdict(dict)
    counts: dict[str, int] = defaultdict(int)
    for row in plan.costs():
        if row.kind != "compute":
            name = f"{row.kind} on {row.mesh_dim}" if row.mesh_dim else row.kind
            kinds[name][row.phase] = row.us
            counts[name] += row.count
    width = max(map(len, kinds), default=0)
    for name, phases in kinds.items():
        split = ", ".join(f"{phase} {value:,.1f}" for phase, value in phases.items() if phase)
        total = us(math.fsum(phases.values()))
        yield f"           {name:<{width}}  {counts[name]:>5} x  {total:>14}{f' ({split})' if split else ''}"


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


def seed_lines(report: SeedReport) -> Iterator[str]:
    """What was searched near a seed, and what is known of the rest."""
    cost = "breaks a demand" if report.objective is None else us(report.objective)
    yield f"seed       {cost}, from {words.some(tuple(report.dimensions))} each alone"
    if report.ball is None:
        yield "searched   everything, from the seed" if report.mode == "warm" else "searched   everything in the end"
        return
    wider = f" ({report.asked} held nothing feasible)" if report.radius != report.asked else ""
    yield (
        f"searched   within distance {report.radius}{wider}: {report.labels:,} labels, "
        f"{report.coverage:.1%} of all combinations; gap there {words.gap(report.ball.relative_gap)}"
    )
    if math.isfinite(report.lost_at_most) and report.ball.objective:
        share = report.lost_at_most / float(report.ball.objective)
        yield f"beyond     not more than {us(report.lost_at_most)} ({share:.2%}) can be gained outside"
    yield "           a proof of everything: --seed-radius 0, or a closer bound: --seed-bound trws"
