"""All pairwise terms of a problem over one flat pool of table entries, so that edges are priced in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berthage.problem.relations import RelationKind
from berthage.problem.tables import ClassedTable, CostTable

if TYPE_CHECKING:
    from berthage.linear.groups import Groups
    from berthage.problem.model import PlacementProblem

__all__ = ["PairTerms", "pair_terms"]


@dataclass(frozen=True, slots=True)
class PairTerms:
    """Edges, pair relations and loose ties as terms over a pool.

    The entry of term ``e`` for labels ``(a, b)`` is
    ``weight[e] * values[start[e] + rows[row_start[e] + a] * width[e] + cols[col_start[e] + b]]``, where
    ``rows`` and ``cols`` are the class maps in ``maps``.
    """

    u: NDArray[np.int64]
    v: NDArray[np.int64]
    weight: NDArray[np.float64]
    start: NDArray[np.int64]
    width: NDArray[np.int64]
    row_start: NDArray[np.int64]
    col_start: NDArray[np.int64]
    values: NDArray[np.float64]
    maps: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of terms."""
        return len(self.u)


def pair_terms(problem: PlacementProblem, groups: Groups) -> PairTerms:
    """Gather every pairwise term; lazy tables are priced in full."""
    used, table_of_edge = np.unique(np.asarray(problem.edge_table), return_inverse=True)
    blocks: list[NDArray[np.float64]] = []
    shapes: list[tuple[int, int]] = []
    class_maps: list[tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]] = []
    for index in used.tolist():
        block, row_class, col_class = _flatten(problem.tables[index])
        blocks.append(block)
        shapes.append((block.shape[0], block.shape[1]))
        class_maps.append((row_class, col_class))
    relations = problem.relations
    pairs = np.flatnonzero(np.asarray(relations.kind) == RelationKind.PAIRS)
    extra = np.concatenate([pairs, groups.loose_ties]).astype(np.int64)
    # Relations may share an array, but a loose tie reads it together with the size of its second variable.
    known: dict[tuple[int, int], int] = {}
    extra_block: list[int] = []
    for row in extra.tolist():
        data = int(relations.data[row])
        columns = int(problem.num_labels[relations.v[row]])
        if (data, columns) not in known:
            known[data, columns] = len(blocks)
            array = relations.arrays[data]
            allowed = array if array.ndim == 2 else array[:, None] == np.arange(columns)[None, :]
            blocks.append(np.where(allowed, 0.0, np.inf))
            shapes.append(allowed.shape)
            class_maps.append((None, None))
        extra_block.append(known[data, columns])
    block_of = np.concatenate([table_of_edge.reshape(-1), np.array(extra_block, dtype=np.int64)]).astype(np.int64)
    weight = np.concatenate([np.asarray(problem.edge_multiplicity, dtype=np.float64), np.ones(len(extra))])
    block_start, row_start, col_start, maps = _index(shapes, class_maps)
    width = np.array([shape[1] for shape in shapes], dtype=np.int64)
    return PairTerms(
        u=np.concatenate([problem.edge_u, relations.u[extra]]).astype(np.int64),
        v=np.concatenate([problem.edge_v, relations.v[extra]]).astype(np.int64),
        weight=weight,
        start=block_start[block_of],
        width=width[block_of],
        row_start=row_start[block_of],
        col_start=col_start[block_of],
        values=np.concatenate([block.reshape(-1) for block in blocks]) if blocks else np.zeros(0),
        maps=maps,
    )


def _flatten(
    table: CostTable,
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Innermost matrix of a (possibly nested) classed table with its composed class maps."""
    row_class: NDArray[np.int64] | None = None
    col_class: NDArray[np.int64] | None = None
    while isinstance(table, ClassedTable):
        rows = np.asarray(table.row_class, dtype=np.int64)
        cols = np.asarray(table.col_class, dtype=np.int64)
        row_class = rows if row_class is None else rows[row_class]
        col_class = cols if col_class is None else cols[col_class]
        table = table.table
    return table.to_dense(), row_class, col_class


def _index(
    shapes: list[tuple[int, int]],
    class_maps: list[tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Offsets of blocks in the pool and of class maps in the map pool, which begins with one identity map."""
    longest = max((max(shape) for shape in shapes), default=0)
    pieces = [np.arange(longest, dtype=np.int64)]
    filled = longest
    block_start = np.zeros(len(shapes), dtype=np.int64)
    row_start = np.zeros(len(shapes), dtype=np.int64)
    col_start = np.zeros(len(shapes), dtype=np.int64)
    position = 0
    for i, (shape, (rows, cols)) in enumerate(zip(shapes, class_maps, strict=True)):
        block_start[i] = position
        position += shape[0] * shape[1]
        for starts, labels in ((row_start, rows), (col_start, cols)):
            if labels is not None:
                starts[i] = filled
                pieces.append(labels)
                filled += len(labels)
    return block_start, row_start, col_start, np.concatenate(pieces)
