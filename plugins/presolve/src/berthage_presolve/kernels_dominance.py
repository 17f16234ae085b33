"""Compiled kernel: labels that another label of the same variable replaces without harm, whatever the others choose."""

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
    ROW_AT,
    ROW_STEP,
    ROWS,
    V,
)
from berthage_presolve.jit import kernel

Array = np.ndarray[Any, Any]
PROBES = 8
"""Sampled choices of the neighbours that weed out most pairs of labels before the full comparison."""
MOST_SAMPLES = 1_000_000
"""Labels times edges of a variable beyond which it is left alone, to bound memory."""
TRIES = 16
"""Full comparisons that one label's removal is worth."""


@kernel
def _sampled(sample: Array, i: int, a: int, b: int) -> float:
    """The largest sampled ``V(a, k) − V(b, k)`` of one edge: no more than the true maximum. -inf when none is known."""
    worst = -np.inf
    for t in range(PROBES):
        if sample[i, b, t] != np.inf:
            worst = max(worst, sample[i, a, t] - sample[i, b, t])
    return worst


@kernel
def dominated(
    ptr: Array,
    unary: Array,
    edges: Array,
    mult: Array,
    maps: Array,
    cells: Array,
    inc_ptr: Array,
    halves: Array,
    row_ptr: Array,
    row_at: Array,
    row_sense: Array,
    weights: Array,
    alive: Array,
    winners: Array,
    budget_of_steps: int,
) -> tuple[int, float, int]:
    """Remove dominated labels, one variable after the other.

    Label b of v is dominated by a when a uses no more of any budget (no less where a budget has a lower limit) and
    ``unary_a − unary_b + Σ_e max_k (V_e(a, k) − V_e(b, k)) ≤ 0`` over the live labels k of each neighbour, the
    Dead-End-Elimination criterion of Goldstein (1994). Removals take effect at once, so that of two labels that
    dominate each other one stays.

    Args:
        ptr: int64[n+1], first label of each variable.
        unary: float64[labels].
        edges: int64[m, WIDTH].
        mult: float64[m].
        maps: int32, class maps.
        cells: float64, costs.
        inc_ptr: From `incidence`.
        halves: From `incidence`.
        row_ptr: int64[n+1], budget rows of each variable.
        row_at: int64[rows], first weight of each row.
        row_sense: int64[rows], bit 0: more is worse, bit 1: less is worse.
        weights: float64, weights of the rows.
        alive: bool[labels], changed in place.
        winners: int64[labels, 2]; of each removed label the index of its replacement and the rank of the removal.
        budget_of_steps: Give up after so many elementary comparisons (a deterministic limit on time).

    Returns:
        Number removed, the sum of the magnitudes compared (to bound rounding), and the steps taken.
    """
    n = len(ptr) - 1
    removed, magnitude, steps = 0, 0.0, 0
    most = 1
    for e in range(len(edges)):
        most = max(most, edges[e, ROWS], edges[e, COLS])
    seen = np.zeros(most, dtype=np.int64)
    stamp = 0
    for v in range(n):
        k, first = ptr[v + 1] - ptr[v], ptr[v]
        if k < 2:
            continue
        if steps > budget_of_steps:
            break
        degree = inc_ptr[v + 1] - inc_ptr[v]
        if degree * k > MOST_SAMPLES:
            continue
        # Live classes of every neighbour, gathered once.
        starts = np.zeros(degree + 1, dtype=np.int64)
        total = 0
        for i in range(degree):
            e, side = halves[inc_ptr[v] + i] // 2, halves[inc_ptr[v] + i] % 2
            y = edges[e, V - side]
            total += min(ptr[y + 1] - ptr[y], edges[e, COLS - side])
        classes = np.empty(total, dtype=np.int64)
        total, exact = 0, True
        for i in range(degree):
            e, side = halves[inc_ptr[v] + i] // 2, halves[inc_ptr[v] + i] % 2
            if edges[e, KIND] != COST:
                exact = False
            else:
                y, other_at = edges[e, V - side], edges[e, COL_AT - side]
                stamp += 1
                for b in range(ptr[y + 1] - ptr[y]):
                    if alive[ptr[y] + b]:
                        c = maps[other_at + b]
                        if seen[c] != stamp:
                            seen[c] = stamp
                            classes[total] = c * edges[e, COL_STEP - side]
                            total += 1
            starts[i + 1] = total
        # Costs of every label against the sampled partners: by edge, and summed over edges.
        sample = np.zeros((degree, k, PROBES))
        profile = np.zeros((k, PROBES))
        turn, order = np.zeros(degree, dtype=np.int64), np.arange(degree)
        for a in range(k):
            if not alive[first + a]:
                continue
            for t in range(PROBES):
                profile[a, t] = unary[first + a]
            for i in range(degree):
                e, side = halves[inc_ptr[v] + i] // 2, halves[inc_ptr[v] + i] % 2
                count = starts[i + 1] - starts[i]
                if count == 0:
                    continue
                row = edges[e, AT] + maps[edges[e, ROW_AT + side] + a] * edges[e, ROW_STEP + side]
                for t in range(PROBES):
                    cost = mult[e] * cells[row + classes[starts[i] + (t * count) // PROBES]]
                    sample[i, a, t] = cost
                    profile[a, t] += cost
        steps += k * (degree + k) * PROBES + total
        # Cheap labels dominate most: they are compared first, with ties to the lower index.
        mean, promise = np.zeros(k), np.empty(k, dtype=np.int64)
        for a in range(k):
            for t in range(PROBES):
                mean[a] += profile[a, t] if profile[a, t] != np.inf else abs(unary[first + a])
            rank = a
            while rank and mean[promise[rank - 1]] > mean[a]:
                promise[rank] = promise[rank - 1]
                rank -= 1
            promise[rank] = a
        for b in range(k - 1, -1, -1):
            if not alive[first + b] or unary[first + b] == np.inf:
                continue
            tries = 0
            for rank in range(k):
                a = promise[rank]
                if a == b or not alive[first + a] or unary[first + a] == np.inf:
                    continue
                fits = True
                if exact:
                    for t in range(PROBES):
                        # Rounding may differ between the probes and the full sum: allow for it, the full sum decides.
                        if profile[a, t] > profile[b, t] + 1e-9 * (abs(profile[b, t]) + 1.0):
                            fits = False
                            break
                if not fits:
                    continue
                for i in range(row_ptr[v], row_ptr[v + 1]):
                    wa, wb = weights[row_at[i] + a], weights[row_at[i] + b]
                    if (row_sense[i] & 1 and wa > wb) or (row_sense[i] & 2 and wa < wb):
                        fits = False
                        break
                if not fits:
                    continue
                # `hope` is what the excess comes to at least: sampled maxima stand in for edges not yet compared.
                excess, size = unary[first + a] - unary[first + b], abs(unary[first + a]) + abs(unary[first + b])
                hope = excess
                for i in range(degree):
                    hope += _sampled(sample, i, a, b)
                room = 1e-9 * (abs(hope) + size) if hope > -np.inf else np.inf
                if hope > room or hope == np.inf:
                    continue
                tries += 1
                if tries > TRIES:
                    break
                for p in range(degree):
                    i = order[p]
                    e, side = halves[inc_ptr[v] + i] // 2, halves[inc_ptr[v] + i] % 2
                    ra = maps[edges[e, ROW_AT + side] + a]
                    rb = maps[edges[e, ROW_AT + side] + b]
                    if ra == rb:
                        continue
                    if edges[e, KIND] != COST:
                        fits = False
                        break
                    guess = _sampled(sample, i, a, b)
                    others = hope - guess if hope > -np.inf else -np.inf
                    step = edges[e, ROW_STEP + side]
                    at_a, at_b = edges[e, AT] + ra * step, edges[e, AT] + rb * step
                    worst, top = -np.inf, 0.0
                    for j in range(starts[i], starts[i + 1]):
                        steps += 1
                        cb = cells[at_b + classes[j]]
                        if cb == np.inf:
                            continue
                        ca = cells[at_a + classes[j]]
                        worst = max(worst, ca - cb)
                        top = max(top, abs(cb))
                        if others + mult[e] * worst > room:
                            fits = False
                            order[p], order[0] = order[0], i  # it decides again, likely
                            if 2 * (j - starts[i]) > k:  # it took long to find: sample this partner from now on
                                slot = turn[i] % PROBES
                                turn[i] += 1
                                for c in range(k):
                                    row = edges[e, AT] + maps[edges[e, ROW_AT + side] + c] * step
                                    sample[i, c, slot] = mult[e] * cells[row + classes[j]]
                            break
                    if not fits or worst == np.inf:
                        fits = False
                        break
                    # worst stays -inf when b has no partner at all: then b is dead, and anything dominates it.
                    excess += mult[e] * worst
                    hope = others + mult[e] * worst
                    size += mult[e] * (top + abs(worst)) if worst > -np.inf else 0.0
                if fits and excess <= 0.0:
                    alive[first + b] = False
                    winners[first + b, 0] = a
                    winners[first + b, 1] = removed
                    removed += 1
                    magnitude += size
                    break
    return removed, magnitude, steps
