"""Compiled kernels: arc consistency, counting allowed pairs, separable tables, hashing of maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from berthage_presolve.edge_columns import (
    AT,
    COL_AT,
    COL_STEP,
    COLS,
    COST,
    KIND,
    LAZY,
    ROW_AT,
    ROW_STEP,
    ROWS,
    TIE,
    U,
    V,
)
from berthage_presolve.jit import kernel

Array = np.ndarray[Any, Any]


@kernel
def incidence(count: int, edges: Array) -> tuple[Array, Array]:
    """Half-edges by variable: ``ptr`` int64[n+1] and ``halves`` with ``2·edge + (0 at U, 1 at V)``."""
    ptr = np.zeros(count + 1, dtype=np.int64)
    for e in range(len(edges)):
        ptr[edges[e, U] + 1] += 1
        ptr[edges[e, V] + 1] += 1
    for v in range(count):
        ptr[v + 1] += ptr[v]
    halves = np.empty(2 * len(edges), dtype=np.int64)
    fill = np.empty(count, dtype=np.int64)
    for v in range(count):
        fill[v] = ptr[v]
    for e in range(len(edges)):
        for side in range(2):
            v = edges[e, U + side]
            halves[fill[v]] = 2 * e + side
            fill[v] += 1
    return ptr, halves


@kernel
def propagate(
    ptr: Array, alive: Array, cause: Array, edges: Array, maps: Array, cells: Array, inc_ptr: Array, halves: Array
) -> int:
    """Make every edge arc consistent (AC-3 over classes): a label without an allowed partner dies.

    Args:
        ptr: int64[n+1], first label of each variable.
        alive: bool[labels], changed in place.
        cause: int64[labels]; the edge that killed a label is written here.
        edges: int64[h, WIDTH], the edges that forbid something.
        maps: int32, class maps.
        cells: float64, costs.
        inc_ptr: From `incidence` of these edges.
        halves: From `incidence` of these edges.

    Returns:
        A variable that lost all labels, or -1.
    """
    most = 1
    for e in range(len(edges)):
        most = max(most, edges[e, ROWS], edges[e, COLS])
    seen = np.zeros(most, dtype=np.int64)
    classes = np.empty(most, dtype=np.int64)
    state = np.zeros(most, dtype=np.int64)  # 2·stamp: class has no partner, 2·stamp + 1: it has one
    queue = np.empty(max(2 * len(edges), 1), dtype=np.int64)
    queued = np.ones(2 * len(edges), dtype=np.bool_)
    for i in range(2 * len(edges)):
        queue[i] = i
    first, size, stamp = 0, 2 * len(edges), 0
    while size:
        arc = queue[first]
        first += 1
        if first == len(queue):
            first = 0
        size -= 1
        queued[arc] = False
        e, side = arc // 2, arc % 2
        x, y = edges[e, U + side], edges[e, V - side]
        own_at, other_at = edges[e, ROW_AT + side], edges[e, COL_AT - side]
        own_step, other_step = edges[e, ROW_STEP + side], edges[e, COL_STEP - side]
        at, tie = edges[e, AT], edges[e, KIND] == TIE
        stamp += 1
        live = 0
        for b in range(ptr[y + 1] - ptr[y]):
            if alive[ptr[y] + b]:
                c = maps[other_at + b]
                if seen[c] != stamp:
                    seen[c] = stamp
                    classes[live] = c
                    live += 1
        changed, left = False, 0
        for a in range(ptr[x + 1] - ptr[x]):
            if not alive[ptr[x] + a]:
                continue
            r = maps[own_at + a]
            if state[r] // 2 != stamp:
                found = 0
                if tie:
                    found = 1 if seen[r] == stamp else 0
                else:
                    row = at + r * own_step
                    for j in range(live):
                        if cells[row + classes[j] * other_step] != np.inf:
                            found = 1
                            break
                state[r] = 2 * stamp + found
            if state[r] % 2 == 0:
                alive[ptr[x] + a] = False
                cause[ptr[x] + a] = e
                changed = True
            else:
                left += 1
        if left == 0:
            return int(x)
        if changed:
            for i in range(inc_ptr[x], inc_ptr[x + 1]):
                f, at_side = halves[i] // 2, halves[i] % 2
                other = 2 * f + (1 - at_side)
                if f != e and not queued[other]:
                    queued[other] = True
                    queue[(first + size) % len(queue)] = other
                    size += 1
    return -1


@kernel
def has_infinite(at: Array, size: Array, cells: Array) -> Array:
    """Whether each stretch of cells holds an infinite cost, bool[len(at)]."""
    out = np.zeros(len(at), dtype=np.bool_)
    for i in range(len(at)):
        for j in range(at[i], at[i] + size[i]):
            if cells[j] == np.inf:
                out[i] = True
                break
    return out


@kernel
def allowed_pairs(ptr: Array, edges: Array, maps: Array, cells: Array, out: Array) -> None:
    """Number of allowed label pairs of each edge, into int64 `out`; -1 for an edge that is priced on demand."""
    most = 1
    for e in range(len(edges)):
        most = max(most, edges[e, ROWS], edges[e, COLS])
    rows, cols = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    for e in range(len(edges)):
        if edges[e, KIND] == LAZY:
            out[e] = -1
            continue
        u, v = edges[e, U], edges[e, V]
        for r in range(edges[e, ROWS]):
            rows[r] = 0
        for c in range(edges[e, COLS]):
            cols[c] = 0
        for a in range(ptr[u + 1] - ptr[u]):
            rows[maps[edges[e, ROW_AT] + a]] += 1
        for b in range(ptr[v + 1] - ptr[v]):
            cols[maps[edges[e, COL_AT] + b]] += 1
        total = 0
        for r in range(edges[e, ROWS]):
            if rows[r] == 0:
                continue
            if edges[e, KIND] == TIE:
                total += rows[r] * cols[r]
                continue
            row, partners = edges[e, AT] + r * edges[e, ROW_STEP], 0
            for c in range(edges[e, COLS]):
                if cols[c] and cells[row + c * edges[e, COL_STEP]] != np.inf:
                    partners += cols[c]
            total += rows[r] * partners
        out[e] = total


@kernel
def separate(
    ptr: Array, unary: Array, edges: Array, mult: Array, maps: Array, cells: Array, alive: Array
) -> tuple[int, float]:
    """Fold edges that say ``f(a) + g(b)`` into the unary costs of their ends.

    Args:
        ptr: int64[n+1], first label of each variable.
        unary: float64[labels], changed in place.
        edges: int64[m, WIDTH].
        mult: float64[m], multiplicities.
        maps: int32, class maps.
        cells: float64, costs.
        alive: bool[m], cleared for folded edges.

    Returns:
        How many were folded, and the sum of the largest magnitudes that were added (to bound rounding).
    """
    folded, magnitude = 0, 0.0
    for e in range(len(edges)):
        if edges[e, KIND] != COST:
            continue
        u, v = edges[e, U], edges[e, V]
        at, rs, cs = edges[e, AT], edges[e, ROW_STEP], edges[e, COL_STEP]
        ku, kv = ptr[u + 1] - ptr[u], ptr[v + 1] - ptr[v]
        r0, c0 = maps[edges[e, ROW_AT]], maps[edges[e, COL_AT]]
        corner = cells[at + r0 * rs + c0 * cs]
        good = np.isfinite(corner)
        for a in range(ku):
            if not good:
                break
            row = at + maps[edges[e, ROW_AT] + a] * rs
            base = cells[row + c0 * cs]
            if not np.isfinite(base):
                good = False
                break
            for b in range(kv):
                c = maps[edges[e, COL_AT] + b] * cs
                if cells[row + c] != base + (cells[at + r0 * rs + c] - corner):
                    good = False
                    break
        if not good:
            continue
        alive[e] = False
        folded += 1
        peak = 0.0
        for a in range(ku):
            cost = mult[e] * cells[at + maps[edges[e, ROW_AT] + a] * rs + c0 * cs]
            unary[ptr[u] + a] += cost
            peak = max(peak, abs(cost))
        for b in range(kv):
            cost = mult[e] * (cells[at + r0 * rs + maps[edges[e, COL_AT] + b] * cs] - corner)
            unary[ptr[v] + b] += cost
            peak = max(peak, abs(cost))
        magnitude += peak
    return folded, magnitude


@kernel
def hash_maps(ptr: Array, edges: Array, maps: Array) -> Array:
    """uint64[m, 2]: hashes of the row map and of the column map of each edge (FNV-1a over whole entries)."""
    out = np.empty((len(edges), 2), dtype=np.uint64)
    prime, start = np.uint64(1099511628211), np.uint64(14695981039346656037)
    for e in range(len(edges)):
        for side in range(2):
            x = edges[e, U + side]
            at = edges[e, ROW_AT + side]
            value = start
            for a in range(ptr[x + 1] - ptr[x]):
                value = (value ^ np.uint64(maps[at + a] + 1)) * prime
                value ^= value >> np.uint64(29)
            out[e, side] = value
    return out


@kernel
def connected(count: int, first: Array, second: Array) -> Array:
    """int64[count]: the least member of each item's component, given pairs of connected items."""
    root = np.arange(count)
    for i in range(len(first)):
        a, b = first[i], second[i]
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        if a < b:
            root[b] = a
        else:
            root[a] = b
    for i in range(count):
        root[i] = root[root[i]]
    return root


