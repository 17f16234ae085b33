"""Compiled kernels: merging parallel edges, eliminating variables of degree 0, 1 and 2, and undoing that."""

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
    RELATION,
    ROW_AT,
    ROW_STEP,
    ROWS,
    SOURCE,
    U,
    V,
)
from berthage_presolve.jit import kernel

Array = np.ndarray[Any, Any]


@kernel
def _reserve_floats(buffer: Array, used: int, extra: int) -> Array:
    if used + extra <= len(buffer):
        return buffer
    grown = np.empty(2 * (used + extra), dtype=np.float64)
    for i in range(used):
        grown[i] = buffer[i]
    return grown


@kernel
def _reserve_maps(buffer: Array, used: int, extra: int) -> Array:
    if used + extra <= len(buffer):
        return buffer
    grown = np.empty(2 * (used + extra), dtype=np.int32)
    for i in range(used):
        grown[i] = buffer[i]
    return grown


@kernel
def _number(keys: Array, out: Array) -> Array:
    """Number equal keys alike, from 0 in order of first use, into `out`; the position of each number's first use."""
    # An open-addressing hash table: sorting would be slower, and much slower to compile.
    slots = 4
    while slots < 2 * len(keys):
        slots *= 2
    table = np.full(slots, -1, dtype=np.int64)
    firsts = np.empty(len(keys), dtype=np.int64)
    count = 0
    for i in range(len(keys)):
        slot = (keys[i] * 0x9E3779B1) & (slots - 1)
        while table[slot] >= 0 and keys[firsts[table[slot]]] != keys[i]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = count
            firsts[count] = i
            count += 1
        out[i] = table[slot]
    return firsts[:count]


@kernel
def _same_costs(ptr: Array, edges: Array, maps: Array, e: int, f: int) -> bool:
    """Whether parallel edges e and f have the same cost for every pair of labels by construction."""
    flip = edges[e, U] != edges[f, U]
    if edges[e, KIND] != COST or edges[e, AT] != edges[f, AT]:
        return False
    for side in range(2):
        other = 1 - side if flip else side
        if edges[e, ROW_STEP + side] != edges[f, ROW_STEP + other]:
            return False
        x = edges[e, U + side]
        for a in range(ptr[x + 1] - ptr[x]):
            if maps[edges[e, ROW_AT + side] + a] != maps[edges[f, ROW_AT + other] + a]:
                return False
    return True


@kernel
def _pair_keys(ptr: Array, edges: Array, maps: Array, e: int, side: int, f: int, other: int) -> Array:
    """For each label of the end `side` of e (end `other` of f): one key for its classes in both edges."""
    x = edges[e, U + side]
    keys = np.empty(ptr[x + 1] - ptr[x], dtype=np.int64)
    for a in range(len(keys)):
        keys[a] = maps[edges[e, ROW_AT + side] + a] * edges[f, ROWS + other] + maps[edges[f, ROW_AT + other] + a]
    return keys


@kernel
def _append(
    edges: Array, mult: Array, new: int, u: int, v: int, at: int, rows: int, cols: int, row_at: int, col_at: int
) -> None:
    edges[new, U], edges[new, V], edges[new, AT] = u, v, at
    edges[new, ROW_STEP], edges[new, COL_STEP] = cols, 1
    edges[new, ROWS], edges[new, COLS] = rows, cols
    edges[new, ROW_AT], edges[new, COL_AT] = row_at, col_at
    edges[new, KIND], edges[new, SOURCE], edges[new, RELATION] = COST, -1, -1
    mult[new] = 1.0


