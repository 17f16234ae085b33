"""``berthage inspect``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from berthage.cli import words
from berthage.cli.base import registry_of
from berthage.cli.common import Reading, input_file, reading_options
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage.problem import PlacementProblem


@click.command()
@click.argument("file", type=input_file)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def inspect(ctx: click.Context, /, file: Path, reading: Reading, as_json: bool) -> None:
    """Show what is in a problem file.

    Its sizes, its budgets and its named constraints.
    """
    opened = reading.open(registry_of(ctx), file)
    problem = opened.problem
    document = {
        "format_version": FORMAT_VERSION,
        "problem": problem.name,
        "format": opened.format_name,
        "digest": problem.digest,
        "constant": problem.constant,
        "stats": problem.stats().as_dict(),
        "budgets": budget_rows(problem),
        "constraints": problem.constraint_names,
    }
    if as_json:
        click.echo(to_json(document), nl=False)
        return
    click.echo(words.problem_line(problem))
    click.echo(f"format     {document['format']}")
    click.echo(f"digest     {problem.digest}")
    for key, value in problem.stats().as_dict().items():
        shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        click.echo(f"{key.replace('_', ' '):<18} {shown}")
    for row in budget_rows(problem):
        soft = "" if row["price"] is None else f", soft at {words.number(row['price'])} a unit"
        least = f"at least {words.number(row['lower'])}, " if math.isfinite(row["lower"]) else ""
        most = f"at most {words.number(row['limit'])}" if math.isfinite(row["limit"]) else "no upper limit"
        click.echo(f"{row['kind']} budget {row['name']}: {least}{most} over {row['variables']} variables{soft}")
    if problem.constraint_names:
        click.echo(f"constraints        {words.some(problem.constraint_names)}")


def budget_rows(problem: PlacementProblem) -> list[dict[str, Any]]:
    """The budgets of a problem, one mapping each."""
    linear = [
        {
            "name": b.name,
            "kind": "linear",
            "variables": len(b.variables),
            "lower": b.lower,
            "limit": b.upper,
            "price": b.price,
        }
        for b in problem.linear_budgets
    ]
    interval = [
        {
            "name": b.name,
            "kind": "interval",
            "variables": len({*b.variables.tolist()}),
            "lower": -math.inf,
            "limit": b.limit,
            "price": b.price,
        }
        for b in problem.interval_budgets
    ]
    return [*linear, *interval]
