"""Repeated layers, found in the graph: nodes that do the same in each copy of a layer share one decision."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from berthage import OptionError
from berthage_torch.graph import Node, OpGraph, names_node
from berthage_torch.pricing.strategies import Strategies

__all__ = ["Groups", "Tie", "fold"]

Tie: TypeAlias = str | Iterable[str | Iterable[str]]
"""``"layers"``, ``"none"``, or groups of names and patterns of nodes."""

Groups = npt.NDArray[np.int64]
"""``int64[nodes]``: the first node of each node's group; a node that is alone is its own."""

_NUMBER = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def fold(graph: OpGraph, strategies: Iterable[Strategies], tie: Tie = "layers") -> Groups:
    """Group the nodes that are to take the same strategy.

    Of repeated layers two nodes go together when they lie in copies of one layer (their paths differ in one number, the
    layer's), do the same to tensors of the same sizes, are the same in order among such nodes of their layer, and every
    copy that has any has as many. Tying only restricts the choice: what a plan costs is summed over every node and edge
    either way.

    Args:
        graph: The graph.
        strategies: The strategies of each node; only nodes that share theirs are tied.
        tie: ``"layers"``, ``"none"`` to decide every node by itself, or groups of one's own: each a pattern, or several
            names and patterns, of nodes and parameters.

    Raises:
        OptionError: For another word, and for a group that cannot be: it names nothing or one node only, a node is in
            two groups, or nodes differ in what they do or in their sizes.
    """
    if not isinstance(tie, str):
        return _groups_of(graph, list(strategies), [(group,) if isinstance(group, str) else group for group in tie])
    if tie not in ("layers", "none"):
        raise OptionError(f"tie is 'layers', 'none' or groups of nodes, not {tie!r}")
    groups = np.arange(len(graph.nodes), dtype=np.int64)
    if tie == "none":
        return groups
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


def _groups_of(graph: OpGraph, strategies: list[Strategies], wanted: Iterable[Iterable[str]]) -> Groups:
    """The groups that a person names."""
    groups = np.arange(len(graph.nodes), dtype=np.int64)
    taken: dict[int, str] = {}
    for group in wanted:
        patterns = list(group)
        title = "tie group " + ", ".join(map(repr, patterns))
        found: set[int] = set()
        for pattern in patterns:
            hits = [node.index for node in graph.nodes if node.kind != "output" and names_node(node, pattern)]
            if not hits:
                raise OptionError(f"{title}: no node or parameter is named {pattern!r}")
            found.update(hits)
        members = sorted(found)
        first, name = members[0], graph.nodes[members[0]].name
        if len(members) == 1:
            raise OptionError(f"{title}: it is {name!r} alone; a group has two nodes or more")
        for index in members:
            node = graph.nodes[index].name
            if index in taken:
                raise OptionError(f"{title}: {node!r} is in {taken[index]} already")
            if strategies[index] is not strategies[first]:
                raise OptionError(
                    f"{title}: {name!r} and {node!r} do not have the same strategies: "
                    f"they must do the same to tensors of the same sizes"
                )
            taken[index] = title
        groups[members] = first
    return groups
