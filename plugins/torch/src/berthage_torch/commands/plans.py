"""``berthage explain``, ``berthage diff`` and ``berthage reprice``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from berthage import InvalidProblemError
from berthage.cli.base import ExitCode, registry_of
from berthage.cli.chatter import stdout_to_stderr
from berthage.cli.common import KeyValue, input_file, output_file, pairs_to_mapping
from berthage.cli.strict_json import to_json
from berthage_torch.commands import plan_documents as documents
from berthage_torch.commands import words
from berthage_torch.commands.change_words import difference_lines, repriced_lines
from berthage_torch.commands.node_words import explanation_lines
from berthage_torch.commands.telling import progress, spoken_warnings
from berthage_torch.plans.placed import PlannedNode
from berthage_torch.plans.plan import Plan

__all__ = ["diff", "explain", "reprice"]


def _model_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say how the model of a plan is made again."""
    options = (
        click.option(
            "--model",
            "model_name",
            metavar="NAME|MODULE:FUNCTION",
            help="The plan's model, where the plan cannot say or its code is not to run unasked.",
        ),
        click.option(
            "--size",
            "sizes",
            type=KeyValue(),
            multiple=True,
            metavar="K=V",
            help="A size of the model that differs from the plan's; repeatable.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("plan_path", metavar="PLAN", type=input_file)
@click.argument("node_name", metavar="[NODE]", required=False)
@click.option(
    "--against",
    multiple=True,
    metavar="PLACEMENT",
    help="What another placement of the node, S(0)R, or a whole strategy would cost; repeatable.",
)
@click.option("--brief", is_flag=True, help="Only what the plan says itself: no runner-up, nothing is traced.")
@click.option("--time-limit", type=float, metavar="S", help="Wall seconds for each plan that is searched.")
@_model_options
@click.option("--moves", type=click.IntRange(min=0), default=8, show_default=True, metavar="N", help="Dearest moves.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
@click.pass_context
def explain(
    ctx: click.Context,
    /,
    plan_path: Path,
    node_name: str | None,
    against: tuple[str, ...],
    brief: bool,
    time_limit: float | None,
    model_name: str | None,
    sizes: tuple[tuple[str, str], ...],
    moves: int,
    as_json: bool,
) -> None:
    """Say what a plan does, or how one node or parameter of it is placed, what that costs and what else could be.

    With a node the problem is made again, to find the best plan that places it otherwise. Differences are of all copies
    of its layer together: alone, with all else kept; downstream, with all else free to move.
    """
    plan = Plan.load(plan_path)
    if node_name is None:
        if against:
            raise click.UsageError("--against needs a NODE")
        lines, document = words.summary_lines(plan, moves), documents.summary(plan, moves)
    else:
        node = _node(plan, node_name)
        if brief and against:
            raise click.UsageError("--brief and --against exclude each other")
        explained = plan.explain(node.name, runner_up=False)
        unknown = ""
        if not brief:
            try:
                with stdout_to_stderr(), spoken_warnings(), progress() as tell:
                    tell("model")
                    explained = plan.explain(
                        node.name,
                        against=against,
                        time_limit=time_limit,
                        registry=registry_of(ctx),
                        **_again(plan, model_name, sizes),
                    )
            except InvalidProblemError as error:
                if against or model_name or sizes:
                    raise
                unknown = str(error)
        lines, document = explanation_lines(explained, unknown), documents.explained(explained, unknown)
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
        click.echo(to_json(documents.difference(before, after, difference)), nl=False)
        return
    for sign, path, plan in (("-", first, before), ("+", second, after)):
        click.echo(
            f"{sign} {path}: {plan.model} on {words.mesh(plan)}, {words.us(plan.objective)}, {plan.cost_model[0]}"
        )
    for line in difference_lines(difference, len(after.nodes)):
        click.echo(line)


@click.command()
@click.argument("plan_path", metavar="PLAN", type=input_file)
@click.option("--cost-model", metavar="NAME|FILE", help="Where prices come from. [default: the plan's]")
@_model_options
@click.option("--plan", "out", type=output_file, metavar="OUT", help="Write the plan with its new costs.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
@click.pass_context
def reprice(
    ctx: click.Context,
    /,
    plan_path: Path,
    cost_model: str | None,
    model_name: str | None,
    sizes: tuple[tuple[str, str], ...],
    out: Path | None,
    as_json: bool,
) -> None:
    """Price a plan again at other shapes or by another cost model. Its placements are kept.

    Ends with 1 when some placements are impossible at the new shapes, or demands are not met there.
    """
    plan = Plan.load(plan_path)
    with stdout_to_stderr(), spoken_warnings(), progress() as tell:
        tell("model")
        again = _again(plan, model_name, sizes)
        tell("trace and price")
        found = plan.reprice(cost_model=cost_model, registry=registry_of(ctx), **again)
    if out is not None and found.plan is not None:
        found.plan.save(out)
    if as_json:
        click.echo(to_json(documents.repriced(found)), nl=False)
    else:
        for line in repriced_lines(found):
            click.echo(line)
    ctx.exit(ExitCode.ERROR if found.plan is None or found.broken else ExitCode.SOLVED)


def _again(plan: Plan, name: str | None, sizes: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The model of a plan; what that needs is imported when it is needed."""
    from berthage_torch.commands.models import again

    return again(plan, name, pairs_to_mapping(sizes, "--size"))


def _node(plan: Plan, name: str) -> PlannedNode:
    try:
        return plan.node(name)
    except InvalidProblemError as error:
        known = [text for node in plan.nodes for text in (node.name, node.fqn) if text]
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InvalidProblemError(f"{error}{hint}") from None
