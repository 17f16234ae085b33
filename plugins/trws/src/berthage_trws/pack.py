"""Compiled helpers that build the packed tables: finding equal rows, and laying tables out in panels."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from .jit import kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)
_OTHER_MIX = np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)


@kernel
def find_classes(bits, row_class, column_class):
    """Classes of equal rows and of equal columns of one table, numbered by first occurrence.

    Args:
        bits: The table as bit patterns, ``uint64[rows, columns]``.
        row_class: Filled in.
        column_class: Filled in.

    Returns:
        The numbers of row classes and of column classes.
    """
    rows, columns = bits.shape
    row_hash, column_hash = np.zeros(rows, np.uint64), np.zeros(columns, np.uint64)
    mixed = np.empty(columns, np.uint64)
    for c in range(columns):
        mixed[c] = (np.uint64(c) + np.uint64(1)) * _MIX
    for r in range(rows):
        salt = (np.uint64(r) + np.uint64(1)) * _OTHER_MIX
        salt ^= salt >> _SHIFT
        total = np.uint64(0)
        for c in range(columns):
            word = bits[r, c]
            word = (word ^ (word >> _SHIFT)) * _MIX
            word ^= word >> _SHIFT
            total += word * (mixed[c] | np.uint64(1))
            column_hash[c] += word * (salt | np.uint64(1))
        row_hash[r] = total
    return _number(bits, row_hash, row_class, True), _number(bits, column_hash, column_class, False)


@kernel
def _number(bits, hashes, classes, is_row):
    """Number equal lines with an open-addressing hash table; lines with equal hashes are compared."""
    count = len(hashes)
    size = 4
    while size < 2 * count:
        size *= 2
    slots = np.full(size, -1, np.int64)
    first = np.empty(count, np.int64)
    found = 0
    for i in range(count):
        slot = np.int64(hashes[i] >> np.uint64(20)) & (size - 1)
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot] = found
                first[found] = i
                classes[i] = found
                found += 1
                break
            j = first[known]
            if hashes[j] == hashes[i] and _equal(bits, i, j, is_row):
                classes[i] = known
                break
            slot = (slot + 1) & (size - 1)
    return found


@kernel
def _equal(bits, i, j, is_row):
    if is_row:
        for c in range(bits.shape[1]):
            if bits[i, c] != bits[j, c]:
                return False
    else:
        for r in range(bits.shape[0]):
            if bits[r, i] != bits[r, j]:
                return False
    return True


@kernel
def pack_tables(
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
    cells,
):
    """Write every table in panels, once with its rows and once with its columns as sources.

    ``inf`` becomes ``stand_in``; the padding of the last panel repeats the last column.

    Args:
        base: Cost tables, row-major.
        start: Where the table of each use starts.
        stride: Its row length.
        factor: What it is multiplied by.
        row_list: Where in ``maps`` the rows that the use takes are listed.
        row_count: How many they are.
        column_list: The same for columns.
        column_count: How many they are.
        maps: Index lists.
        panel: Columns per panel.
        stand_in: A finite number for ``inf``.
        forward: Where the form with rows as sources goes.
        backward: Where the form with columns as sources goes.
        cells: Filled in.
    """
    for use in range(len(start)):
        r, c = row_count[use], column_count[use]
        rows, columns = row_list[use], column_list[use]
        place = forward[use]
        for panel_start in range(0, c, panel):
            for a in range(r):
                line = start[use] + maps[rows + a] * stride[use]
                for b in range(panel_start, panel_start + panel):
                    value = base[line + maps[columns + min(b, c - 1)]] * factor[use]
                    cells[place] = value if value < np.inf else stand_in
                    place += 1
        place = backward[use]
        for panel_start in range(0, r, panel):
            for b in range(c):
                line = start[use] + maps[columns + b]
                for a in range(panel_start, panel_start + panel):
                    value = base[line + maps[rows + min(a, r - 1)] * stride[use]] * factor[use]
                    cells[place] = value if value < np.inf else stand_in
                    place += 1


@kernel
def breadth_first(ptr, neighbour):
    """The nodes breadth first, each component from its lowest node."""
    n = len(ptr) - 1
    order = np.empty(n, np.int64)
    seen = np.zeros(n, np.bool_)
    filled = 0
    for root in range(n):
        if seen[root]:
            continue
        seen[root] = True
        order[filled] = root
        head, filled = filled, filled + 1
        while head < filled:
            i = order[head]
            head += 1
            for h in range(ptr[i], ptr[i + 1]):
                j = neighbour[h]
                if not seen[j]:
                    seen[j] = True
                    order[filled] = j
                    filled += 1
    return order
