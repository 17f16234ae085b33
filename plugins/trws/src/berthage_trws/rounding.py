"""From messages to assignments: conditioning in node order, and local search."""

# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

import numpy as np

from .jit import kernel

_0 = np.uint64(0)
_1 = np.uint64(1)
_P = np.uint64(8)


@kernel
def energy(exact, unary, state):
    """Cost of an assignment of compact labels, without constant and budgets; ``inf`` when a pair is forbidden."""
    total = 0.0
    for i in range(np.uint64(len(exact.labels))):
        total += unary[exact.label_ptr[i] + state[i]]
        for h in range(exact.half_ptr[i], exact.half_mid[i]):
            own = exact.maps[exact.own_map[h] + state[i]] * exact.own_step[h]
            other = exact.maps[exact.other_map[h] + state[exact.neighbour[h]]] * exact.other_step[h]
            total += exact.factor[h] * exact.base[exact.origin[h] + own + other]
    return total


@kernel
def _condition(exact, stand_in, h, count, state, cost):
    """Add the edge costs of every label of one end of ``h``, given the label at the other end."""
    fixed = exact.origin[h] + exact.maps[exact.other_map[h] + state[exact.neighbour[h]]] * exact.other_step[h]
    own, step, factor = exact.own_map[h], exact.own_step[h], exact.factor[h]
    for k in range(count):
        value = exact.base[fixed + exact.maps[own + k] * step] * factor
        cost[k] += value if value < np.inf else stand_in


@kernel
def round_messages(exact, unary, messages, stand_in, ascending, state, cost):
    """Fix the nodes in order (or in reverse): each takes its best label given those fixed and the messages of the rest.

    Args:
        exact: The :class:`~berthage_trws.layout.Exact` costs.
        unary: Costs of the labels kept.
        messages: Incoming messages.
        stand_in: Cost of a forbidden pair.
        ascending: The direction.
        state: Compact label of each node; filled in.
        cost: Scratch, as long as the longest label vector.
    """
    n = np.uint64(len(exact.labels))
    for position in range(n):
        i = position if ascending else n - _1 - position
        count, start = exact.labels[i], exact.label_ptr[i]
        low, middle, high = exact.half_ptr[i], exact.half_mid[i], exact.half_ptr[i + _1]
        width = (count + _P - _1) // _P * _P
        for k in range(count):
            cost[k] = unary[start + k]
        for h in range(low, high):
            if (h < middle) == ascending:
                _condition(exact, stand_in, h, count, state, cost)
            else:
                inbox = exact.message_ptr[i] + (h - low) * width
                for k in range(count):
                    cost[k] += messages[inbox + k]
        best = _0
        for k in range(_1, count):
            if cost[k] < cost[best]:
                best = k
        state[i] = best


@kernel
def descend(exact, unary, stand_in, state, rounds, waiting, cost):
    """Move single nodes to their best label given their neighbours until none gains; returns the number of moves.

    Only nodes marked in ``waiting`` (bool, by node) are looked at; a move marks its neighbours.
    """
    moves = 0
    for _ in range(rounds):
        changed = False
        for i in range(np.uint64(len(exact.labels))):
            if not waiting[i]:
                continue
            waiting[i] = False
            count, start = exact.labels[i], exact.label_ptr[i]
            if count == _1:
                continue
            for k in range(count):
                cost[k] = unary[start + k]
            for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
                _condition(exact, stand_in, h, count, state, cost)
            best, now = state[i], state[i]
            for k in range(count):
                if cost[k] < cost[best]:
                    best = k
            if cost[best] < cost[now] - 1e-12 * abs(cost[now]):
                state[i] = best
                moves += 1
                changed = True
                for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
                    waiting[exact.neighbour[h]] = True
        if not changed:
            break
    return moves


@kernel
def descend_pairs(exact, unary, stand_in, state, first, last, waiting, cost, other_cost):
    """Move both ends of an edge at once where that gains, for the edges up from nodes ``first … last - 1``.

    Marks moved nodes and their neighbours in ``waiting``; returns the number of moves.
    """
    moves = 0
    for i in range(first, last):
        count, start = exact.labels[i], exact.label_ptr[i]
        for h in range(exact.half_mid[i], exact.half_ptr[i + _1]):
            j = exact.neighbour[h]
            there = exact.labels[j]
            if count * there <= np.uint64(2):
                continue
            for k in range(count):
                cost[k] = unary[start + k]
            for g in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
                if g != h:
                    _condition(exact, stand_in, g, count, state, cost)
            for k in range(there):
                other_cost[k] = unary[exact.label_ptr[j] + k]
            for g in range(exact.half_ptr[j], exact.half_ptr[j + _1]):
                if g != exact.mate[h]:
                    _condition(exact, stand_in, g, there, state, other_cost)
            origin, own_step, other_step = exact.origin[h], exact.own_step[h], exact.other_step[h]
            own, other, factor = exact.own_map[h], exact.other_map[h], exact.factor[h]
            best, best_k, best_l = np.inf, state[i], state[j]
            line = origin + exact.maps[own + state[i]] * own_step
            value = exact.base[line + exact.maps[other + state[j]] * other_step] * factor
            now = cost[state[i]] + other_cost[state[j]] + (value if value < np.inf else stand_in)
            for k in range(count):
                line = origin + exact.maps[own + k] * own_step
                for k2 in range(there):
                    value = exact.base[line + exact.maps[other + k2] * other_step] * factor
                    value = cost[k] + other_cost[k2] + (value if value < np.inf else stand_in)
                    if value < best:
                        best, best_k, best_l = value, k, k2
            if best < now - 1e-12 * abs(now):
                state[i], state[j] = best_k, best_l
                moves += 1
                waiting[i], waiting[j] = True, True
                for g in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
                    waiting[exact.neighbour[g]] = True
                for g in range(exact.half_ptr[j], exact.half_ptr[j + _1]):
                    waiting[exact.neighbour[g]] = True
    return moves
