"""Meshes, and the fabric that each mesh dimension spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from berthage import InvalidProblemError

__all__ = ["DimFabric", "Mesh", "fabric_of"]


@dataclass(frozen=True, slots=True)
class Mesh:
    """A device mesh. Ranks are numbered row-major: the last dimension varies fastest.

    Attributes:
        names: One name per dimension.
        sizes: Ranks along each dimension, at least 1.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or len(self.names) != len(self.sizes):
            raise InvalidProblemError(f"a mesh has one name a dimension, not {self.names} for sizes {self.sizes}")
        if len(set(self.names)) != len(self.names):
            raise InvalidProblemError(f"mesh dimension names must differ: {self.names}")
        if any(size < 1 for size in self.sizes):
            raise InvalidProblemError(f"mesh sizes must be at least 1, not {self.sizes}")
        if prod(self.sizes) >= 2**31:
            raise InvalidProblemError(f"a mesh of {prod(self.sizes):,} ranks is more than can be numbered (2^31)")

    @property
    def ranks(self) -> int:
        """All ranks."""
        return prod(self.sizes)

    @staticmethod
    def parse(text: str) -> Mesh:
        """A mesh from ``"dp=8,tp=8"``; without names (``"8,8"``) the dimensions are called ``d0``, ``d1`` and so on.

        Raises:
            InvalidProblemError: The text is not a mesh.
        """
        names: list[str] = []
        sizes: list[int] = []
        for index, part in enumerate(text.split(",")):
            name, found, size = part.strip().rpartition("=")
            if not size.strip().isdecimal() or (found and not name.strip()):
                raise InvalidProblemError(f"{text!r} is no mesh: write it like dp=8,tp=8")
            names.append(name.strip() or f"d{index}")
            sizes.append(int(size))
        return Mesh(tuple(names), tuple(sizes))


@dataclass(frozen=True, slots=True)
class DimFabric:
    """What the communicators of one mesh dimension span, by the worst of them.

    Attributes:
        ranks: Ranks of a communicator.
        nodes: Nodes that it touches.
        ranks_per_node: Its ranks in the node where it has fewest; this node's NICs are the narrowest cut.
    """

    ranks: int
    nodes: int
    ranks_per_node: int

    def __post_init__(self) -> None:
        if self.ranks < 1 or self.nodes < 1 or self.ranks_per_node < 1:
            raise InvalidProblemError(f"{self}: all three must be at least 1")
        if self.nodes * self.ranks_per_node > self.ranks or (self.nodes == 1 and self.ranks_per_node != self.ranks):
            raise InvalidProblemError(
                f"{self}: {self.ranks} ranks do not fit {self.nodes} nodes with at least {self.ranks_per_node} each"
            )

    @staticmethod
    def uniform(nodes: int, gpus_per_node: int) -> DimFabric:
        """The same number of ranks on every node."""
        return DimFabric(nodes * gpus_per_node, nodes, gpus_per_node)


def fabric_of(
    mesh: Mesh, gpus_per_node: int, overrides: Mapping[str, DimFabric] | None = None
) -> tuple[DimFabric, ...]:
    """The fabric of every mesh dimension, when consecutive ranks fill the nodes one after the other.

    Args:
        mesh: Any sizes; a dimension may straddle nodes unevenly.
        gpus_per_node: Ranks that a node holds.
        overrides: Fabrics by dimension name that replace the derived ones.

    Raises:
        InvalidProblemError: An override names no dimension or has another number of ranks.
    """
    given = dict(overrides or {})
    for name, value in given.items():
        if name not in mesh.names:
            raise InvalidProblemError(f"fabric of {name!r}: the mesh has dimensions {', '.join(mesh.names)}")
        if value.ranks != mesh.sizes[mesh.names.index(name)]:
            raise InvalidProblemError(f"fabric of {name!r}: {value.ranks} ranks on a dimension of {mesh.sizes}")
    node = (np.arange(mesh.ranks) // gpus_per_node).reshape(mesh.sizes)
    found = []
    for dim, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        found.append(given.get(name) or _worst(np.moveaxis(node, dim, -1).reshape(-1, size)))
    return tuple(found)


def _worst(groups: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> DimFabric:
    """The fabric of communicators whose ranks are on these nodes (a row each, increasing)."""
    ranks = groups.shape[1]
    starts = np.concatenate([np.ones((len(groups), 1), bool), groups[:, 1:] != groups[:, :-1]], axis=1)
    nodes = int(starts.sum(axis=1).max())
    # Run lengths over the flattened rows: each row begins with a start, so no run crosses rows.
    runs = np.diff(np.append(np.flatnonzero(starts.ravel()), starts.size))
    return DimFabric(ranks, nodes, ranks if nodes == 1 else min(int(runs.min()), ranks // nodes))
