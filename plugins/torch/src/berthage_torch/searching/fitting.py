"""Single-dimension strategies combined near a given one, and the nearest that holds together on the whole mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from berthage_nccl.placements import REPLICATE
from berthage_torch.graph import Node, OpGraph, TensorMeta
from berthage_torch.pricing.strategies import Int8, StrategySpace, alike, can_be_placed, combined, metas_of

__all__ = ["Fitting", "Rows", "rows_near", "shared_name"]

Rows = npt.NDArray[np.int16]


class Fitting:
    """Moves witnesses that do not hold together to the nearest that do.

    Args:
        graph: The step.
        space: Strategies on the whole mesh.
    """

    def __init__(self, graph: OpGraph, space: StrategySpace) -> None:
        self._graph, self._space = graph, space
        self._nodes: dict[Any, Rows] = {}
        self._tensors: dict[tuple[TensorMeta, bytes], Int8] = {}

    def node(self, node: Node, witness: Rows) -> Rows:
        """The row of each mesh dimension, ``int16[D]``, nearest to a witness."""
        key = (alike(self._graph, node), witness.tobytes())
        if key not in self._nodes:
            single, metas, mesh = self._space.single(self._graph, node), metas_of(self._graph, node), self._space.mesh
            all_rows = np.arange(len(single.inputs), dtype=np.int16)
            for radius in range(len(mesh.sizes) + 1):  # all-Replicate holds together, so something is found
                index = rows_near(all_rows, witness, radius, mesh.sizes)
                found = combined(node, metas, mesh, single, index).index
                if len(found):
                    self._nodes[key] = _first(found, witness)
                    break
        return self._nodes[key]

    def tensor(self, meta: TensorMeta, placement: Int8) -> Int8:
        """The placement ``int8[D]`` of a tensor nearest to a given one."""
        key = (meta, placement.tobytes())
        if key not in self._tensors:
            mesh = self._space.mesh
            for radius in range(len(mesh.sizes) + 1):
                # Replicate fits where any other code does, so no other needs to be tried in place of what does not.
                index = np.array(list(np.ndindex(*(2,) * len(mesh.sizes))), dtype=np.int16)
                near = np.where(index[index.sum(axis=1) == radius] == 1, REPLICATE, placement).astype(np.int8)
                near = near[can_be_placed(meta, near, mesh)]
                if len(near):
                    self._tensors[key] = _first(near, placement)
                    break
        return self._tensors[key]


def shared_name(graph: OpGraph, node: int, output: int) -> str:
    """What the decision about a tensor with several users is called."""
    return f"{graph.nodes[node].name}.{output} shared" if output else f"{graph.nodes[node].name} shared"


def rows_near(
    codes: npt.NDArray[np.integer], centre: npt.NDArray[np.integer], radius: int, sizes: tuple[int, ...]
) -> Rows:
    """Combinations of rows, one for each mesh dimension, whose codes differ from a centre on few dimensions.

    Args:
        codes: ``int[k]``, the code of each row.
        centre: ``int[D]``, a code for each mesh dimension.
        radius: Most dimensions that differ.
        sizes: Ranks of each mesh dimension; where there is one, row 0 is the only one and differs from nothing.

    Returns:
        ``int16[L, D]`` in lexicographic order.
    """
    index = np.zeros((1, 0), dtype=np.int16)
    far = np.zeros(1, dtype=np.int64)
    for size, code in zip(sizes, centre.tolist(), strict=True):
        rows = np.arange(len(codes) if size > 1 else 1, dtype=np.int16)
        step = (codes[rows] != code) & (size > 1)
        grown = (far[:, None] + step[None]).ravel()
        stay = np.flatnonzero(grown <= radius)
        index = np.concatenate([index[stay // len(rows)], rows[stay % len(rows), None]], axis=1)
        far = grown[stay]
    return index


def _first(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Of rows that are equally far from a wanted one, that which keeps the first places, then the least."""
    changed = (found != wanted).T
    keys = [*found.T[::-1], *changed[::-1]]  # the last key counts most
    return np.asarray(found[np.lexsort(keys)[0]])
