"""The strategies near a seed, enumerated without enumerating the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from berthage_torch.graph import Node, OpGraph
from berthage_torch.pricing.rules import OneDim
from berthage_torch.pricing.strategies import (
    Int8,
    Strategies,
    StrategySpace,
    alike,
    classes_of,
    combined,
    metas_of,
)

from .dimensions import MeshSeed
from .fitting import Rows, rows_near, shared_name

__all__ = ["Decision", "Near", "combinations", "keeps_all"]

Decision: TypeAlias = int | tuple[int, int]
"""The first node of a group, or (first node of a group, output) of a tensor with several users."""


class Near(StrategySpace):
    """A strategy space that offers, of each group of nodes, only what lies near its part of a seed.

    Distance is the number of mesh dimensions on which the placement of the first output (without one, of the first
    argument) differs from the seed's. Parameters and their gradients keep every placement: they are few, and what
    memory parameters may take is decided over all of them together. A witness that the enumeration does not offer is
    put back: it holds together, or it would not be one.

    Args:
        graph: The step.
        seed: The seed.
        radius: Greatest distance; None offers everything, with missing witnesses put back.
        space: The enumeration on the whole mesh.
        free: What is not to be restricted.

    Attributes:
        seed: The seed.
        radius: The radius.
        restored: Names of what got its witness back.
        empty: Names of what is in `free`.
    """

    def __init__(
        self,
        graph: OpGraph,
        seed: MeshSeed,
        radius: int | None,
        space: StrategySpace,
        free: frozenset[Decision] = frozenset(),
    ) -> None:
        super().__init__(space.mesh)
        self.seed, self.radius = seed, radius
        self.restored: dict[str, None] = {}
        self._graph, self._space, self._free = graph, space, free
        self.empty = tuple(
            graph.nodes[what].name if isinstance(what, int) else shared_name(graph, *what)
            for what in sorted(free, key=lambda what: (what, -1) if isinstance(what, int) else what)
        )
        self._found: dict[Any, tuple[Strategies, bool]] = {}
        self._tensors: dict[Any, Int8] = {}
        self._users: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for edge in graph.edges():
            tensor = (int(seed.groups[edge.producer]), edge.output)
            if tensor in seed.shared:
                self._users.setdefault(tensor, set()).add((int(seed.groups[edge.consumer]), edge.position))
        numbers: dict[Any, int] = {}
        self._alike = {
            first: numbers.setdefault(alike(graph, graph.nodes[first]), len(numbers))
            for first in np.unique(seed.groups).tolist()
        }

    def of(self, graph: OpGraph, node: Node) -> Strategies:
        """The strategies that are offered of a node of the graph."""
        first = graph.nodes[int(self.seed.groups[node.index])]
        if first.local_map is not None:
            return self._space.of(graph, first)
        witness = self.seed.index[first.index]
        whole = self.radius is None or first.index in self._free or keeps_all(first)
        key = (self._alike[first.index], witness.tobytes(), whole)
        if key not in self._found:
            self._found[key] = self._near(first, witness, whole)
        found, restored = self._found[key]
        if restored:
            self.restored[first.name] = None
        return found

    def shared(self) -> Mapping[tuple[int, int], Int8]:
        """The placements that are offered of each tensor with several users."""
        return {tensor: self._placements(*tensor) for tensor in self.seed.shared}

    def combinations(self) -> int:
        """How many labels all combinations of single-dimension choices would be, those that fit nowhere included."""
        dims = sum(size > 1 for size in self.mesh.sizes)
        total = combinations(self._graph, [self._graph.nodes[first] for first in self._alike], self._space)
        for (u, output), users in self._users.items():
            seen = set(self._codes(u, output, True))
            for user, position in users:
                seen |= set(self._codes(user, position, False))
            total += len(seen) ** dims
        return total

    def _near(self, node: Node, witness: Rows, whole: bool) -> tuple[Strategies, bool]:
        """What is offered of a node, and whether its witness was put back."""
        graph, space, mesh = self._graph, self._space, self.mesh
        single, metas = space.single(graph, node), metas_of(graph, node)
        tensor = single.outputs[:, 0] if single.outputs.shape[1] else single.inputs[:, 0] if metas else None
        if whole or tensor is None or self.radius is None:
            found = space.of(graph, node)
        else:
            index = rows_near(tensor, tensor[witness], self.radius, mesh.sizes)
            found = space.offered(combined(node, metas, mesh, single, index))
        if (found.index == witness).all(axis=1).any():
            return found, False
        index = np.unique(np.concatenate([found.index, witness[None]]), axis=0)
        return combined(node, metas, mesh, single, index), True

    def _placements(self, u: int, output: int) -> Int8:
        """Placements ``int8[L, D]`` in which a tensor is produced or used anywhere, near its part of the seed."""
        centre = self.seed.shared[u, output]
        whole = self.radius is None or (u, output) in self._free
        radius = len(self.mesh.sizes) if whole or self.radius is None else self.radius
        sides = [self._of_tensor(u, output, True, centre, radius)]
        sides += [self._of_tensor(user, position, False, centre, radius) for user, position in self._users[u, output]]
        found = np.concatenate(sides)
        if not (found == centre).all(axis=1).any():
            self.restored[shared_name(self._graph, u, output)] = None
            found = np.concatenate([found, centre[None]])
        return classes_of(found)[0]

    def _of_tensor(self, first: int, position: int, produced: bool, centre: Int8, radius: int) -> Int8:
        """The placements that the strategies of a node give one of its tensors, within a distance of ``centre``."""
        graph, space, node = self._graph, self._space, self._graph.nodes[first]
        key = (self._alike[first], position, produced, centre.tobytes(), radius)
        if key not in self._tensors:
            if node.local_map is not None:
                found = space.of(graph, node)
            else:
                single = space.single(graph, node)
                codes = single.outputs[:, position] if produced else single.inputs[:, position]
                index = rows_near(codes, centre, radius, self.mesh.sizes)
                found = space.offered(combined(node, metas_of(graph, node), self.mesh, single, index))
            place = found.outputs[:, position] if produced else found.inputs[:, position]
            self._tensors[key] = classes_of(place[(place != centre).sum(axis=1) <= radius])[0]
        return self._tensors[key]

    def _codes(self, first: int, position: int, produced: bool) -> list[int]:
        """The placement codes of one tensor of a node on any single dimension."""
        space, graph, node = self._space, self._graph, self._graph.nodes[first]
        known: OneDim | Strategies = space.single(graph, node) if node.local_map is None else space.of(graph, node)
        side = known.outputs if produced else known.inputs
        found: list[int] = np.unique(side[:, position]).tolist()
        return found


def combinations(graph: OpGraph, nodes: Iterable[Node], space: StrategySpace) -> int:
    """How many labels all combinations of single-dimension strategies of some nodes would be."""
    dims = sum(size > 1 for size in space.mesh.sizes)
    return sum(1 if node.local_map is not None else len(space.single(graph, node).inputs) ** dims for node in nodes)


def keeps_all(node: Node) -> bool:
    """Whether a node is never restricted: a parameter, or the gradient of one."""
    return node.kind == "parameter" or node.role == "gradient"
