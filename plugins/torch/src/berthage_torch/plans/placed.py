"""What a plan consists of: nodes with their placements, and moves with the steps they are carried out in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["COLLECTIVES", "PlannedEdge", "PlannedNode", "Step", "strategy"]

COLLECTIVES = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
"""The kinds of steps in which ranks exchange data; all others are local."""


class Step(NamedTuple):
    """One step of a move.

    Attributes:
        kind: ``all-gather``, ``reduce-scatter``, ``all-reduce``, ``all-to-all``, or a local step: ``slice`` (R to S),
            ``partition`` (R to P), ``relabel`` (on a mesh dimension of one rank).
        dim: Name of the mesh dimension.
        after: Placement after it.
        bytes: Size of the collective as nccl-tests counts it (the larger side), or bytes that a local step writes.
        us: Price in microseconds, copies for packing included.
        algorithm: How the cost model expects it to run, e.g. ``"Ring/Simple"``; "" for a local step.
    """

    kind: str
    dim: str
    after: str
    bytes: int
    us: float = 0.0
    algorithm: str = ""


@dataclass(frozen=True, slots=True)
class PlannedEdge:
    """How a tensor reaches one that uses it, or its shared copy.

    Attributes:
        producer: Name of the node it comes from.
        output: Which of its outputs.
        consumer: Name of the node that uses it, or ``""`` for the shared copy.
        position: Which tensor argument of the consumer; -1 for the shared copy.
        before: Placement it is produced in (or shared in).
        after: Placement it is used in (or shared in).
        us: Price of the move, microseconds: its steps, and what any change costs besides; 0 when nothing moves.
        path: The steps, in order.
    """

    producer: str
    output: int
    consumer: str
    position: int
    before: str
    after: str
    us: float
    path: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """What a node does.

    Attributes:
        name: Its name in the graph.
        op: The operation; its kind for parameters, inputs and the like.
        phase: ``forward`` or ``backward``.
        path: Module it belongs to.
        fqn: Name of the parameter, input or output.
        inputs: Placement wanted of each tensor argument.
        outputs: Placement of each output.
        compute_us: Time on the device, microseconds.
        group: Name of the first of the nodes that decided together with this one (copies of a layer); its own name
            when it decided alone.
    """

    name: str
    op: str
    phase: str
    path: str
    fqn: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    compute_us: float
    group: str = ""


def strategy(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    """A strategy as text, as `Strategies.name` has it."""
    given = ", ".join(outputs)
    return f"{', '.join(inputs)} -> {given}" if inputs else given
