"""The demands on the command line, put over those that a model brings."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from berthage import InvalidProblemError
from berthage_torch.graph import OpGraph, names_node
from berthage_torch.searching.constraints import Constraints, PeakMemory, Wanted

__all__ = ["ANY", "memory_of", "overridden", "peak_of", "placement_pairs"]

_BYTES: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kMGT]?i?B?)")
_UNITS: Final = MappingProxyType(
    {
        prefix + binary + unit: float(base**power)
        for power, prefix in enumerate(("", "k", "M", "G", "T"))
        for binary, base in (("", 1000), ("i", 1024))
        for unit in ("", "B")
    }
)

ANY = "any"
"""Written in the place of a placement: nothing is demanded here."""


def placement_pairs(texts: tuple[str, ...], option: str, *, named: bool = False) -> dict[str, str]:
    """``NAME=PLACEMENT`` as a mapping; a placement alone is for every name unless names are needed.

    Raises:
        click.UsageError: A name is missing, or given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, separator, placement = text.rpartition("=")
        if (not separator and named) or (separator and not name) or not placement:
            raise click.UsageError(f"{option} takes NAME=PLACEMENT, not {text!r}")
        name = name or "*"
        if name in found:
            raise click.UsageError(f"{option} {name} is given twice")
        found[name] = placement
    return found


def memory_of(text: str) -> str | tuple[float, float] | None:
    """``none``, ``least`` or ``LOW:HIGH`` as `Constraints` has it.

    Raises:
        click.UsageError: It is none of these.
    """
    if text == "none":
        return None
    if text == "least":
        return text
    low, separator, high = text.partition(":")
    try:
        if separator and high:
            found = float(low or 0), float(high)
            if all(0 <= bound < math.inf for bound in found) and found[0] <= found[1]:
                return found
    except ValueError:
        pass
    raise click.UsageError(f"--memory is none, least or LOW:HIGH (bytes, or shares of at most 1), not {text!r}")


def peak_of(text: str, optimizer: str, price: float | None = None) -> PeakMemory:
    """``--peak-memory`` and what goes with it.

    Args:
        text: Bytes, with a unit (``60GiB``, ``500MB``) or without, or a share of at most 1.
        optimizer: A name, or bytes an element.
        price: Microseconds a byte above the limit.

    Raises:
        click.UsageError: It is neither.
    """
    found = _BYTES.fullmatch(text.strip())
    if found is None:
        raise click.UsageError(f"--peak-memory is bytes such as 60GiB, or a share of at most 1, not {text!r}")
    limit = float(found.group(1)) * _UNITS[found.group(2)]
    try:
        state: str | float = float(optimizer)
    except ValueError:
        state = optimizer
    try:
        whole = float(int(limit)) if found.group(2) and limit > 1 else limit  # 1.3kB is a number of bytes, 1.3 is not
        return PeakMemory(whole, state, price)
    except InvalidProblemError as error:
        raise click.UsageError(str(error)) from None


def overridden(
    default: Constraints,
    graph: OpGraph,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
    pins: Mapping[str, str],
    memory: str | None,
) -> Constraints:
    """The default demands, those that the command line speaks of replaced.

    Args:
        default: What the model brings.
        graph: The graph whose names are meant.
        inputs: Placements of inputs by name or pattern; ``any`` takes a demand away.
        outputs: The same of outputs.
        pins: Placements of nodes.
        memory: As `memory_of` takes it; None keeps the default.
    """
    return dataclasses.replace(
        default,
        inputs=_over(default.inputs, inputs, graph, graph.inputs),
        outputs=_over(default.outputs, outputs, graph, graph.outputs),
        pins={**default.pins, **pins},
        parameter_memory=default.parameter_memory if memory is None else memory_of(memory),
    )


def _over(
    default: Mapping[str, Wanted], given: Mapping[str, str], graph: OpGraph, nodes: tuple[int, ...]
) -> dict[str, Wanted]:
    """A default stands unless a pattern that was given names the same node."""
    spoken = [graph.nodes[i].name for i in nodes if any(names_node(graph.nodes[i], pattern) for pattern in given)]
    kept = {name: wanted for name, wanted in default.items() if name not in spoken}
    return {**kept, **{name: wanted for name, wanted in given.items() if wanted != ANY}}
