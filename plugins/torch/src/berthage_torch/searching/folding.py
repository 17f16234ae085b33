"""Repeated layers, found in the graph: nodes that do the same in each copy of a layer share one decision."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from berthage import OptionError
from berthage_torch.graph import Node, OpGraph
from berthage_torch.pricing.strategies import Strategies

__all__ = ["Groups", "fold"]

Groups = npt.NDArray[np.int64]
"""``int64[nodes]``: the first node of each node's group; a node that is alone is its own."""

_NUMBER = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def fold(graph: OpGraph, strategies: Iterable[Strategies], tie: str = "layers") -> Groups:
    """Group the nodes that are to take the same strategy.

    Two nodes go together when they lie in copies of one layer (their paths differ in one number, the layer's), do the
    same to tensors of the same sizes, are the same in order among such nodes of their layer, and every copy that has
    any has as many. Tying only restricts the choice: what a plan costs is summed over every node and edge either way.

    Args:
        graph: The graph.
        strategies: The strategies of each node; only nodes that share theirs are tied.
        tie: ``"layers"``, or ``"none"`` to decide every node by itself.

    Raises:
        OptionError: For another word.
    """
    groups = np.arange(len(graph.nodes), dtype=np.int64)
    if tie == "none":
        return groups
    if tie != "layers":
        raise OptionError(f"tie is 'layers' or 'none', not {tie!r}")
    alike: dict[tuple[object, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for node, space in zip(graph.nodes, strategies, strict=True):
        found = _NUMBER.search(_where(node))
        if found is None:
            continue
        path = _where(node)
        around = (path[: found.start(1)], path[found.end(1) :])
        key = (around, node.kind, node.op, node.phase, node.role, node.hint, id(space))
        alike[key][found.group(1)].append(node.index)
    for layers in alike.values():
        copies = list(layers.values())
        if len(copies) > 1 and len({len(copy) for copy in copies}) == 1:
            for same in zip(*copies, strict=True):
                groups[list(same)] = min(same)
    return groups


def _where(node: Node) -> str:
    """The place of a node in the model: its module's path, or the name of a parameter or gradient."""
    return node.fqn if node.kind in ("parameter", "buffer", "output") else node.path
