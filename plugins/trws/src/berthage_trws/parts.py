"""The steps of compiling a problem: labels kept, distinct packed tables, their sides, half-edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem

from .sweep import NO_MAP, PANEL
from .tables import Ints, TablePool


@dataclass(frozen=True, eq=False, slots=True)
class KeptLabels:
    """Labels kept: place in the problem's flat arrays, label number, count by node; mask number by node (-1: all)."""

    flat: Ints
    label: Ints
    counts: Ints
    mask: Ints
    masks: tuple[Ints, ...]


def keep_labels(problem: PlacementProblem, order: Ints) -> KeptLabels:
    """Labels whose unary cost is finite, by node in sweep order."""
    lengths = problem.num_labels[order].astype(np.int64)
    begin = problem.label_ptr[order]
    ptr = offsets(lengths)
    flat = np.repeat(begin - ptr[:-1], lengths) + np.arange(int(ptr[-1]))
    node = np.repeat(np.arange(len(order)), lengths)
    keep = np.isfinite(problem.unary[flat])
    counts = np.bincount(node[keep], minlength=len(order)).astype(np.int64)
    mask = np.full(len(order), -1, np.int64)
    known: dict[bytes, int] = {}
    masks: list[Ints] = []
    for i in np.flatnonzero(counts != lengths).tolist():
        mine = keep[ptr[i] : ptr[i + 1]]
        mask[i] = known.setdefault(mine.tobytes(), len(masks))
        if mask[i] == len(masks):
            masks.append(np.flatnonzero(mine))
    kept = flat[keep]
    return KeptLabels(kept, kept - begin[node[keep]], counts, mask, tuple(masks))


@dataclass(frozen=True, eq=False, slots=True)
class TableUses:
    """Distinct (table, multiplicity, row mask, column mask): a packed table each. `slot` indexes `tables`."""

    tables: list[int]
    slot: Ints
    factor: Ints
    row_mask: Ints
    column_mask: Ints


def table_uses(problem: PlacementProblem, order: Ints, labels: KeptLabels) -> tuple[TableUses, Ints]:
    """The distinct packed tables that the edges need, and which one each edge uses."""
    mask_of_variable = np.empty(problem.num_variables, np.int64)
    mask_of_variable[order] = labels.mask
    row_mask, column_mask = mask_of_variable[problem.edge_u], mask_of_variable[problem.edge_v]
    table, slot = np.unique(problem.edge_table, return_inverse=True)
    key = slot.astype(np.int64)
    for column in (problem.edge_multiplicity, row_mask, column_mask):
        values, index = np.unique(column, return_inverse=True)
        key = key * len(values) + index
    _, first, use = np.unique(key, return_index=True, return_inverse=True)
    uses = TableUses(
        table.tolist(),
        slot[first].astype(np.int64),
        problem.edge_multiplicity[first],
        row_mask[first],
        column_mask[first],
    )
    return uses, use.astype(np.int64)


class Sides:
    """The row or column side of each packed table: which lines it takes, and where each label finds its line.

    Attributes:
        rows, columns: Side of each use.
        lines, count: Where in `maps` the side's table lines are listed, and how many.
        label_map: Where in `maps` each label's line of the base table is.
        line_map: Where in `maps` each label's line of the packed table is, or ``NO_MAP`` when that is the label itself.
        maps: All index lists; it begins with 0, 1, 2, … for sides that take everything as it is.
    """

    def __init__(self, pool: TablePool, labels: KeptLabels, uses: TableUses) -> None:
        tables, masks = len(pool.start), len(labels.masks) + 1
        key = np.concatenate([
            (uses.slot * 2) * masks + uses.row_mask + 1,
            (uses.slot * 2 + 1) * masks + uses.column_mask + 1,
        ])  # fmt: skip
        distinct, index = np.unique(key, return_inverse=True)
        self.rows, self.columns = index[: len(uses.slot)], index[len(uses.slot) :]
        size = np.stack([pool.rows, pool.columns], axis=1) if tables else np.zeros((0, 2), np.int64)
        slot, rest = distinct // (2 * masks), distinct % (2 * masks)
        which, mask = rest // masks, rest % masks - 1
        self.count: Ints = size[slot, which] if tables else np.zeros(0, np.int64)
        self.lines = np.zeros(len(distinct), np.int64)
        self.label_map = np.zeros(len(distinct), np.int64)
        self.line_map = np.full(len(distinct), NO_MAP, np.uint64)
        pieces: list[Ints] = [np.arange(int(self.count.max(initial=0)) + PANEL)]
        mapped = np.array(
            [[r is not None, c is not None] for r, c in zip(pool.row_of_label, pool.column_of_label, strict=True)]
        )
        special = np.flatnonzero((mask >= 0) | mapped[slot, which]) if tables else np.zeros(0, np.int64)
        place = len(pieces[0])
        for side in special.tolist():
            line = (pool.column_of_label if which[side] else pool.row_of_label)[slot[side]]
            if mask[side] >= 0:
                kept = labels.masks[mask[side]]
                line = kept if line is None else line[kept]
            assert line is not None
            used, packed = np.unique(line, return_inverse=True)
            self.label_map[side] = self.lines[side] = place
            self.count[side] = len(line)
            pieces.append(line)
            place += len(line)
            if len(used) < len(line):
                self.lines[side], self.count[side] = place, len(used)
                self.line_map[side] = place + len(used)
                pad = np.full(-len(packed) % PANEL, packed[-1])
                pieces += [used, packed.astype(np.int64), pad]
                place += len(used) + len(packed) + len(pad)
        self.maps: Ints = np.concatenate(pieces)


@dataclass(frozen=True, eq=False, slots=True)
class HalfEdges:
    """Both ends of every edge, sorted by node and neighbour.

    Attributes:
        node: Node of each.
        neighbour: Node at the other end.
        use: Packed table.
        is_row: Whether the node takes the table's rows.
        mate: The half-edge at the other end.
        ptr: Where each node's half-edges start.
        mid: Where those to later nodes start.
    """

    node: Ints
    neighbour: Ints
    use: Ints
    is_row: npt.NDArray[np.bool_]
    mate: Ints
    ptr: Ints
    mid: Ints


def half_edges(problem: PlacementProblem, order: Ints, use_of_edge: Ints) -> HalfEdges:
    """Half-edges of the problem for nodes in sweep order."""
    n, m = problem.num_variables, problem.num_edges
    position = np.empty(n, np.int64)
    position[order] = np.arange(n)
    u, v = position[problem.edge_u], position[problem.edge_v]
    node, neighbour = np.concatenate([u, v]), np.concatenate([v, u])
    rank = np.lexsort((neighbour, node))  # stable: parallel edges keep their order at both ends
    where = np.empty(2 * m, np.int64)
    where[rank] = np.arange(2 * m)
    mate = np.concatenate([where[m:], where[:m]])[rank]
    node, neighbour = node[rank], neighbour[rank]
    edge = rank % max(m, 1)
    ptr = offsets(np.bincount(node, minlength=n).astype(np.int64))
    mid = ptr[:-1] + np.bincount(node[neighbour < node], minlength=n)
    return HalfEdges(node, neighbour, use_of_edge[edge], rank < m, mate, ptr, mid)


def padded_to_panels(counts: Ints) -> Ints:
    """Counts rounded up to whole panels."""
    return -(-counts // PANEL) * PANEL


def offsets(sizes: Ints) -> Ints:
    """Where groups of these sizes start when stored one after the other, and where the last ends."""
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts
