"""``berthage convert``."""

from __future__ import annotations

from pathlib import Path

import click

from berthage.cli import words
from berthage.cli.base import registry_of
from berthage.cli.common import KeyValue, Reading, format_of, input_file, output_file, pairs_to_mapping, reading_options
from berthage.files import write_problem


@click.command()
@click.argument("source", metavar="IN", type=input_file)
@click.argument("target", metavar="OUT", type=output_file)
@click.option("--to", "target_format", metavar="NAME", help="Format of OUT. [default: by its ending]")
@click.option(
    "--to-option",
    "target_options",
    type=KeyValue(),
    multiple=True,
    metavar="K=V",
    help="An option of that format; repeatable.",
)
@reading_options
@click.pass_context
def convert(
    ctx: click.Context,
    /,
    source: Path,
    target: Path,
    target_format: str | None,
    target_options: tuple[tuple[str, str], ...],
    reading: Reading,
) -> None:
    """Write a problem in another format.

    Reads the problem file IN and writes it as OUT, in the format that its ending tells.
    """
    registry = registry_of(ctx)
    info = format_of(registry, target, target_format, writing=True)
    given = pairs_to_mapping(target_options, "--to-option")
    problem = reading.open(registry, source).problem
    write_problem(problem, target, format=info.name, registry=registry, **given)
    click.echo(f"{words.problem_line(problem)}; written to {target} ({info.name})")
