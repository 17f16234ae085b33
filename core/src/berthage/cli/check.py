"""``berthage check``."""

from __future__ import annotations

from pathlib import Path

import click

from berthage.cli import words
from berthage.cli.base import ExitCode, registry_of
from berthage.cli.common import Reading, input_file, reading_options
from berthage.cli.documents import budget_document
from berthage.cli.solutions import read_solution
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage.evaluation import evaluate


@click.command()
@click.argument("file", type=input_file)
@click.argument("solution", type=input_file)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def check(ctx: click.Context, /, file: Path, solution: Path, reading: Reading, as_json: bool) -> None:
    """Say what a solution costs and violates.

    Evaluates SOLUTION on the problem FILE: its exact cost, budget use, and every violation by name.

    SOLUTION is a file that `berthage solve` wrote, one in the problem format's own way, or a list
    of label indices. The exit code is 0 for a valid solution and 1 when something is violated.
    """
    opened = reading.open(registry_of(ctx), file)
    problem = opened.problem
    found = evaluate(problem, read_solution(solution, problem, opened.format))
    if as_json:
        document = {
            "format_version": FORMAT_VERSION,
            "problem": problem.name,
            "feasible": found.feasible,
            "objective": found.objective,
            "budgets": budget_document(found),
            "violations": [{"kind": v.kind, "name": v.name, "detail": v.detail} for v in found.violations],
        }
        click.echo(to_json(document), nl=False)
    else:
        click.echo(words.problem_line(problem))
        click.echo(f"valid      {'yes' if found.feasible else 'no'}")
        click.echo(f"cost       {words.number(found.objective)}")
        for line in words.budget_lines(found):
            click.echo(line)
        for violation in found.violations:
            click.echo(f"violation  {violation.kind} {violation.name}: {violation.detail}")
    ctx.exit(ExitCode.SOLVED if found.feasible else ExitCode.ERROR)
