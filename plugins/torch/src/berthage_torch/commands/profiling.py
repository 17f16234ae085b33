"""``berthage profile``: many searches, each in a process of its own. Imports no torch."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from berthage import BerthageError, InvalidProblemError
from berthage.cli import words
from berthage.cli.base import ExitCode, registry_of
from berthage.cli.common import input_file
from berthage.registry import Registry, build_options
from berthage_nccl import Mesh
from berthage_torch.profiling.environment import environment, git_state
from berthage_torch.profiling.matrix import read_matrix, rows_named
from berthage_torch.profiling.processes import run_once
from berthage_torch.profiling.records import is_ok, load_record, make_record, summaries, write_record, write_summary
from berthage_torch.profiling.rows import Row
from berthage_torch.searching.solvers import solver_of

__all__ = ["profile"]


@click.command()
@click.argument("matrix", metavar="MATRIX.toml", type=input_file)
@click.option(
    "--results",
    "folder",
    type=click.Path(file_okay=False, writable=True, path_type=Path),
    metavar="DIR",
    help="Folder of the results, made when it is not there.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only rows of this name or pattern; repeatable.")
@click.option("--list", "listing", is_flag=True, help="List the rows, and run none.")
@click.option("--resume", is_flag=True, help="Keep results that the same code gave for the same rows.")
@click.option("--detailed-solution", is_flag=True, help="Keep each node's and each move's placement and price as well.")
@click.pass_context
def profile(
    ctx: click.Context,
    /,
    matrix: Path,
    folder: Path | None,
    only: tuple[str, ...],
    listing: bool,
    resume: bool,
    detailed_solution: bool,
) -> None:
    """Run the searches of a matrix, each in a process of its own, and keep what each took.

    Each row's JSON is written when the row ends, so what an interrupted run has done is kept. When a row fails, the
    others run all the same, and the command answers 1.
    """
    registry = registry_of(ctx)
    rows = read_matrix(matrix)
    for row in rows:
        _check(row, registry)
    chosen = rows_named(rows, only)
    if listing:
        for row in chosen:
            click.echo(row.name)
        return
    if folder is None:
        raise click.UsageError("Missing option '--results'.")
    folder.mkdir(parents=True, exist_ok=True)
    records = {row.name: kept for row in rows if (kept := load_record(folder, row)) is not None}
    around = environment(registry)
    git = git_state()
    try:
        with _termination_interrupts():
            for number, row in enumerate(chosen, 1):
                kept = records.get(row.name)
                same = kept is not None and is_ok(kept) and (kept["environment"], kept["git"]) == (around, git)
                if resume and kept is not None and same and ("solution" in kept or not detailed_solution):
                    click.echo(f"[{number}/{len(chosen)}] {row.name}: kept", err=True)
                    continue
                click.echo(f"[{number}/{len(chosen)}] {row.name} ...", err=True)
                record = make_record(row, around, git, functools.partial(run_once, row, detailed=detailed_solution))
                write_record(folder, record)
                records[row.name] = record
                click.echo(f"    {_outcome(record)}", err=True)
    finally:
        lines = list(summaries(rows, records))
        write_summary(folder, lines)
    for line in _table(lines):
        click.echo(line)
    failed = [row.name for row in chosen if not is_ok(records[row.name])]
    if failed:
        click.echo(f"{words.count(len(failed), 'row')} failed: {words.some(failed)}", err=True)
        ctx.exit(ExitCode.ERROR)


def _check(row: Row, registry: Registry) -> None:
    """Refuse what is misspelt before anything runs."""
    try:
        build_options(registry.solver(solver_of(row.solver, registry)), dict(row.options))
        Mesh.parse(row.mesh)
    except (BerthageError, ValueError) as error:
        raise InvalidProblemError(f"row {row.name}: {error}") from None


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """A polite request to end is taken like Ctrl-C, so that the search that runs ends as well."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread, which is the only one that signals reach
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(record: Mapping[str, Any]) -> str:
    if not is_ok(record):
        return f"failed: {record['error']['kind']}: {record['error']['message']}"
    spent = record["timings"]["total"]["cpu"]
    return f"{record['termination']['reason']}, {record['objective']:,.1f} us, {words.seconds(spent)} CPU s"


def _table(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The summary for people."""
    header = ["row", "status", "objective us", "gap", "above best", "coverage", "hash", "variables"]
    header += ["trace", "to problem", "presolve+solve", "total CPU s", "peak GiB"]
    body = [header]
    for line in lines:
        if line["status"] != "ok":
            body.append([line["name"], "failed", *["-"] * (len(header) - 2)])
            continue

        def cpu(*phases: str, line: Mapping[str, Any] = line) -> str:
            return f"{sum(line[f'{phase}_cpu'] or 0.0 for phase in phases):.2f}"

        rss = line["peak_rss_bytes"]
        body.append(
            [
                line["name"],
                line["termination"],
                f"{line['objective']:,.2f}",
                words.gap(line["gap"]) if line["gap"] is not None else "-",
                words.gap(line["excess"]) if line["excess"] is not None else "-",
                words.gap(line["coverage"]) if line["coverage"] is not None else "-",
                line["placement_hash"][:8],
                str(line["variables"]),
                cpu("trace"),
                cpu("enumerate", "price", "build"),
                cpu("presolve", "solve"),
                cpu("total"),
                "-" if rss is None else f"{rss / 2**30:.2f}",
            ]
        )
    widths = [max(len(row[column]) for row in body) for column in range(len(header))]
    for row in body:
        cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
        cells[:2] = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
        yield "  ".join(cells).rstrip()
