"""``berthage compare``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from berthage.cli import words
from berthage.cli.base import ExitCode, registry_of
from berthage.cli.chatter import stdout_to_stderr
from berthage.cli.common import Effort, Reading, effort_options, input_file, reading_options, split_names
from berthage.cli.documents import result_document
from berthage.cli.live import live_line
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage.errors import BerthageError
from berthage.problem import PlacementProblem
from berthage.registry import Registry
from berthage.solving.results import Limit, Reason, SolveResult
from berthage.solving.solve import solve as run

_NOT_RUN: Final = "not run: interrupted"


@dataclass(frozen=True, slots=True)
class Row:
    """A solver's part of a comparison: a result or an error."""

    solver: str
    result: SolveResult | None
    error: str = ""


@click.command()
@click.argument("file", type=input_file)
@click.option("--solvers", "solver_names", required=True, metavar="A,B,C", help="The solvers, by name.")
@effort_options
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def compare(
    ctx: click.Context, /, file: Path, solver_names: str, effort: Effort, reading: Reading, as_json: bool
) -> None:
    """Solve one problem with several solvers.

    The solvers run on the problem FILE one after the other.

    A solver that fails is a row with its error. The exit code is 1 when one failed or when what two
    of them claim cannot both be true; otherwise 0.
    """
    registry = registry_of(ctx)
    names = split_names(solver_names)
    if not names:
        raise click.UsageError("--solvers names no solver")
    problem = reading.open(registry, file).problem
    rows: list[Row] = []
    interrupted = False
    for name in names:
        rows.append(_run(problem, name, effort, registry) if not interrupted else Row(name, None, _NOT_RUN))
        interrupted = interrupted or _interrupted(rows[-1])
    clashes = disagreements(rows)
    if as_json:
        click.echo(to_json(_document(problem, rows, clashes)), nl=False)
    else:
        click.echo(words.problem_line(problem))
        _print_table(rows)
        for row in rows:
            if row.error:
                click.echo(f"{row.solver}: {row.error}")
        for clash in clashes:
            click.echo(f"disagreement: {clash}")
    failed = clashes or any(_failed(row) for row in rows)
    ctx.exit(ExitCode.ERROR if failed else ExitCode.SOLVED)


def _run(problem: PlacementProblem, name: str, effort: Effort, registry: Registry) -> Row:
    try:
        with stdout_to_stderr(), live_line(name) as observer:
            params = replace(effort.params, observer=observer)
            result = run(problem, name, params=params, presolve=effort.presolve, registry=registry)
    except BerthageError as error:
        return Row(name, None, str(error))
    except Exception as error:  # whatever else a plugin raises is its row, and the others still run
        return Row(name, None, f"{type(error).__name__}: {error}")
    return Row(name, result)


def disagreements(rows: list[Row], tolerance: float = 1e-6) -> list[str]:
    """Claims of two solvers that cannot both be true.

    Args:
        rows: The comparison.
        tolerance: Relative difference between a bound and an objective that counts as none.
    """
    found = []
    done = [(row.solver, row.result) for row in rows if row.result is not None]
    for name, result in done:
        for other, rival in done:
            if rival.objective is None:
                continue
            if result.termination.reason is Reason.INFEASIBLE:
                found.append(f"{name} says infeasible, {other} has a solution")
            elif result.bound > rival.objective + tolerance * max(1.0, abs(rival.objective)):
                least, cost = words.bound(result.bound), words.number(rival.objective)
                found.append(f"the bound {least} of {name} is above the objective {cost} of {other}")
    return found


def _interrupted(row: Row) -> bool:
    return row.result is not None and row.result.termination.limit is Limit.INTERRUPTED


def _failed(row: Row) -> bool:
    return row.result is None or row.result.termination.reason is Reason.NUMERICAL_ERROR


def _cells(row: Row) -> tuple[str, ...]:
    result = row.result
    if result is None:
        return row.solver, "error", "-", "-", "-", "-", "-", "-"
    end = result.termination
    status = end.reason.value.replace("_", " ") + (f" ({end.limit.value})" if end.limit else "")
    total, compiling = result.timings.get("total"), result.timings.get("compile")
    return (
        row.solver,
        status,
        words.number(result.objective),
        words.bound(result.bound),
        words.gap(result.relative_gap),
        words.seconds(total.cpu if total else math.nan),
        words.seconds(total.wall if total else math.nan),
        words.seconds(compiling.wall if compiling else 0.0),
    )


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:  # a pipe has no width: nothing may be cut off or folded there
        console = Console(width=1000)
    table = Table(box=None, pad_edge=False)
    for title in ("solver", "termination"):
        table.add_column(title, overflow="fold")
    for title in ("objective", "bound", "gap", "cpu s", "wall s", "of it compiling"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    console.print(table)


def _document(problem: PlacementProblem, rows: list[Row], clashes: list[str]) -> dict[str, Any]:
    results = [
        {"solver": {"name": row.solver, "version": None}, "error": row.error}
        if row.result is None
        else {**result_document(problem, row.result), "error": None}
        for row in rows
    ]
    return {
        "format_version": FORMAT_VERSION,
        "problem": problem.name,
        "stats": problem.stats().as_dict(),
        "results": results,
        "disagreements": clashes,
    }
