"""``berthage explain`` and ``berthage diff``."""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path
from typing import Any

import click

from berthage import InvalidProblemError
from berthage.cli.common import input_file
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage_torch.commands import words
from berthage_torch.plans.comparing import Difference
from berthage_torch.plans.placed import PlannedNode
from berthage_torch.plans.plan import Plan

__all__ = ["diff", "explain"]


@click.command()
@click.argument("plan_path", metavar="PLAN", type=input_file)
@click.argument("node_name", metavar="[NODE]", required=False)
@click.option("--moves", type=click.IntRange(min=0), default=8, show_default=True, metavar="N", help="Dearest moves.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
def explain(plan_path: Path, node_name: str | None, moves: int, as_json: bool) -> None:
    """Say what a plan does, or how one node or parameter of it is placed and what that costs."""
    plan = Plan.load(plan_path)
    if node_name is None:
        lines, document = words.summary_lines(plan, moves), _summary(plan, moves)
    else:
        node = _node(plan, node_name)
        lines, document = words.node_lines(plan, node), _node_document(plan, node)
    if as_json:
        click.echo(to_json(document), nl=False)
        return
    for line in lines:
        click.echo(line)


@click.command()
@click.argument("first", metavar="PLAN", type=input_file)
@click.argument("second", metavar="PLAN", type=input_file)
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
def diff(first: Path, second: Path, as_json: bool) -> None:
    """Say what a second plan places differently, and what that costs or saves, by node and in total."""
    before, after = Plan.load(first), Plan.load(second)
    difference = before.diff(after)
    if as_json:
        click.echo(to_json(_difference(before, after, difference)), nl=False)
        return
    for sign, path, plan in (("-", first, before), ("+", second, after)):
        mesh = ", ".join(f"{name}={size}" for name, size in plan.mesh.items())
        click.echo(f"{sign} {path}: {plan.model} on {mesh}, {words.us(plan.objective)}, {plan.cost_model[0]}")
    for note in difference.notes:
        click.echo(f"note: {note}")
    elsewhere = len(difference.placed_elsewhere)
    click.echo(f"difference {difference.objective_us:+,.1f} us, {elsewhere} of {len(after.nodes)} nodes lie elsewhere")
    for line in (*words.cost_lines(difference.costs), *words.change_lines(difference.changes)):
        click.echo(line)


def _node(plan: Plan, name: str) -> PlannedNode:
    try:
        return plan.node(name)
    except InvalidProblemError as error:
        known = [text for node in plan.nodes for text in (node.name, node.fqn) if text]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InvalidProblemError(f"{error}{hint}") from None


def _head(plan: Plan) -> dict[str, Any]:
    return {
        "model": plan.model,
        "mesh": plan.mesh,
        "cost_model": plan.cost_model[0],
        "solver": plan.solver,
        "termination": plan.termination,
        "objective": plan.objective,
        "bound": plan.bound,
        "gap": plan.relative_gap,
        "placement_hash": plan.placement_hash(),
    }


def _summary(plan: Plan, moves: int) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        **_head(plan),
        "compute_us": plan.compute_us,
        "communication_us": plan.communication_us,
        "nodes": len(plan.nodes),
        "parameters": [row._asdict() for row in words.parameters(plan)],
        "dearest_moves": [row._asdict() for row in words.dearest_moves(plan, moves)],
    }


def _node_document(plan: Plan, node: PlannedNode) -> dict[str, Any]:
    incoming, outgoing = words.edges_of(plan, node)
    return {
        "format_version": FORMAT_VERSION,
        **dataclasses.asdict(node),
        "incoming": words.edges_document(incoming),
        "outgoing": words.edges_document(outgoing),
    }


def _difference(before: Plan, after: Plan, difference: Difference) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "before": _head(before),
        "after": _head(after),
        "objective_difference": difference.objective_us,
        "notes": difference.notes,
        "costs": [dataclasses.asdict(row) for row in difference.costs],
        "changes": [
            {
                "name": change.name,
                "before": None if change.before is None else _placements(change.before),
                "after": None if change.after is None else _placements(change.after),
                "compute_us": change.compute_us,
                "moves_us": change.moves_us,
            }
            for change in difference.changes
        ],
    }


def _placements(node: PlannedNode) -> dict[str, Any]:
    return {"inputs": node.inputs, "outputs": node.outputs}
