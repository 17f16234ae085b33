"""The candidate limit: message passing over the best labels of every variable, with a bound over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from berthage_trws.layout import Layout, repeated
from berthage_trws.parts import offsets
from berthage_trws.sweep import PANEL
from berthage_trws.tables import Floats, Ints

__all__ = ["best_labels", "fewer_cells", "flat_labels", "move_messages"]


def flat_labels(layout: Layout, label_ptr: Ints) -> Ints:
    """Where each label of a layout stands among all labels of the problem."""
    node = repeated(layout.exact.label_ptr)
    return np.asarray(label_ptr[layout.order][node] + layout.label, dtype=np.int64)


def best_labels(layout: Layout, slack: Floats, limit: int) -> npt.NDArray[np.bool_]:
    """``bool`` by label of the layout: whether it is among the ``limit`` of its node with the least slack."""
    ptr = layout.exact.label_ptr.astype(np.int64)
    node = repeated(layout.exact.label_ptr)
    rank = np.empty(len(slack), np.int64)
    rank[np.lexsort((np.arange(len(slack)), slack, node))] = np.arange(len(slack)) - ptr[node]
    return np.asarray(rank < limit)


def fewer_cells(layout: Layout, limit: int) -> bool:
    """Whether tables for at most ``limit`` labels a variable are smaller than those of all labels.

    All labels share the tables of edges that are alike; candidates differ from variable to variable, so that every edge
    has a table of its own.
    """
    packing, exact = layout.packing, layout.exact
    every = float((packing.row_count.astype(np.float64) * packing.column_count).sum())
    own, other = (np.minimum(count.astype(np.float64), limit) for count in (exact.own_count, exact.other_count))
    return float((own * other).sum()) / 2.0 < every


def move_messages(source: Layout, messages: Floats, target: Layout, into: npt.NDArray[Any]) -> None:
    """Write messages between layouts of the same edges; labels that only the target has keep what they have.

    Args:
        source: Where messages come from.
        messages: They, in the order of that layout.
        target: Where they go.
        into: Its messages; changed in place.
    """
    width = int(max(source.label.max(initial=0), target.label.max(initial=0))) + 1
    place = np.full(source.nodes * width, -1, np.int64)
    node = repeated(source.exact.label_ptr)
    compact = np.arange(len(node)) - source.exact.label_ptr.astype(np.int64)[node]
    place[node * width + source.label] = compact
    half_node = repeated(target.exact.half_ptr)
    labels = target.exact.labels.astype(np.int64)
    padded = -(-labels // PANEL) * PANEL
    ptr = offsets(padded[half_node])
    half = np.repeat(np.arange(len(half_node)), padded[half_node])
    node = half_node[half]
    k = np.minimum(np.arange(int(ptr[-1])) - ptr[half], labels[node] - 1)
    label = target.label[target.exact.label_ptr.astype(np.int64)[node] + k]
    found = place[node * width + label]
    known = found >= 0
    at = _inbox(source)[half[known]] + found[known]
    into[(_inbox(target)[half] + np.arange(int(ptr[-1])) - ptr[half])[known]] = messages[at]


def _inbox(layout: Layout) -> Ints:
    """Where the messages of each half-edge begin."""
    exact = layout.exact
    node = repeated(exact.half_ptr)
    width = -(-exact.labels.astype(np.int64) // PANEL) * PANEL
    first = exact.half_ptr.astype(np.int64)[node]
    return np.asarray(
        exact.message_ptr.astype(np.int64)[node] + (np.arange(len(node)) - first) * width[node], dtype=np.int64
    )
