"""The arrays that the kernels of the search read and write.

Costs are whole numbers: a cost ``c`` of the problem stands as ``floor((c - base) * scale)``, so that moving costs
between labels and pairs is exact, nothing drifts over millions of moves, and what a node costs is never overstated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.int8]

FORBIDDEN = 1 << 60
"""Stands for `inf` in tables; never added to."""

MOST_RATE = 55
"""Binary logarithm of the greatest multiplier. With the bits of a row (three more than its largest weight has) a
multiplier times a weight stays below 2^52, where floats are exact to less than one; rows of many members get less,
so that a multiplier times their limit stays a 64-bit number."""

COARSE = 1 << 12
"""Existential consistency and multipliers are not pursued for gains below this fraction of what separates the bound
and the target at the root: the last gains are the slowest, and branching makes up for them."""

# Places in `State.ctl`.
TOP, LEVEL, TRAIL, LEVELS, DECISIONS, WORK, NODES, FAILS, PHASE, FAILED, PENALTY, REMOVED, LEAST, BOUND = range(14)
CTL_SIZE = 14

# What has changed about a variable, as bits of `State.dirty`.
SHRUNK, RAISED, UNSURE = 1, 2, 4


class Net(NamedTuple):
    """The network: variables in the order in which costs are moved, labels and edges as flat arrays.

    Attributes:
        ptr: ``int64[n + 1]``, where the labels of each variable start.
        adj_ptr, adj_edge, adj_other: Edges at each variable, by neighbour.
        u, v: Ends of each edge, ``u < v``.
        cell, step_u, step_v: Where the table of each edge lies in `cells`: the cost of labels ``a``, ``b`` is
            ``cells[cell + a * step_u + b * step_v]`` less what was moved out of it.
        out_u, out_v: Places in `State.x` of what was moved from each edge to the labels of its ends.
        cells: Tables.
        entry_ptr, first, last, weight: Entries of budgets by variable: entry ``k`` adds ``weights[weight[k] + a]``
            to the rows ``first[k] … last[k] - 1``.
        weights: Weights.
        limit: Most use of each row.
        group: Group of each row; a group is a budget, or one side of it.
        price: Cost per unit of use above, of each group; -1 where it is forbidden.
        member_ptr, member, member_weight: Variables of each row, with the place of their weights in `weights`.
        bits: Multipliers of each row are whole numbers of ``2^-bits`` units of cost per unit of use.
        most: Greatest multiplier of each row.
    """

    ptr: Ints
    adj_ptr: Ints
    adj_edge: Ints
    adj_other: Ints
    u: Ints
    v: Ints
    cell: Ints
    step_u: Ints
    step_v: Ints
    out_u: Ints
    out_v: Ints
    cells: Ints
    entry_ptr: Ints
    first: Ints
    last: Ints
    weight: Ints
    weights: Ints
    limit: Ints
    group: Ints
    price: Floats
    member_ptr: Ints
    member: Ints
    member_weight: Ints
    bits: Ints
    most: Ints


class State(NamedTuple):
    """What changes during the search.

    Attributes:
        x: Costs of the labels, then what was moved out of edges, then the multipliers of rows, then the number of
            labels left of each variable, then the cost that every assignment pays.
        stamp: The level at which each place of `x` was last saved.
        labels: The labels of each variable, those left first.
        where: Place of each label in `labels`.
        support: For each place of a label at an edge, a label at the other end that supported it last.
        witness: For each variable, a label that all of its lower neighbours supported last.
        dirty: What has changed about each variable.
        heat: How often the search failed at each variable.
        ctl: Counters and limits.
        use, low, part, gain: Scratch: by row, by entry, twice by label.
        open: ``int64[5, n + 1]``, levels with an untried alternative: trail length, decisions, flat label taken,
            bound, variable.
        decided: Decisions so far: flat label, negative (``-1 - label``) when it was excluded.
        trail_at, trail_was: Places of `x` that were overwritten, and what stood there.
    """

    x: Ints
    stamp: Ints
    labels: Ints
    where: Ints
    support: Ints
    witness: Ints
    dirty: Flags
    heat: Floats
    ctl: Ints
    use: Ints
    low: Ints
    part: Ints
    gain: Ints
    open: Ints
    decided: Ints
    trail_at: Ints
    trail_was: Ints


def places(net: Net) -> int:
    """Length of `State.x`."""
    n, labels = len(net.ptr) - 1, int(net.ptr[-1])
    return labels + moved(net) + len(net.limit) + n + 1


def moved(net: Net) -> int:
    """How many places of `State.x` say what was moved out of edges."""
    counts = np.diff(net.ptr)
    return int(counts[net.u].sum() + counts[net.v].sum())


def make_state(net: Net, unary: Ints, top: int) -> State:
    """A state before any propagation, at level 1 with an empty trail."""
    n, labels = len(net.ptr) - 1, int(net.ptr[-1])
    size = places(net)
    x = np.zeros(size, np.int64)
    x[:labels] = unary
    x[size - 1 - n : size - 1] = np.diff(net.ptr)
    order = np.arange(labels) - np.repeat(net.ptr[:-1], np.diff(net.ptr))
    widest = int(np.diff(net.ptr).max(initial=1))
    ctl = np.zeros(CTL_SIZE, np.int64)
    ctl[TOP], ctl[LEVEL], ctl[LEAST], ctl[FAILED] = top, 1, 1, -1

    def ints(*shape: int) -> Any:
        return np.zeros(shape, np.int64)

    degree = np.diff(net.adj_ptr).astype(np.float64)
    trail = 2 * size + 64
    dirty = np.full(n, SHRUNK | RAISED | UNSURE, np.int8)
    return State(
        x, ints(size), order.copy(), order.copy(), ints(moved(net)), ints(n), dirty, degree, ctl,
        ints(len(net.limit) + 1), ints(len(net.first)), ints(widest), ints(widest), ints(5, n + 1),
        ints(labels + n + 1), ints(trail), ints(trail),
    )  # fmt: skip
