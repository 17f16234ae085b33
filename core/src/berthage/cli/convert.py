"""``berthage convert``."""

from __future__ import annotations

from pathlib import Path

import click

from berthage.cli import words
from berthage.cli.common import (
    Reading,
    format_of,
    input_file,
    output_file,
    reading_options,
    registry_of,
)
from berthage.files import write_problem


@click.command()
@click.argument("source", metavar="IN", type=input_file)
@click.argument("target", metavar="OUT", type=output_file)
@click.option("--to", "target_format", metavar="NAME", help="Format of OUT. [default: by its ending]")
@reading_options
@click.pass_context
def convert(
    ctx: click.Context, /, source: Path, target: Path, target_format: str | None, reading: Reading
) -> None:
    """Read a problem file IN and write it as OUT, in the format that the ending tells."""
    registry = registry_of(ctx)
    info = format_of(registry, target, target_format, writing=True)
    problem = reading.open(registry, source).problem
    write_problem(problem, target, format=info.name, registry=registry)
    click.echo(f"{words.problem_line(problem)}; written to {target} ({info.name})")
