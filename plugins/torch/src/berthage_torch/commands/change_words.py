"""Two plans beside each other in words: what holds for copies of a layer is said once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from berthage.cli import words as core_words
from berthage_torch.commands.words import mesh, over_layers, us
from berthage_torch.plans.comparing import Change, CostChange, Difference
from berthage_torch.plans.placed import PlannedNode

if TYPE_CHECKING:
    from berthage_torch.plans.repricing import Repriced

__all__ = ["change_lines", "cost_lines", "difference_lines", "repriced_lines"]


def difference_lines(difference: Difference, nodes: int) -> Iterator[str]:
    """What a second plan of so many nodes does otherwise."""
    for note in difference.notes:
        yield f"note: {note}"
    elsewhere = len(difference.placed_elsewhere)
    yield f"difference {difference.objective_us:+,.1f} us, {elsewhere} of {nodes} nodes lie elsewhere"
    yield from cost_lines(difference.costs)
    yield from change_lines(difference.changes)


def repriced_lines(found: Repriced) -> Iterator[str]:
    """What a plan costs at other shapes or prices, or why it is impossible there."""
    before, after = found.before, found.plan
    yield f"- {before.model} on {mesh(before)}, {us(before.objective)}, {before.cost_model[0]}"
    if after is None or found.difference is None:
        count = core_words.count(len(found.misfits), "placement")
        yield f"impossible at these shapes: {count}; search again there"
        reasons: dict[tuple[str, str, str], int] = defaultdict(int)
        for misfit in found.misfits:
            reasons[over_layers(misfit.node), misfit.placement, misfit.why] += 1
        for (node, placement, why), copies in reasons.items():
            yield f"  {node}{f' x {copies}' if copies > 1 else ''}{f' as {placement}' if placement else ''}: {why}"
        return
    yield f"+ {after.model} on {mesh(after)}, {us(after.objective)}, {after.cost_model[0]}"
    for note in found.difference.notes:
        yield f"note: {note}"
    for name in found.broken:
        yield f"demand not met there: {name}"
    yield f"difference {found.difference.objective_us:+,.1f} us, all placements kept"
    yield from cost_lines(found.difference.costs)


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
