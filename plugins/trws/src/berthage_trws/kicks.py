"""Iterated local search: small random changes, repaired greedily around them, kept unless they cost more."""

# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

import numpy as np

from .jit import kernel

MOST_MOVES = 64
"""Moves that may follow one kick."""

_0 = np.uint64(0)
_1 = np.uint64(1)


@kernel
def _random(seed):
    """Next number of Marsaglia's xorshift64."""
    x = seed[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    seed[0] = x
    return x >> np.uint64(11)


@kernel
def _costs(exact, unary, stand_in, state, i, cost):
    """Costs of the labels of node ``i`` given its neighbours; returns the numbers read."""
    count, start = exact.labels[i], exact.label_ptr[i]
    for k in range(count):
        cost[k] = unary[start + k]
    for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
        fixed = exact.origin[h] + exact.maps[exact.other_map[h] + state[exact.neighbour[h]]] * exact.other_step[h]
        own, step, factor = exact.own_map[h], exact.own_step[h], exact.factor[h]
        for k in range(count):
            value = exact.base[fixed + exact.maps[own + k] * step] * factor
            cost[k] += value if value < np.inf else stand_in
    return count * (_1 + exact.half_ptr[i + _1] - exact.half_ptr[i])


@kernel
def kick(exact, unary, stand_in, state, best, seed, work, tally, slack, cost, queue, waiting, trail):
    """Kick random nodes and their surroundings until about ``work`` numbers were read; returns the number of new bests.

    A kick gives a node, and up to two nodes along a random walk from it, random labels. Their neighbours then take
    their best labels, and so on outward; at last the kicked nodes themselves may. What then costs more than the best
    assignment so far by more than ``slack`` is undone, unless it is cheaper than before (threshold accepting).

    Args:
        exact: The :class:`~berthage_trws.layout.Exact` costs.
        unary: Costs of the labels kept.
        stand_in: Cost of a forbidden pair.
        state: Compact label of each node; changed in place.
        best: The cheapest assignment met; changed in place.
        seed: ``uint64[1]``, not zero; changed in place.
        work: Numbers to read.
        tally: ``float64[3]``: cost of ``state`` above ``best``; number and sum of what kicks would have cost more.
        slack: How much dearer than the best an assignment may become.
        cost: Scratch, as long as the longest label vector.
        queue: ``uint64[nodes]`` scratch.
        waiting: ``int8[nodes]`` scratch, all zero; all zero afterwards.
        trail: ``uint64[MOST_MOVES + 4, 2]`` scratch.
    """
    n = np.uint64(len(exact.labels))
    found, done = 0, _0
    while done < work:
        i = _random(seed) % n
        done += _1
        if exact.labels[i] < np.uint64(2):
            continue
        delta, length, size = 0.0, 0, _random(seed) % np.uint64(3)
        head, tail, queued = _0, _0, _0
        for _ in range(size + _1):
            now = state[i]
            k = _random(seed) % exact.labels[i]
            if k != now and waiting[i] != 2:
                done += _costs(exact, unary, stand_in, state, i, cost)
                delta += cost[k] - cost[now]
                trail[length, 0], trail[length, 1] = i, now
                length += 1
                state[i] = k
                waiting[i] = 2
            degree = exact.half_ptr[i + _1] - exact.half_ptr[i]
            if degree == _0:
                break
            i = exact.neighbour[exact.half_ptr[i] + _random(seed) % degree]
        kicked = length
        for t in range(kicked):
            for h in range(exact.half_ptr[trail[t, 0]], exact.half_ptr[trail[t, 0] + _1]):
                j = exact.neighbour[h]
                if waiting[j] == 0:
                    waiting[j] = 1
                    queue[tail] = j
                    tail = tail + _1 if tail + _1 < n else _0
                    queued += _1
        released = False
        while queued > _0 or not released:
            if queued == _0:
                released = True
                for t in range(kicked):
                    waiting[trail[t, 0]] = 1
                    queue[tail] = trail[t, 0]
                    tail = tail + _1 if tail + _1 < n else _0
                    queued += _1
                continue
            i = queue[head]
            head = head + _1 if head + _1 < n else _0
            queued -= _1
            waiting[i] = 0
            if length >= MOST_MOVES:
                continue
            done += _costs(exact, unary, stand_in, state, i, cost)
            now, to = state[i], state[i]
            for k in range(exact.labels[i]):
                if cost[k] < cost[to]:
                    to = k
            if cost[to] < cost[now] - 1e-12 * abs(cost[now]):
                delta += cost[to] - cost[now]
                trail[length, 0], trail[length, 1] = i, now
                length += 1
                state[i] = to
                for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
                    j = exact.neighbour[h]
                    if waiting[j] == 0:
                        waiting[j] = 1
                        queue[tail] = j
                        tail = tail + _1 if tail + _1 < n else _0
                        queued += _1
        if delta > 0.0 and delta < stand_in:
            tally[1] += 1.0
            tally[2] += delta
        if delta <= 0.0 or tally[0] + delta <= slack:
            tally[0] += delta
            if tally[0] < -1e-12:
                tally[0] = 0.0
                found += 1
                for j in range(n):
                    best[j] = state[j]
        else:
            while length > 0:
                length -= 1
                state[trail[length, 0]] = trail[length, 1]
    return found
