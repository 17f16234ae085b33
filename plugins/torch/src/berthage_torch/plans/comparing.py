"""Two plans beside each other: what lies elsewhere, and what that costs or saves, node by node and in total."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from berthage import InvalidProblemError

from .costs import CostRow
from .placed import PlannedNode

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["Change", "CostChange", "Difference", "compare"]


@dataclass(frozen=True, slots=True)
class Change:
    """A node that two plans place or price differently (None where a plan does not have it).

    Attributes:
        name: Its name.
        before: The node in the first plan.
        after: The node in the second.
        compute_us: What its compute costs more in the second, microseconds.
        moves_us: What moving its arguments to it, and its outputs to copies that users share, costs more.
    """

    name: str
    before: PlannedNode | None
    after: PlannedNode | None
    compute_us: float = 0.0
    moves_us: float = 0.0

    @property
    def placed_elsewhere(self) -> bool:
        """Whether its placements differ, not only its costs."""
        a, b = self.before, self.after
        return a is None or b is None or (a.inputs, a.outputs) != (b.inputs, b.outputs)


@dataclass(frozen=True, slots=True)
class CostChange:
    """A part of the objective in both plans, microseconds.

    Attributes:
        phase: ``forward`` or ``backward``.
        kind: As in `CostRow`.
        mesh_dim: As in `CostRow`.
        before: In the first plan.
        after: In the second.
    """

    phase: str
    kind: str
    mesh_dim: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What a second plan does otherwise than a first.

    Attributes:
        changes: The nodes that are placed or priced differently, in order; what they cost more adds up to
            ``objective_us``.
        costs: Every part of both objectives.
        objective_us: What the second costs more, microseconds.
        notes: What makes the two hard to compare: another model, mesh, cost model or shapes.
    """

    changes: tuple[Change, ...]
    costs: tuple[CostChange, ...]
    objective_us: float
    notes: tuple[str, ...]

    @property
    def placed_elsewhere(self) -> tuple[Change, ...]:
        """The nodes whose placements differ, and those only one plan has."""
        return tuple(change for change in self.changes if change.placed_elsewhere)


def compare(first: Plan, second: Plan) -> Difference:
    """Compare two plans.

    Raises:
        InvalidProblemError: They are of models that have nothing in common.
    """
    mine = {node.name: node for node in first.nodes}
    theirs = {node.name: node for node in second.nodes}
    if not mine.keys() & theirs.keys():
        raise InvalidProblemError(
            f"the plans are of different models, {first.model} and {second.model}, that have no node in common"
        )
    moved = [_moves(plan) for plan in (first, second)]
    changes = []
    for name in dict.fromkeys((*mine, *theirs)):
        a, b = mine.get(name), theirs.get(name)
        compute = (b.compute_us if b else 0.0) - (a.compute_us if a else 0.0)
        change = Change(name, a, b, compute, moved[1].get(name, 0.0) - moved[0].get(name, 0.0))
        if change.placed_elsewhere or change.compute_us or change.moves_us:
            changes.append(change)
    return Difference(
        tuple(changes),
        cost_changes(first.costs(), second.costs()),
        second.objective - first.objective,
        tuple(_notes(first, second, mine.keys() ^ theirs.keys())),
    )


def cost_changes(before: tuple[CostRow, ...], after: tuple[CostRow, ...]) -> tuple[CostChange, ...]:
    """The parts of two objectives beside each other."""
    sides = [{(row.phase, row.kind, row.mesh_dim): row.us for row in rows} for rows in (before, after)]
    return tuple(
        CostChange(*key, sides[0].get(key, 0.0), sides[1].get(key, 0.0))
        for key in dict.fromkeys((*sides[0], *sides[1]))
    )


def _moves(plan: Plan) -> dict[str, float]:
    """Microseconds of moves by the node that wants them: the consumer, or the producer of a shared copy."""
    found: dict[str, list[float]] = defaultdict(list)
    for edge in plan.edges:
        found[edge.consumer or edge.producer].append(edge.us)
    return {name: math.fsum(us) for name, us in found.items()}


def _notes(first: Plan, second: Plan, alone: set[str]) -> list[str]:
    notes = []
    if first.model != second.model:
        notes.append(f"different models: {first.model} and {second.model}")
    if alone:
        names = ", ".join(sorted(alone)[:3])
        more = ", …" if len(alone) > 3 else ""
        notes.append(f"{len(alone)} nodes are in one of the plans only: {names}{more}")
    if dict(first.mesh) != dict(second.mesh) or tuple(first.mesh) != tuple(second.mesh):
        meshes = [", ".join(f"{name}={size}" for name, size in plan.mesh.items()) for plan in (first, second)]
        notes.append(f"different meshes: {meshes[0]} and {meshes[1]}; placements are compared as written")
    if first.cost_model != second.cost_model:
        names = f"{first.cost_model[0]} and {second.cost_model[0]}"
        same = " (of the same name, with other content)" if first.cost_model[0] == second.cost_model[0] else ""
        notes.append(f"different cost models: {names}{same}")
    for a, b in zip(first.settings.inputs, second.settings.inputs, strict=False):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            notes.append(f"different inputs: {a.name} is {a.dtype} {a.shape} and {b.dtype} {b.shape}")
    theirs = {b.name: b for b in second.settings.parameters}
    others = [(a, theirs[a.name]) for a in first.settings.parameters if theirs.get(a.name, a) != a]
    if others:
        a, b = others[0]
        more = f", and {len(others) - 1} more" if len(others) > 1 else ""
        notes.append(f"different parameters: {a.name} is {a.dtype} {a.shape} and {b.dtype} {b.shape}{more}")
    return notes