@kernel
def _combine(
    ptr: Array, edges: Array, mult: Array, maps: Array, nm: int, cells: Array, nc: int,
    e: int, f: int, new: int, growth: float, free: int,
) -> tuple[bool, Array, int, Array, int, float]:  # fmt: skip
    """Write the sum of the parallel edges e and f as edge `new`, unless its table would be much larger than both."""
    flip = 1 if edges[e, U] != edges[f, U] else 0
    u, v = edges[e, U], edges[e, V]
    ku, kv = ptr[u + 1] - ptr[u], ptr[v + 1] - ptr[v]
    row_class, col_class = np.empty(ku, dtype=np.int64), np.empty(kv, dtype=np.int64)
    row_first = _number(_pair_keys(ptr, edges, maps, e, 0, f, flip), row_class)
    col_first = _number(_pair_keys(ptr, edges, maps, e, 1, f, 1 - flip), col_class)
    rows, cols = len(row_first), len(col_first)
    before = edges[e, ROWS] * edges[e, COLS] + edges[f, ROWS] * edges[f, COLS]
    if rows * cols > growth * before + free:
        return False, maps, nm, cells, nc, 0.0
    maps = _reserve_maps(maps, nm, ku + kv)
    cells = _reserve_floats(cells, nc, rows * cols)
    for a in range(ku):
        maps[nm + a] = row_class[a]
    for b in range(kv):
        maps[nm + ku + b] = col_class[b]
    peak = 0.0
    for i in range(rows):
        a = row_first[i]
        at_e = edges[e, AT] + maps[edges[e, ROW_AT] + a] * edges[e, ROW_STEP]
        at_f = edges[f, AT] + maps[edges[f, ROW_AT + flip] + a] * edges[f, ROW_STEP + flip]
        for j in range(cols):
            b = col_first[j]
            cost = mult[e] * cells[at_e + maps[edges[e, COL_AT] + b] * edges[e, COL_STEP]]
            cost += mult[f] * cells[at_f + maps[edges[f, COL_AT - flip] + b] * edges[f, COL_STEP - flip]]
            cells[nc + i * cols + j] = cost
            if cost != np.inf:
                peak = max(peak, abs(cost))
    _append(edges, mult, new, u, v, nc, rows, cols, nm, nm + ku)
    return True, maps, nm + ku + kv, cells, nc + rows * cols, peak


@kernel
def _link(heads: Array, links: Array, edges: Array, e: int) -> None:
    for side in range(2):
        x = edges[e, U + side]
        links[2 * e + side] = heads[x]
        heads[x] = 2 * e + side


@kernel
def _neighbours(heads: Array, links: Array, edges: Array, alive: Array, v: int, found: Array) -> tuple[int, bool]:
    """Live edges of v into `found` (at most 3, dead ones are unlinked), and whether all of them have stored costs."""
    count, stored = 0, True
    before, half = np.int64(-1), heads[v]
    while half >= 0:
        e = half // 2
        after = links[half]
        if not alive[e]:
            if before < 0:
                heads[v] = after
            else:
                links[before] = after
        else:
            if edges[e, KIND] != COST:
                stored = False
            found[count] = e
            count += 1
            if count == 3:
                break
            before = half
        half = after
    return count, stored


@kernel
def _between(heads: Array, links: Array, edges: Array, alive: Array, u: int, v: int, sizes: Array) -> int:
    """A live edge with stored costs between u and v, or -1."""
    if sizes[u] > sizes[v]:
        u, v = v, u
    half = heads[u]
    while half >= 0:
        e, side = half // 2, half % 2
        if alive[e] and edges[e, V - side] == v and edges[e, KIND] == COST:
            return int(e)
        half = links[half]
    return -1


