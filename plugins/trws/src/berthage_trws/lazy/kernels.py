"""Compiled helpers: which unpriced entries the minima rest on, and messages on tables that are not packed."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from berthage_trws.jit import kernel

_0 = np.uint64(0)
_1 = np.uint64(1)
_P = np.uint64(8)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def node_slacks(exact, unary, messages, slack):
    """By how much each label's cost with all incoming messages is above the least of its node; fills in ``slack``.

    Returns:
        The sum of the least costs.
    """
    total = 0.0
    for i in range(np.uint64(len(exact.labels))):
        count, start = exact.labels[i], exact.label_ptr[i]
        low, high = exact.half_ptr[i], exact.half_ptr[i + _1]
        width = (count + _P - _1) // _P * _P
        for k in range(count):
            slack[start + k] = unary[start + k]
        for h in range(low, high):
            inbox = exact.message_ptr[i] + (h - low) * width
            for k in range(count):
                slack[start + k] += messages[inbox + k]
        least = np.inf
        for k in range(count):
            if slack[start + k] < least:
                least = slack[start + k]
        for k in range(count):
            slack[start + k] -= least
        total += least
    return total


@kernel
def _lines(exact, messages, i, h, slack, width, even, out):
    """What the labels of node ``i`` bring to the pairs of half-edge ``h``, by line of the table: the least of each."""
    count, start = exact.labels[i], exact.label_ptr[i]
    low, middle, high = exact.half_ptr[i], exact.half_mid[i], exact.half_ptr[i + _1]
    inbox = exact.message_ptr[i] + (h - low) * ((count + _P - _1) // _P * _P)
    share = 1.0 / (float(high - low) if even else max(float(middle - low), float(high - middle)))
    for r in range(exact.own_count[h]):
        out[r] = np.inf
    for k in range(count):
        if slack[start + k] <= width:
            r = k if exact.own_line[h] == _NONE else exact.maps[exact.own_line[h] + k]
            value = share * slack[start + k] - messages[inbox + k]
            if value < out[r]:
                out[r] = value


@kernel
def find_touched(exact, lazy, opened, messages, slack, labels_within, pairs_within, even, own, other, found):
    """The unpriced entries that the least costs rest on.

    Takes the pairs of an edge whose cost, node costs and messages included, is within ``pairs_within`` of the least
    among the labels whose slack is at most ``labels_within``.

    Args:
        exact: The :class:`~berthage_trws.layout.Exact` costs.
        lazy: ``bool`` by half-edge: whether its table has unpriced entries.
        opened: ``bool`` by entry of ``exact.base``: whether it is a bound.
        messages: Incoming messages.
        slack: As :func:`node_slacks` gives it.
        labels_within: Most slack of a label.
        pairs_within: How far above the least cost of the edge.
        even: Whether a node's slack is shared evenly by all its edges. The slacks and costs of pairs then add up to
            the cost of every assignment; otherwise they are what a pass of messages compares.
        own: Scratch, as long as the longest padded vector, as is the next.
        other: Scratch.
        found: ``int64``: filled with indices into ``exact.base``, some of them perhaps several times.

    Returns:
        How many were found, no more than fit; and the sum over all edges of the least costs.
    """
    count, total = 0, 0.0
    for i in range(np.uint64(len(exact.labels))):
        for h in range(exact.half_mid[i], exact.half_ptr[i + _1]):
            if not lazy[h] and not even:
                continue
            j, back = exact.neighbour[h], exact.mate[h]
            _lines(exact, messages, i, h, slack, labels_within, even, own)
            _lines(exact, messages, j, back, slack, labels_within, even, other)
            origin, factor = exact.origin[h], exact.factor[h]
            least = np.inf
            unpriced = False
            for r in range(exact.own_count[h]):
                if own[r] == np.inf:
                    continue
                row = origin + exact.maps[exact.own_lines[h] + r] * exact.own_step[h]
                for c in range(exact.other_count[h]):
                    at = row + exact.maps[exact.other_lines[h] + c] * exact.other_step[h]
                    value = own[r] + other[c] + exact.base[at] * factor
                    if value < least:
                        least = value
                    unpriced |= opened[at]
            total += least
            if not unpriced or least == np.inf:
                continue
            for r in range(exact.own_count[h]):
                if own[r] == np.inf:
                    continue
                row = origin + exact.maps[exact.own_lines[h] + r] * exact.own_step[h]
                for c in range(exact.other_count[h]):
                    at = row + exact.maps[exact.other_lines[h] + c] * exact.other_step[h]
                    if opened[at] and own[r] + other[c] + exact.base[at] * factor - least <= pairs_within:
                        if count == len(found):
                            return count, total
                        found[count] = at
                        count += 1
    return count, total


@kernel
def used_cells(exact, state, cells):
    """The entries of ``exact.base`` that an assignment uses, edge by edge; returns how many."""
    count = 0
    for i in range(np.uint64(len(exact.labels))):
        for h in range(exact.half_mid[i], exact.half_ptr[i + _1]):
            own = exact.maps[exact.own_map[h] + state[i]] * exact.own_step[h]
            other = exact.maps[exact.other_map[h] + state[exact.neighbour[h]]] * exact.other_step[h]
            cells[count] = exact.origin[h] + own + other
            count += 1
    return count


@kernel
def pack_rows(
    base,
    start,
    stride,
    factor,
    row_list,
    row_count,
    column_list,
    column_count,
    maps,
    panel,
    stand_in,
    forward,
    backward,
    dirty,
    cells,
):
    """Write some rows of packed tables again.

    The arguments are those of :func:`~berthage_trws.pack.pack_tables`, and
    ``dirty``: ``bool`` by entry of ``base``, whether the row that begins there changed.
    """
    for use in range(len(start)):
        rows, columns = row_count[use], column_count[use]
        padded = -(-rows // panel) * panel
        for r in range(rows):
            line = start[use] + maps[row_list[use] + r] * stride[use]
            if not dirty[line]:
                continue
            last = padded if r == rows - 1 else r + 1
            for c in range(-(-columns // panel) * panel):
                value = base[line + maps[column_list[use] + min(c, columns - 1)]] * factor[use]
                value = value if value < np.inf else stand_in
                cells[forward[use] + (c // panel) * rows * panel + r * panel + c % panel] = value
                if c < columns:
                    for a in range(r, last):
                        cells[backward[use] + (a // panel) * columns * panel + c * panel + a % panel] = value


@kernel
def pass_messages(exact, unary, messages, stand_in, ascending, hat, own, other):
    """Pass messages once over all nodes in one direction, as `sweep` does, on tables that are not packed.

    Args:
        exact: The :class:`~berthage_trws.layout.Exact` costs.
        unary: Costs of the labels.
        messages: Incoming messages; changed in place.
        stand_in: Cost of a forbidden pair.
        ascending: The direction.
        hat: float64 scratch, as long as the longest padded vector, as are the next two.
        own: Scratch.
        other: Scratch.
    """
    n = np.uint64(len(exact.labels))
    for position in range(n):
        i = position if ascending else n - _1 - position
        count, start = exact.labels[i], exact.label_ptr[i]
        low, middle, high = exact.half_ptr[i], exact.half_mid[i], exact.half_ptr[i + _1]
        width = (count + _P - _1) // _P * _P
        for k in range(count):
            hat[k] = unary[start + k]
        for h in range(low, high):
            inbox = exact.message_ptr[i] + (h - low) * width
            for k in range(count):
                hat[k] += messages[inbox + k]
        least = np.inf
        for k in range(count):
            if hat[k] < least:
                least = hat[k]
        begin, end = (middle, high) if ascending else (low, middle)
        if begin == end:
            continue
        share = 1.0 / max(float(middle - low), float(high - middle))
        for h in range(begin, end):
            inbox = exact.message_ptr[i] + (h - low) * width
            rows, columns = exact.own_count[h], exact.other_count[h]
            for r in range(rows):
                own[r] = np.inf
            for c in range(columns):
                other[c] = np.inf
            for k in range(count):
                r = k if exact.own_line[h] == _NONE else exact.maps[exact.own_line[h] + k]
                value = share * (hat[k] - least) - messages[inbox + k]
                if value < own[r]:
                    own[r] = value
            origin, factor = exact.origin[h], exact.factor[h]
            for r in range(rows):
                row = origin + exact.maps[exact.own_lines[h] + r] * exact.own_step[h]
                mine = own[r]
                for c in range(columns):
                    value = exact.base[row + exact.maps[exact.other_lines[h] + c] * exact.other_step[h]] * factor
                    value = mine + (value if value < np.inf else stand_in)
                    if value < other[c]:
                        other[c] = value
            shift = np.inf
            for c in range(columns):
                if other[c] < shift:
                    shift = other[c]
            j = exact.neighbour[h]
            there = exact.labels[j]
            back = exact.message_ptr[j]
            back += (exact.mate[h] - exact.half_ptr[j]) * ((there + _P - _1) // _P * _P)
            for k in range(there):
                c = k if exact.other_line[h] == _NONE else exact.maps[exact.other_line[h] + k]
                messages[back + k] = other[c] - shift
