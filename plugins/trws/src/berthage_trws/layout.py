"""From a problem to the flat arrays that the kernels read.

Variables become *nodes* in the order of the sweeps; labels with an infinite unary cost are removed; an edge becomes
two *half-edges*, one at each end, sorted by node and then by the neighbour's place in the order. Messages into a node
are stored one after the other in the order of its half-edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem

from .pack import pack_tables
from .parts import (
    Sides,
    TableUses,
    half_edges,
    keep_labels,
    offsets,
    padded_to_panels,
    table_uses,
)
from .sweep import PANEL
from .tables import Floats, Ints, TablePool, pool_tables

Words = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.floating[Any]]


class Graph(NamedTuple):
    """What message passing reads (``uint64`` throughout). Per node, then per half-edge, then the index lists."""

    labels: Words
    panels: Words
    theta_ptr: Words
    message_ptr: Words
    half_ptr: Words
    half_mid: Words
    neighbour: Words
    rows: Words
    column_panels: Words
    row_map: Words
    column_map: Words
    table_ptr: Words
    out_ptr: Words
    maps: Words


class Exact(NamedTuple):
    """Costs in float64 as they are, ``inf`` included: what rounding, local search and the final bound read.

    The cost of label ``k`` of a node and ``l`` of its neighbour over half-edge ``h`` is ``factor[h] *
    base[origin[h] + maps[own_map[h] + k] * own_step[h] + maps[other_map[h] + l] * other_step[h]]``.
    ``own_line`` and ``other_line`` say which distinct line of the table each label takes (``NO_MAP``: the label's own
    number), ``own_lines`` and ``other_lines`` where those lines are listed, ``own_count`` and ``other_count`` how many.
    """

    labels: Words
    label_ptr: Words
    theta_ptr: Words
    message_ptr: Words
    half_ptr: Words
    half_mid: Words
    neighbour: Words
    mate: Words
    origin: Words
    own_step: Words
    other_step: Words
    own_map: Words
    other_map: Words
    own_line: Words
    other_line: Words
    own_lines: Words
    other_lines: Words
    own_count: Words
    other_count: Words
    factor: Floats
    base: Floats
    maps: Words


class Packing(NamedTuple):
    """How the packed tables were written: what `pack_tables` was given, by use (see there), and each use's table."""

    start: Ints
    stride: Ints
    factor: Floats
    row_list: Ints
    row_count: Ints
    column_list: Ints
    column_count: Ints
    maps: Ints
    forward: Ints
    backward: Ints
    slot: Ints

    def write(self, base: Floats, stand_in: float, cells: Reals) -> None:
        """Write the packed tables from ``base``."""
        *sides, forward, backward, _ = self
        pack_tables(base, *sides, PANEL, stand_in, forward, backward, cells)


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """A compiled problem.

    Attributes:
        graph: Offsets for message passing.
        exact: Offsets and costs in float64.
        unary: float64[ΣK'], unary costs of the labels kept, times multiplicity and `scale`.
        gamma: Node weights, in the dtype of the messages.
        cells: Packed tables, in that dtype, ``inf`` replaced by `stand_in`.
        packing: How they were written.
        order: Variable of each node.
        label: Original label of each label kept, flat as `unary`.
        scale: Power of two that all costs were multiplied by.
        stand_in: Finite cost, above any difference between allowed assignments, used for forbidden pairs.
        highest: No allowed assignment costs more than this (scaled, without budgets).
        message_size: Total length of the messages.
        longest: Longest padded vector.
        work: float64[n], table cells that a sweep over each node reads (both directions).
    """

    graph: Graph
    exact: Exact
    unary: Floats
    gamma: Reals
    cells: Reals
    packing: Packing
    order: Ints
    label: Ints
    scale: float
    stand_in: float
    highest: float
    message_size: int
    longest: int
    work: Floats

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.order)

    def theta(self, unary: Floats) -> Reals:
        """Unary costs padded for message passing, the padding repeating each node's last label."""
        counts = self.graph.labels.astype(np.int64)
        padded = self.graph.panels.astype(np.int64) * PANEL
        node = np.repeat(np.arange(len(counts)), padded)
        place = np.arange(int(padded.sum())) - np.repeat(offsets(padded)[:-1], padded)
        pick = self.exact.label_ptr.astype(np.int64)[node] + np.minimum(place, counts[node] - 1)
        return unary[pick].astype(self.gamma.dtype)

    def to_variables(self, state: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """The problem's assignment for compact labels by node."""
        assignment = np.empty(self.nodes, np.int32)
        assignment[self.order] = self.label[self.exact.label_ptr[:-1].astype(np.int64) + state.astype(np.int64)]
        return assignment

    def to_nodes(self, assignment: npt.NDArray[Any]) -> Words:
        """Compact labels by node for the problem's assignment; a label that was removed becomes the cheapest."""
        ptr = self.exact.label_ptr.astype(np.int64)
        node = np.repeat(np.arange(self.nodes), np.diff(ptr))
        same = self.label == np.asarray(assignment)[self.order][node]
        rank = np.lexsort((self.unary, ~same, node))
        return (rank[ptr[:-1]] - ptr[:-1]).astype(np.uint64)


def compile_layout(
    problem: PlacementProblem, order: Ints, single: bool, pool: TablePool | None = None, packed: bool = True
) -> Layout | int:
    """Compile ``problem`` (without relations; budgets are ignored).

    Args:
        problem: What to compile.
        order: The variables in the order of the sweeps.
        single: Whether messages are float32 rather than float64.
        pool: The pooled tables that the edges use, in the order of their numbers; None to pool them here.
        packed: Whether to pack tables for message passing; without it only `Exact` can be used.

    Returns:
        The layout; or, when a variable has no allowed label, that variable.
    """
    labels = keep_labels(problem, order)
    empty = np.flatnonzero(labels.counts == 0)
    if len(empty):
        return int(order[empty[0]])
    uses, use_of_edge = table_uses(problem, order, labels)
    pool = pool or pool_tables([problem.tables[t] for t in uses.tables])
    scale = _scale(problem, pool, single)
    costs = problem.unary[labels.flat] * scale * problem.multiplicity[order].repeat(labels.counts)
    ptr = offsets(labels.counts)
    span = _ranges(costs, ptr, pool, uses, use_of_edge, scale)
    sides = Sides(pool, labels, uses)
    halves = half_edges(problem, order, use_of_edge)
    panels = -(-labels.counts // PANEL)
    padded = panels * PANEL
    degree = np.diff(halves.ptr)
    message_ptr = offsets(degree * padded)
    row_side, column_side = sides.rows, sides.columns
    forward = sides.count[row_side] * padded_to_panels(sides.count[column_side])
    backward = sides.count[column_side] * padded_to_panels(sides.count[row_side])
    places = offsets(np.concatenate([forward, backward]))
    forward_ptr, backward_ptr = places[: len(forward)], places[len(forward) : -1]
    dtype = np.float32 if single else np.float64
    cells = _aligned(int(places[-1]) if packed else 0, dtype)
    base = pool.base * scale if scale != 1.0 else pool.base
    factor = uses.factor.astype(np.float64)
    packing = Packing(
        pool.start[uses.slot], pool.columns[uses.slot], factor,
        sides.lines[row_side], sides.count[row_side], sides.lines[column_side], sides.count[column_side],
        sides.maps, forward_ptr, backward_ptr, uses.slot,
    )  # fmt: skip
    if packed:
        packing.write(base, span.stand_in, cells)
    use, is_row = halves.use, halves.is_row
    own = np.where(is_row, row_side[use], column_side[use])
    other = np.where(is_row, column_side[use], row_side[use])
    slot = uses.slot[use]
    out = message_ptr[halves.neighbour] + (halves.mate - halves.ptr[halves.neighbour]) * padded[halves.neighbour]
    lower = halves.mid - halves.ptr[:-1]
    weight = 1.0 / np.maximum(np.maximum(lower, degree - lower), 1)
    theta_ptr = offsets(padded)
    maps = sides.maps.astype(np.uint64)
    graph = Graph(
        labels=_words(labels.counts), panels=_words(panels), theta_ptr=_words(theta_ptr),
        message_ptr=_words(message_ptr), half_ptr=_words(halves.ptr), half_mid=_words(halves.mid),
        neighbour=_words(halves.neighbour), rows=_words(sides.count[own]),
        column_panels=_words(-(-sides.count[other] // PANEL)), row_map=sides.line_map[own],
        column_map=sides.line_map[other],
        table_ptr=_words(np.where(is_row, forward_ptr[use], backward_ptr[use])), out_ptr=_words(out), maps=maps,
    )  # fmt: skip
    stride = pool.columns[slot]
    exact = Exact(
        labels=graph.labels, label_ptr=_words(ptr), theta_ptr=graph.theta_ptr, message_ptr=graph.message_ptr,
        half_ptr=graph.half_ptr, half_mid=graph.half_mid, neighbour=graph.neighbour, mate=_words(halves.mate),
        origin=_words(pool.start[slot]), own_step=_words(np.where(is_row, stride, 1)),
        other_step=_words(np.where(is_row, 1, stride)), own_map=_words(sides.label_map[own]),
        other_map=_words(sides.label_map[other]), own_line=graph.row_map, other_line=graph.column_map,
        own_lines=_words(sides.lines[own]), other_lines=_words(sides.lines[other]),
        own_count=_words(sides.count[own]), other_count=_words(sides.count[other]),
        factor=factor[use], base=base, maps=maps,
    )  # fmt: skip
    read = (sides.count[own] * sides.count[other]).astype(np.float64)
    work = np.bincount(halves.node, weights=read, minlength=len(order)).astype(np.float64)
    longest = max(int(padded.max(initial=PANEL)), int(padded_to_panels(sides.count).max(initial=PANEL)))
    return Layout(
        graph, exact, costs, weight.astype(dtype), cells, packing, order, labels.label, scale, span.stand_in,
        span.highest, int(message_ptr[-1]), longest, work,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Span:
    stand_in: float
    highest: float


def _ranges(costs: Floats, ptr: Ints, pool: TablePool, uses: TableUses, use_of_edge: Ints, scale: float) -> _Span:
    """The stand-in for ``inf`` (1 + the sum of all finite ranges, above every entry) and the highest finite cost."""
    if len(ptr) == 1:
        return _Span(1.0, 0.0)
    low, high = np.minimum.reduceat(costs, ptr[:-1]), np.maximum.reduceat(costs, ptr[:-1])
    slot, factor = uses.slot[use_of_edge], uses.factor[use_of_edge] * scale
    edge_low, edge_high = pool.low[slot] * factor, pool.high[slot] * factor
    spread = float((high - low).sum() + (edge_high - edge_low).sum())
    highest = float(high.sum() + edge_high.sum())
    return _Span(1.0 + spread + max(0.0, float(edge_high.max(initial=0.0))), highest)


def _scale(problem: PlacementProblem, pool: TablePool, single: bool) -> float:
    """A power of two that keeps sums of costs inside the range of the dtype; 1 where nothing threatens."""
    finite = problem.unary[np.isfinite(problem.unary)]
    largest = max(
        float(np.abs(finite).max(initial=0.0)),
        float(np.abs(pool.low).max(initial=0.0)),
        float(np.abs(pool.high).max(initial=0.0)),
    )
    copies = max(int(problem.multiplicity.max(initial=1)), int(problem.edge_multiplicity.max(initial=1)))
    terms = 2.0 * copies * (problem.num_variables + problem.num_edges + 1)
    exponent = math.log2(max(largest, 1.0)) + math.log2(terms)
    ceiling, target = (100.0, 60.0) if single else (900.0, 500.0)
    return 1.0 if exponent <= ceiling else 2.0 ** -math.ceil(exponent - target)


def repeated(ptr: Words) -> Ints:
    """The index of the group that each member belongs to, for groups that start at ``ptr``."""
    counts: Ints = np.diff(ptr.astype(np.int64)).astype(np.int64)
    return np.repeat(np.arange(len(counts)), counts)


def _words(values: npt.NDArray[Any]) -> Words:
    return np.ascontiguousarray(values, np.uint64)


def _aligned(size: int, dtype: Any) -> Reals:
    """An empty array whose first entry begins a cache line, so that no vector straddles two."""
    item = np.dtype(dtype).itemsize
    raw = np.empty(size + 64 // item, dtype)
    skip = (-raw.ctypes.data % 64) // item
    return raw[skip : skip + size]
