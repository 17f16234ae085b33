"""What a lowered step will do, counted against what its plan says; needs no ranks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from berthage_torch.applying.extents import Place
from berthage_torch.applying.lowering import Lowered, lower
from berthage_torch.applying.steps import COLLECTIVE
from berthage_torch.errors import ApplyError
from berthage_torch.graph import OpGraph
from berthage_torch.plans.plan import Plan

__all__ = ["Count", "verify"]


@dataclass(frozen=True, slots=True)
class Count:
    """Collectives of one kind.

    Attributes:
        kind: ``all-gather``, ``reduce-scatter``, ``all-reduce`` or ``all-to-all``.
        mesh_dim: Name of the mesh dimension.
        phase: ``forward`` or ``backward``.
        bytes: Of each, as `berthage_torch.plans.costs.Collective` counts them.
        planned: How many the plan has.
        lowered: How many the lowered step has.
    """

    kind: str
    mesh_dim: str
    phase: str
    bytes: int
    planned: int
    lowered: int


def verify(plan: Plan, graph: OpGraph) -> tuple[Count, ...]:
    """Lower a plan and count its collectives, on the rank with the largest shards.

    The last rank, which has the smallest, is lowered too: it has to run the same collectives in the same order, or all
    would wait for each other.

    Args:
        plan: The plan.
        graph: The step.

    Raises:
        ApplyError: The step cannot be lowered, or these two ranks differ.
    """
    sizes = tuple(plan.mesh.values())
    places = Place(sizes, (0,) * len(sizes)), Place(sizes, tuple(size - 1 for size in sizes))
    first, last = (lower(plan, graph, place, tuple(plan.mesh), torch.device("cpu")) for place in places)
    if _order(first) != _order(last):
        raise ApplyError(f"the first and the last rank of {plan.model} would run different collectives")
    lowered = first.collectives()
    planned = Counter((one.kind, one.mesh_dim, one.phase, one.bytes) for one in plan.collectives())
    return tuple(Count(*key, planned[key], lowered[key]) for key in sorted(planned.keys() | lowered.keys()))


def _order(step: Lowered) -> list[tuple[str, str]]:
    halves = step.forward, step.backward
    return [node.meta[COLLECTIVE][:2] for half in halves for node in half.module.graph.nodes if COLLECTIVE in node.meta]
