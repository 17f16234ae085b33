"""Whether moves lead from where tensors are to where they are wanted, in steps that do it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from berthage import InvalidProblemError
from berthage_nccl import placements as codes

from .placed import PlannedEdge, PlannedNode

__all__ = ["check_moves"]

Codes = tuple[int, ...]


def check_moves(nodes: Sequence[PlannedNode], edges: Sequence[PlannedEdge], mesh: Mapping[str, int]) -> None:
    """Refuse moves that would not bring a tensor from where one node puts it to where the next wants it.

    What is applied are the steps of the moves; a step that is missing would give wrong numbers and no error.

    Args:
        nodes: The nodes of a plan.
        edges: Its moves.
        mesh: Sizes of its mesh dimensions by name.

    Raises:
        InvalidProblemError: The first move that is wrong, and why.
    """
    by_name = {node.name: node for node in nodes}
    if len(by_name) < len(nodes):
        raise InvalidProblemError("two nodes have the same name")
    shared = {(edge.producer, edge.output): edge.after for edge in edges if not edge.consumer}
    read: dict[str, Codes] = {}
    for edge in edges:
        wrong = _ends(edge, by_name, shared) or _steps(edge, mesh, read)
        if wrong:
            raise InvalidProblemError(
                f"the move of {edge.producer!r} to {edge.consumer or 'all its users'!r} is inconsistent: {wrong}"
            )


def _ends(edge: PlannedEdge, nodes: Mapping[str, PlannedNode], shared: Mapping[tuple[str, int], str]) -> str:
    """What is wrong with where a move begins and ends; "" when nothing is."""
    producer, consumer = nodes.get(edge.producer), nodes.get(edge.consumer)
    if producer is None or not 0 <= edge.output < len(producer.outputs):
        return "no node produces it"
    made = producer.outputs[edge.output]
    if edge.consumer:
        if consumer is None or not 0 <= edge.position < len(consumer.inputs):
            return "no node uses it"
        if edge.after != consumer.inputs[edge.position]:
            return f"it ends as {edge.after}, the node wants {consumer.inputs[edge.position]}"
        made = shared.get((edge.producer, edge.output), made)
    return "" if edge.before == made else f"it begins as {edge.before}, the tensor is {made}"


def _steps(edge: PlannedEdge, mesh: Mapping[str, int], read: dict[str, Codes]) -> str:
    """What is wrong with the steps of a move; "" when nothing is."""
    names, sizes = list(mesh), list(mesh.values())

    def parsed(text: str) -> Codes:
        if text not in read:
            read[text] = tuple(codes.parse(text).tolist())
        return read[text]

    at, end = parsed(edge.before), parsed(edge.after)
    if len(at) != len(sizes) or len(end) != len(sizes):
        return f"{edge.before} or {edge.after} is not for a mesh of {len(sizes)} dimensions"
    for step in edge.path:
        if step.dim not in mesh:
            return f"a step is on {step.dim!r}, which is no mesh dimension"
        d, after = names.index(step.dim), parsed(step.after)
        if len(after) != len(at) or any(a != b for k, (a, b) in enumerate(zip(at, after, strict=True)) if k != d):
            return f"a step on {step.dim} leads from {codes.format(at)} to {step.after}"
        wanted = _kind(at[d], after[d], sizes[d])
        if step.kind != wanted:
            return f"{codes.format(at)} to {step.after} is {wanted or 'no step'}, not {step.kind}"
        at = after
    # On a mesh dimension of one rank all placements are the same.
    if any(a != b for a, b, size in zip(at, end, sizes, strict=True) if size > 1):
        return f"its steps end at {codes.format(at)}, it is wanted as {edge.after}"
    priced = math.fsum(step.us for step in edge.path)
    if priced > edge.us + 1e-9 * max(1.0, edge.us):
        return f"its steps take {priced} us, it takes {edge.us}"
    return ""


def _kind(source: int, target: int, ranks: int) -> str:
    """The kind of a step, see `Step`; "" for what is none."""
    if source == target:
        return ""
    if ranks == 1:
        return "relabel"
    if codes.is_partial(source):
        return "" if codes.is_partial(target) else "reduce-scatter" if codes.is_shard(target) else "all-reduce"
    if codes.is_shard(source):
        return "" if codes.is_partial(target) else "all-to-all" if codes.is_shard(target) else "all-gather"
    return "partition" if codes.is_partial(target) else "slice"
