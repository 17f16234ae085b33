"""One node of a plan in words: what it costs, what comes to it and leaves it, and what else it could do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from berthage.cli import words as core_words
from berthage_torch.commands.change_words import change_lines
from berthage_torch.commands.words import us
from berthage_torch.plans.placed import PlannedEdge

if TYPE_CHECKING:
    from berthage_torch.plans.explaining import Alternative, Explanation

__all__ = ["explanation_lines"]


def explanation_lines(told: Explanation, unknown: str = "") -> Iterator[str]:
    """A node: its strategy and price, how tensors come to it and leave it, the runner-up, and what was asked about.

    Args:
        told: What is known.
        unknown: Why the rest is not; "" when it is.
    """
    node = told.node
    yield f"node       {node.name}"
    yield f"operation  {node.op}, {node.phase}{f', in {node.path}' if node.path else ''}"
    choices = "" if told.choices is None else f", one of {told.choices}"
    yield f"strategy   {told.strategy}{choices}"
    yield f"inputs     {', '.join(node.inputs) or '-'}"
    yield f"outputs    {', '.join(node.outputs) or '-'}"
    if told.copies > 1:
        yield f"copies     {told.copies} that decided together; prices here are of one, differences of all"
    yield f"compute    {us(node.compute_us)}"
    shared = {(edge.producer, edge.output): edge for edge in told.shared}
    yield f"incoming   {us(math.fsum(edge.us for edge in told.arguments))}"
    for edge in told.arguments:
        copy = shared.get((edge.producer, edge.output))
        through = f", through its copy for all users ({us(copy.us)})" if copy is not None else ""
        yield from _edge_lines(edge, f"argument {edge.position} from {edge.producer}{_output(edge)}{through}")
    yield f"outgoing   {us(math.fsum(edge.us for edge in told.outgoing))}"
    for edge in told.outgoing:
        to = f"{edge.consumer}, argument {edge.position}" if edge.consumer else "one copy for all its users"
        yield from _edge_lines(edge, f"to {to}{_output(edge)}")
    if told.runner_up is not None:
        yield from _alternative_lines("runner-up", told.runner_up)
    elif unknown:
        yield f"runner-up  unknown: {unknown}"
    elif told.choices is not None:
        yield "runner-up  none: there is no other strategy"
    for other in told.against:
        yield from _alternative_lines("against", other)


def _alternative_lines(word: str, other: Alternative) -> Iterator[str]:
    asked = f"{other.asked}: " if other.asked and other.asked != other.strategy else ""
    yield f"{word:<10} {asked}{other.strategy}"
    alone = "impossible" if other.alone_us is None else f"{other.alone_us:+,.1f} us"
    name = f" as {other.alone_strategy}" if other.alone_strategy != other.strategy else ""
    broken = f"; would break {', '.join(other.broken)}" if other.broken else ""
    yield f"  alone       {alone}{name}{broken}"
    if other.downstream_us is None:
        yield f"  downstream  no such plan: {other.reason}"
        return
    proved = "" if other.termination == "optimal" else f", at least {other.least_us:+,.1f} us"
    moved = core_words.count(len(other.changes), "other node")
    yield f"  downstream  {other.downstream_us:+,.1f} us{proved}; {moved} placed differently"
    for line in change_lines(other.changes):
        yield f"    {line}"


def _output(edge: PlannedEdge) -> str:
    return f" (output {edge.output})" if edge.output else ""


def _edge_lines(edge: PlannedEdge, where: str) -> Iterator[str]:
    change = edge.before if edge.before == edge.after else f"{edge.before} -> {edge.after}, {us(edge.us)}"
    yield f"  {where}: {change}"
    for step in edge.path:
        by = f", {step.algorithm}" if step.algorithm else ""
        yield f"      {step.kind} on {step.dim} -> {step.after}, {step.bytes:,} bytes, {us(step.us)}{by}"
    besides = edge.us - math.fsum(step.us for step in edge.path)
    if edge.path and besides:
        yield f"      any change of placement, {us(besides)}"
