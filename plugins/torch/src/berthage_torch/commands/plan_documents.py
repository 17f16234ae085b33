"""What the commands on plans say, as JSON."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from berthage.cli.strict_json import FORMAT_VERSION
from berthage_torch.commands import words
from berthage_torch.plans.comparing import Change, Difference
from berthage_torch.plans.placed import PlannedNode
from berthage_torch.plans.plan import Plan

if TYPE_CHECKING:
    from berthage_torch.plans.explaining import Alternative, Explanation
    from berthage_torch.plans.repricing import Repriced

__all__ = ["difference", "explained", "repriced", "summary"]


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "model": plan.model,
        "mesh": plan.mesh,
        "cost_model": plan.cost_model[0],
        "inputs": [dataclasses.asdict(each) for each in plan.settings.inputs],
        "solver": plan.solver,
        "termination": plan.termination,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.relative_gap,
        "placement_hash": plan.placement_hash(),
    }


def summary(plan: Plan, moves: int) -> dict[str, Any]:
    """A plan in short."""
    return {
        "format_version": FORMAT_VERSION,
        **_head(plan),
        "compute_us": plan.compute_us,
        "communication_us": plan.communication_us,
        "costs": [dataclasses.asdict(row) for row in plan.costs()],
        "nodes": len(plan.nodes),
        "parameters": [row._asdict() for row in words.parameters(plan)],
        "dearest_moves": [row._asdict() for row in words.dearest_moves(plan, moves)],
    }


def explained(told: Explanation, unknown: str) -> dict[str, Any]:
    """A node, and what else it could do; ``unknown`` is why that is not known."""
    return {
        "format_version": FORMAT_VERSION,
        **dataclasses.asdict(told.node),
        "strategy": told.strategy,
        "copies": told.copies,
        "incoming": words.edges_document(told.arguments),
        "shared": words.edges_document(told.shared),
        "outgoing": words.edges_document(told.outgoing),
        "choices": told.choices,
        "runner_up": None if told.runner_up is None else _alternative(told.runner_up),
        "against": [_alternative(each) for each in told.against],
        "unknown": unknown or None,
    }


def _alternative(other: Alternative) -> dict[str, Any]:
    return {
        "asked": other.asked or None,
        "strategy": other.strategy,
        "alone": {"strategy": other.alone_strategy, "us": other.alone_us, "breaks": other.broken},
        "downstream": {
            "us": other.downstream_us,
            "least_us": other.least_us,
            "termination": other.termination,
            "reason": other.reason or None,
            "placement_hash": None if other.plan is None else other.plan.placement_hash(),
            "changes": [_change(change) for change in other.changes],
        },
    }


def difference(before: Plan, after: Plan, found: Difference) -> dict[str, Any]:
    """Two plans beside each other."""
    return {
        "format_version": FORMAT_VERSION,
        "before": _head(before),
        "after": _head(after),
        "objective_difference": found.objective_us,
        "notes": found.notes,
        "costs": [dataclasses.asdict(row) for row in found.costs],
        "changes": [_change(change) for change in found.changes],
    }


def repriced(found: Repriced) -> dict[str, Any]:
    """A plan at other shapes or prices."""
    new = found.difference
    return {
        "format_version": FORMAT_VERSION,
        "before": _head(found.before),
        "after": None if found.plan is None else _head(found.plan),
        "objective_difference": None if new is None else new.objective_us,
        "notes": [] if new is None else new.notes,
        "costs": [] if new is None else [dataclasses.asdict(row) for row in new.costs],
        "impossible": [dataclasses.asdict(each) for each in found.misfits],
        "broken": found.broken,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "before": None if change.before is None else _placements(change.before),
        "after": None if change.after is None else _placements(change.after),
        "compute_us": change.compute_us,
        "moves_us": change.moves_us,
    }


def _placements(node: PlannedNode) -> dict[str, Any]:
    return {"inputs": node.inputs, "outputs": node.outputs}