@kernel
def contract(
    ptr: Array, unary: Array, edges: Array, mult: Array, edge_count: int, maps: Array, cells: Array,
    blocked: Array, eliminate: bool, growth: float, free: int,
) -> tuple[int, Array, Array, Array, Array, Array, int, float, int]:  # fmt: skip
    """Merge parallel edges, then eliminate variables of degree at most 2 until none is left.

    Args:
        ptr: int64[n+1], first label of each variable.
        unary: float64[labels], changed in place (messages are added; an eliminated variable's stay as they were last).
        edges: int64[capacity, WIDTH] with room for ``2·edge_count + 2·n`` edges, filled in place.
        mult: float64[capacity].
        edge_count: Edges at the start.
        maps: int32, class maps.
        cells: float64, costs.
        blocked: bool[n], variables that stay (they carry budget weight).
        eliminate: Whether to eliminate, or only merge parallel edges.
        growth: A computed table may have at most this many times the cells of what it replaces,
        free: plus this many.

    Returns:
        Number of edges now in `edges`, which of them are alive, maps, cells, the eliminated variables in order, their
        edges int64[·, 2] (-1 for none), how many edges were merged, the sum of the magnitudes of the computed entries'
        largest (to bound rounding), and a variable that turned out to have no allowed label or -1.
    """
    n = len(ptr) - 1
    nm, nc, m = len(maps), len(cells), edge_count
    alive = np.zeros(len(edges), dtype=np.bool_)
    for e in range(m):
        alive[e] = True
    heads, links = np.full(n, -1, dtype=np.int64), np.empty(2 * len(edges), dtype=np.int64)
    sizes = np.zeros(n, dtype=np.int64)
    for e in range(m):
        _link(heads, links, edges, e)
        sizes[edges[e, U]] += 1
        sizes[edges[e, V]] += 1
    merged, magnitude = 0, 0.0
    # Parallel edges: the last one seen to each neighbour, by variable.
    last = np.full(n, -1, dtype=np.int64)
    for u in range(n):
        half = heads[u]
        while half >= 0:
            e, side = half // 2, half % 2
            half = links[half]
            w = edges[e, V - side]
            if not alive[e] or edges[e, KIND] != COST or w < u:
                continue
            f = last[w]
            if f < 0 or not alive[f] or (edges[f, U] != u and edges[f, V] != u):
                last[w] = e
                continue
            if _same_costs(ptr, edges, maps, f, e):
                mult[f] += mult[e]
                alive[e] = False
                merged += 1
                continue
            good, maps, nm, cells, nc, peak = _combine(ptr, edges, mult, maps, nm, cells, nc, f, e, m, growth, free)
            if good:
                alive[e] = False
                alive[f] = False
                alive[m] = True
                _link(heads, links, edges, m)
                last[w] = m
                m += 1
                merged += 1
                magnitude += peak
    order, used = np.empty(n, dtype=np.int64), np.full((n, 2), -1, dtype=np.int64)
    done, bad = 0, -1
    if eliminate:
        # `low` holds variables to look at, `high` those seen with degree 2: lower degrees go first.
        low, high = np.arange(n), np.empty(n, dtype=np.int64)
        in_low, in_high = np.ones(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        gone = np.zeros(n, dtype=np.bool_)
        low_first, low_size, high_first, high_size = 0, n, 0, 0
        found = np.empty(3, dtype=np.int64)
        touched = np.empty(2, dtype=np.int64)
        while low_size or high_size:
            from_low = low_size > 0
            if from_low:
                v = low[low_first]
                low_first = (low_first + 1) % n
                low_size -= 1
                in_low[v] = False
            else:
                v = high[high_first]
                high_first = (high_first + 1) % n
                high_size -= 1
                in_high[v] = False
            if gone[v] or blocked[v]:
                continue
            count, stored = _neighbours(heads, links, edges, alive, v, found)
            if count > 2 or not stored:
                continue
            k, first = ptr[v + 1] - ptr[v], ptr[v]
            touch = 0
            if count == 0:
                best = np.inf
                for a in range(k):
                    best = min(best, unary[first + a])
                if best == np.inf:
                    bad = int(v)
                    break
            elif count == 1:
                e = found[0]
                side = 0 if edges[e, U] == v else 1
                w, classes = edges[e, V - side], edges[e, COLS - side]
                message = np.full(classes, np.inf)
                for a in range(k):
                    base = unary[first + a]
                    if base == np.inf:
                        continue
                    row = edges[e, AT] + maps[edges[e, ROW_AT + side] + a] * edges[e, ROW_STEP + side]
                    for c in range(classes):
                        message[c] = min(message[c], base + mult[e] * cells[row + c * edges[e, COL_STEP - side]])
                peak = 0.0
                for b in range(ptr[w + 1] - ptr[w]):
                    cost = message[maps[edges[e, COL_AT - side] + b]]
                    unary[ptr[w] + b] += cost
                    if unary[ptr[w] + b] != np.inf:
                        peak = max(peak, abs(cost), abs(unary[ptr[w] + b]))
                magnitude += 2.0 * peak
                alive[e] = False
                sizes[w] -= 1
                used[done, 0] = e
                touched[0], touch = w, 1
            else:
                if from_low:
                    if not in_high[v]:
                        in_high[v] = True
                        high[(high_first + high_size) % n] = v
                        high_size += 1
                    continue
                e, f = found[0], found[1]
                s, t = (0 if edges[e, U] == v else 1), (0 if edges[f, U] == v else 1)
                a_var, b_var = edges[e, V - s], edges[f, V - t]
                if a_var == b_var:  # parallel edges that were too large to merge
                    continue
                ka, kb = ptr[a_var + 1] - ptr[a_var], ptr[b_var + 1] - ptr[b_var]
                keys_a, keys_b = np.empty(ka, dtype=np.int64), np.empty(kb, dtype=np.int64)
                for a in range(ka):
                    keys_a[a] = maps[edges[e, COL_AT - s] + a]
                for b in range(kb):
                    keys_b[b] = maps[edges[f, COL_AT - t] + b]
                class_a, class_b = np.empty(ka, dtype=np.int64), np.empty(kb, dtype=np.int64)
                first_a, first_b = _number(keys_a, class_a), _number(keys_b, class_b)
                na, nb = len(first_a), len(first_b)
                before = edges[e, ROWS] * edges[e, COLS] + edges[f, ROWS] * edges[f, COLS]
                parallel = _between(heads, links, edges, alive, a_var, b_var, sizes)
                if parallel >= 0:
                    before += edges[parallel, ROWS] * edges[parallel, COLS]
                if na * nb > growth * before + free:
                    continue
                cells = _reserve_floats(cells, nc, na * nb)
                maps = _reserve_maps(maps, nm, ka + kb)
                for a in range(ka):
                    maps[nm + a] = class_a[a]
                for b in range(kb):
                    maps[nm + ka + b] = class_b[b]
                for j in range(na * nb):
                    cells[nc + j] = np.inf
                right = np.empty(nb)
                for x in range(k):
                    if unary[first + x] == np.inf:
                        continue
                    row_e = edges[e, AT] + maps[edges[e, ROW_AT + s] + x] * edges[e, ROW_STEP + s]
                    row_f = edges[f, AT] + maps[edges[f, ROW_AT + t] + x] * edges[f, ROW_STEP + t]
                    for j in range(nb):
                        right[j] = mult[f] * cells[row_f + keys_b[first_b[j]] * edges[f, COL_STEP - t]]
                    for i in range(na):
                        left = unary[first + x] + mult[e] * cells[row_e + keys_a[first_a[i]] * edges[e, COL_STEP - s]]
                        if left == np.inf:
                            continue
                        at = nc + i * nb
                        for j in range(nb):
                            cells[at + j] = min(cells[at + j], left + right[j])
                peak = 0.0
                for j in range(na * nb):
                    if cells[nc + j] != np.inf:
                        peak = max(peak, abs(cells[nc + j]))
                magnitude += 2.0 * peak
                _append(edges, mult, m, a_var, b_var, nc, na, nb, nm, nm + ka)
                nm += ka + kb
                nc += na * nb
                alive[e] = False
                alive[f] = False
                alive[m] = True
                _link(heads, links, edges, m)
                m += 1
                used[done, 0], used[done, 1] = e, f
                touched[0], touched[1], touch = a_var, b_var, 2
                if parallel >= 0:
                    good, maps, nm, cells, nc, peak = _combine(
                        ptr, edges, mult, maps, nm, cells, nc, parallel, m - 1, m, growth, free
                    )
                    if good:
                        alive[parallel] = False
                        alive[m - 1] = False
                        alive[m] = True
                        _link(heads, links, edges, m)
                        m += 1
                        magnitude += peak
                        sizes[a_var] -= 1
                        sizes[b_var] -= 1
            gone[v] = True
            order[done] = v
            done += 1
            for i in range(touch):
                w = touched[i]
                if not gone[w] and not in_low[w]:
                    in_low[w] = True
                    low[(low_first + low_size) % n] = w
                    low_size += 1
    return m, alive[:m], maps[:nm], cells[:nc], order[:done], used[:done], merged, magnitude, bad


@kernel
def choose_eliminated(
    ptr: Array, unary: Array, edges: Array, mult: Array, maps: Array, cells: Array,
    order: Array, used: Array, labels: Array,
) -> None:  # fmt: skip
    """Give each eliminated variable its best label given its neighbours', last eliminated first; `labels` in place."""
    for i in range(len(order) - 1, -1, -1):
        v = order[i]
        best, choice = np.inf, 0
        for a in range(ptr[v + 1] - ptr[v]):
            cost = unary[ptr[v] + a]
            for j in range(2):
                e = used[i, j]
                if e < 0:
                    continue
                side = 0 if edges[e, U] == v else 1
                w = edges[e, V - side]
                row = edges[e, AT] + maps[edges[e, ROW_AT + side] + a] * edges[e, ROW_STEP + side]
                cost += mult[e] * cells[row + maps[edges[e, COL_AT - side] + labels[w]] * edges[e, COL_STEP - side]]
            if cost < best:
                best, choice = cost, a
        labels[v] = choice
