"""The options of a command that say what is demanded of a plan."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from berthage.cli.common import input_file
from berthage_torch.commands.demands import memory_of, overridden, peak_of, placement_pairs
from berthage_torch.graph import OpGraph
from berthage_torch.searching.constraints import Constraints, PeakMemory

__all__ = ["Asked", "demand_options"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is demanded on the command line, checked before anything is traced."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    pins: Mapping[str, str]
    memory: str | None
    peak: PeakMemory | None = None
    no_peak: bool = False
    given: Constraints | None = None

    def over(self, default: Constraints, graph: OpGraph) -> Constraints:
        """The demands of a file, or else those that a model brings, with what was asked put over them."""
        found = default if self.given is None else self.given
        found = overridden(found, graph, self.inputs, self.outputs, self.pins, self.memory)
        if self.no_peak:
            return dataclasses.replace(found, peak_memory=None)
        return found if self.peak is None else found.with_(peak_memory=self.peak)


def demand_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options about demands; the function gets them as ``asked``."""

    @functools.wraps(function)
    def gathered(
        *args: Any,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        memory: str | None,
        pins: tuple[str, ...],
        peak_memory: str | None,
        optimizer: str,
        peak_price: float | None,
        constraints_path: Path | None,
        **rest: Any,
    ) -> None:
        if memory is not None:
            memory_of(memory)  # what is misspelt is told before anything is traced
        peak = None if peak_memory in (None, "none") else peak_of(peak_memory, optimizer, peak_price)
        asked = Asked(
            placement_pairs(inputs, "--input"),
            placement_pairs(outputs, "--output"),
            placement_pairs(pins, "--pin", named=True),
            memory,
            peak,
            peak_memory == "none",
            None if constraints_path is None else Constraints.load(constraints_path),
        )
        function(*args, asked=asked, **rest)

    options = (
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="[NAME=]PLACEMENT",
            help="Placement of an input, or of all; `any` demands nothing; repeatable. [default: the model's]",
        ),
        click.option("--output", "outputs", multiple=True, metavar="[NAME=]PLACEMENT", help="Likewise of an output."),
        click.option(
            "--memory",
            metavar="none|least|LOW:HIGH",
            help="Parameters a rank keeps: bytes, or shares of all of them up to 1. [default: the model's]",
        ),
        click.option(
            "--peak-memory",
            metavar="none|BYTES|SHARE",
            help="All that a rank holds at any instant: bytes (60GiB), or a share up to 1 of the device's memory.",
        ),
        click.option(
            "--optimizer",
            default="adamw",
            show_default=True,
            metavar="NAME|BYTES",
            help="Whose state --peak-memory counts: adamw, momentum, sgd, none, or bytes an element.",
        ),
        click.option(
            "--peak-memory-price",
            "peak_price",
            type=float,
            metavar="US",
            help="Let the peak pass the limit at so many microseconds a byte.",
        ),
        click.option(
            "--constraints",
            "constraints_path",
            type=input_file,
            metavar="FILE",
            help="Demands that Constraints.save wrote, in the place of the model's.",
        ),
        click.option(
            "--pin",
            "pins",
            multiple=True,
            metavar="NODE=PLACEMENT",
            help="Placement of a node or parameter, by name or pattern; repeatable.",
        ),
    )
    for option in reversed(options):
        gathered = option(gathered)
    return gathered
