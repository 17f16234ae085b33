"""``berthage solve``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from berthage.cli import words
from berthage.cli.base import exit_code, registry_of
from berthage.cli.chatter import stdout_to_stderr
from berthage.cli.common import (
    Effort,
    KeyValue,
    Opened,
    Reading,
    effort_options,
    input_file,
    output_file,
    output_file_or_stdout,
    pairs_to_mapping,
    reading_options,
)
from berthage.cli.documents import result_document, seeded_document, write_text
from berthage.cli.live import live_line
from berthage.cli.solutions import read_solution, write_solution
from berthage.cli.strict_json import to_json
from berthage.evaluation import evaluate
from berthage.registry import build_options
from berthage.seeding import SeededResult, solve_seeded
from berthage.solving.results import SolveResult
from berthage.solving.solve import solve as run


@click.command()
@click.argument("file", type=input_file)
@click.option("--solver", "solver_name", required=True, metavar="NAME", help="See `berthage solvers`.")
@effort_options
@click.option(
    "--option",
    "options",
    type=KeyValue(),
    multiple=True,
    metavar="K=V",
    help="An option of the solver (see `berthage solvers NAME`); repeatable.",
)
@click.option("--certify", metavar="NAME", help="Let this solver prove a bound for what was found, e.g. lp.")
@click.option("--seeder", metavar="NAME", help="Start at a seed that this proposes, e.g. split-dim.")
@click.option(
    "--seed-radius",
    type=click.IntRange(min=0),
    metavar="N",
    help="Search only labels at most N coordinates from the seed. [default: all labels]",
)
@reading_options
@click.option("--warm-start", type=input_file, metavar="FILE", help="A solution to start from.")
@click.option(
    "--json",
    "json_path",
    type=output_file_or_stdout,
    metavar="OUT",
    help="Write the result as JSON; `-` for standard output.",
)
@click.option("--solution", "solution_path", type=output_file, metavar="OUT", help="Write the solution.")
@click.pass_context
def solve(
    ctx: click.Context,
    /,
    file: Path,
    solver_name: str,
    effort: Effort,
    options: tuple[tuple[str, str], ...],
    certify: str | None,
    seeder: str | None,
    seed_radius: int | None,
    reading: Reading,
    warm_start: Path | None,
    json_path: Path | None,
    solution_path: Path | None,
) -> None:
    """Solve a problem.

    Ctrl-C stops the search; the best solution found so far is printed and written all the same.
    """
    registry = registry_of(ctx)
    if seeder is None and seed_radius is not None:
        raise click.UsageError("--seed-radius needs --seeder NAME, e.g. split-dim")
    if seeder is not None:
        registry.seeder(seeder)
    # A misspelt solver or option is told before a large file is read.
    solver_options = build_options(registry.solver(solver_name), pairs_to_mapping(options, "--option"))
    opened = reading.open(registry, file)
    params = effort.params
    if warm_start is not None:
        params = replace(params, warm_start=read_solution(warm_start, opened.problem, opened.format))
    with stdout_to_stderr(), live_line(solver_name) as observer:
        how: dict[str, Any] = {
            "params": replace(params, observer=observer),
            "options": solver_options,
            "presolve": effort.presolve,
            "certify": certify,
            "registry": registry,
        }
        seeded: SeededResult | None = None
        if seeder is not None:
            seeded = solve_seeded(opened.problem, solver_name, seeder=seeder, radius=seed_radius, **how)
        result = run(opened.problem, solver_name, **how) if seeded is None else seeded.result
    _report(opened, result, reading, json_path, seeded)
    if solution_path is not None and result.assignment is not None:
        write_solution(solution_path, opened.problem, opened.format, result.assignment)
    ctx.exit(exit_code(result))


def _report(
    opened: Opened, result: SolveResult, reading: Reading, json_path: Path | None, seeded: SeededResult | None
) -> None:
    """Print the result and write its JSON; with JSON on standard output, the words go beside it."""
    to_stdout = json_path is not None and str(json_path) == "-"
    lines = [words.problem_line(opened.problem), *words.result_lines(result)]
    if seeded is not None:
        lines += words.seeded_lines(seeded)
    violated: tuple[str, ...] = ()
    if opened.problem is not opened.original and result.assignment is not None:
        violated = tuple(v.name for v in evaluate(opened.original, result.assignment).violations)
        lines.append(f"dropped    {f'violated: {words.some(violated)}' if violated else 'satisfied all the same'}")
    for line in lines:
        click.echo(line, err=to_stdout)
    if json_path is None:
        return
    dropped = {"budgets": reading.drop_budgets, "constraints": reading.drop_constraints, "violated": violated}
    seeding = None if seeded is None else seeded_document(seeded)
    text = to_json(result_document(opened.problem, result, dropped=dropped, seeding=seeding))
    if to_stdout:
        click.echo(text, nl=False)
    else:
        write_text(json_path, text)