@kernel
def critical_segments(starts: Array, stops: Array, fixed: Array, most: Array, limit: float) -> Array:
    """Segments of a timeline at which a budget can be violated and that no other kept segment makes redundant.

    A segment is redundant when its neighbour (among the kept) has all that is live in it and no less fixed use.

    Args:
        starts: bool[s], whether an undecided row starts at the beginning of the segment.
        stops: bool[s], whether an undecided row stops at the beginning of the segment.
        fixed: float64[s], use that is decided.
        most: float64[s], greatest use.
        limit: What may be used.

    Returns:
        int64, indices of the segments to keep, increasing.
    """
    kept = np.empty(len(most), dtype=np.int64)
    begins, ends = np.empty(len(most), dtype=np.bool_), np.empty(len(most), dtype=np.bool_)  # between kept neighbours
    size = 0
    start, stop = np.bool_(False), np.bool_(False)
    for s in range(len(most)):
        start |= starts[s]
        stop |= stops[s]
        if not most[s] > limit:
            continue
        while size and not stop and fixed[kept[size - 1]] <= fixed[s]:
            size -= 1
            start |= begins[size]
            stop |= ends[size]
        if size and not start and fixed[s] <= fixed[kept[size - 1]]:
            continue
        kept[size], begins[size], ends[size] = s, start, stop
        size += 1
        start, stop = np.bool_(False), np.bool_(False)
    return kept[:size]
