"""Local search under budgets: making an assignment feasible, and improving it without leaving the budgets.

The cost of every label given the labels of its neighbours is kept for all nodes and recomputed from scratch for the
neighbours of a node that moves (adding and subtracting would leave NaN where ``inf`` occurs, and drift).
"""

# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

import numpy as np

from .jit import kernel

TRIES = 16
FEW_ROWS = np.uint64(64)

_0 = np.uint64(0)
_1 = np.uint64(1)


@kernel
def _refresh(exact, unary, stand_in, state, costs, i):
    """Recompute the costs of the labels of node ``i``."""
    count, start = exact.labels[i], exact.label_ptr[i]
    for k in range(count):
        costs[start + k] = unary[start + k]
    for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
        fixed = exact.origin[h] + exact.maps[exact.other_map[h] + state[exact.neighbour[h]]] * exact.other_step[h]
        own, step, factor = exact.own_map[h], exact.own_step[h], exact.factor[h]
        for k in range(count):
            value = exact.base[fixed + exact.maps[own + k] * step] * factor
            costs[start + k] += value if value < np.inf else stand_in


@kernel
def conditional_costs(exact, unary, stand_in, state, costs):
    """Fill ``costs`` with the cost of every label given the neighbours' labels."""
    for i in range(np.uint64(len(exact.labels))):
        _refresh(exact, unary, stand_in, state, costs, i)


@kernel
def _outside(rows, use, r):
    over = use[r] - rows.upper[r]
    under = rows.lower[r] - use[r]
    worst = over if over > under else under
    return worst if worst > 0.0 else 0.0


@kernel
def _burden(rows, use, i):
    """(hard violation, soft cost) of the rows and budgets that node ``i`` reaches."""
    hard, soft = 0.0, 0.0
    for e in range(rows.entry_ptr[i], rows.entry_ptr[i + _1]):
        if rows.row_start[e] >= rows.row_stop[e]:
            continue
        b = rows.budget[rows.row_start[e]]
        if rows.price[b] == np.inf:
            for r in range(rows.row_start[e], rows.row_stop[e]):
                hard += _outside(rows, use, r) / rows.size[r]
        else:
            counted = False  # a node may have several entries in one budget: its price counts once
            for f in range(rows.entry_ptr[i], e):
                if rows.row_start[f] < rows.row_stop[f] and rows.budget[rows.row_start[f]] == b:
                    counted = True
            if not counted:
                peak = 0.0
                for r in range(rows.budget_ptr[b], rows.budget_ptr[b + _1]):
                    peak = max(peak, _outside(rows, use, r))
                soft += rows.price[b] * peak
    return hard, soft


@kernel
def _shift(rows, use, i, old, new):
    for e in range(rows.entry_ptr[i], rows.entry_ptr[i + _1]):
        change = rows.weights[rows.weight_ptr[e] + new] - rows.weights[rows.weight_ptr[e] + old]
        if change != 0.0:
            for r in range(rows.row_start[e], rows.row_stop[e]):
                use[r] += change


@kernel
def _move(exact, unary, stand_in, rows, state, use, costs, i, k):
    _shift(rows, use, i, state[i], k)
    state[i] = k
    for h in range(exact.half_ptr[i], exact.half_ptr[i + _1]):
        _refresh(exact, unary, stand_in, state, costs, exact.neighbour[h])


@kernel
def violation(rows, use):
    """Total violation of hard rows, each in units of its limit, and the total cost of soft budgets."""
    hard, soft = 0.0, 0.0
    for b in range(np.uint64(len(rows.price))):
        peak = 0.0
        for r in range(rows.budget_ptr[b], rows.budget_ptr[b + _1]):
            outside = _outside(rows, use, r)
            if rows.price[b] == np.inf:
                hard += outside / rows.size[r]
            else:
                peak = max(peak, outside)
        if peak > 0.0:
            soft += rows.price[b] * peak
    return hard, soft


@kernel
def _is_simple(rows, i):
    """Whether node ``i`` has one entry, in a hard budget: then one number says what its move does to every row."""
    e = rows.entry_ptr[i]
    if rows.entry_ptr[i + _1] - e != _1 or rows.row_start[e] >= rows.row_stop[e]:
        return False
    return rows.price[rows.budget[rows.row_start[e]]] == np.inf


@kernel
def _best_relief(exact, rows, state, use, costs, frozen):
    """The move that relieves the most violated row at the least cost per unit: (found, node, label).

    A move that raises the total violation (elsewhere) does not count: the next best is tried, ``TRIES`` times.
    ``frozen`` (a node, or the number of nodes) is not moved.
    """
    worst, row = 0.0, _0
    for r in range(np.uint64(len(rows.upper))):
        if rows.price[rows.budget[r]] == np.inf:
            outside = _outside(rows, use, r) / rows.size[r]
            if outside > worst:
                worst, row = outside, r
    if worst == 0.0:
        return False, _0, _0
    sign = -1.0 if use[row] > rows.upper[row] else 1.0
    need = worst * rows.size[row]
    floor = -np.inf  # scores up to here were tried: those moves violate more elsewhere than they relieve
    for _ in range(TRIES):
        best, node, label, found = np.inf, _0, _0, False
        for i in range(np.uint64(len(exact.labels))):
            if i == frozen:
                continue
            reaches, whole, reach = False, False, _0
            for e in range(rows.entry_ptr[i], rows.entry_ptr[i + _1]):
                reach += rows.row_stop[e] - rows.row_start[e]
                if rows.row_start[e] <= row and row < rows.row_stop[e]:
                    reaches = True
                elif rows.row_start[e] < rows.row_stop[e] and rows.price[rows.budget[rows.row_start[e]]] < np.inf:
                    whole = True
            if not reaches:
                continue
            # what the move does to all rows decides where that is cheap to know, or where soft prices are at stake
            whole = whole or (_1 < reach and reach <= FEW_ROWS)
            now, start = state[i], exact.label_ptr[i]
            hard, soft = 0.0, 0.0
            if whole:
                hard, soft = _burden(rows, use, i)
            for k in range(exact.labels[i]):
                change = 0.0
                for e in range(rows.entry_ptr[i], rows.entry_ptr[i + _1]):
                    if rows.row_start[e] <= row and row < rows.row_stop[e]:
                        change += rows.weights[rows.weight_ptr[e] + k] - rows.weights[rows.weight_ptr[e] + now]
                gain = min(sign * change, need) / rows.size[row]
                if gain <= 0.0:
                    continue
                price = costs[start + k] - costs[start + now]
                if whole:
                    _shift(rows, use, i, now, k)
                    new_hard, new_soft = _burden(rows, use, i)
                    _shift(rows, use, i, k, now)
                    price += new_soft - soft
                    gain = hard - new_hard
                    if gain <= 0.0:
                        continue
                score = price / gain if price > 0.0 else price * gain
                if score < best and score > floor:
                    best, node, label, found = score, i, k, True
        if not found:
            return False, _0, _0
        now = state[node]
        hard, _ = _burden(rows, use, node)
        _shift(rows, use, node, now, label)
        new_hard, _ = _burden(rows, use, node)
        _shift(rows, use, node, label, now)
        if new_hard < hard:
            return True, node, label
        floor = best
    return False, _0, _0


@kernel
def repair(exact, unary, stand_in, rows, state, use, costs, steps):
    """Make moves that relieve the hard rows until none is violated, no move helps, or ``steps`` are done.

    Returns the number of moves made. ``state``, ``use`` and ``costs`` are changed in place.
    """
    nobody = np.uint64(len(exact.labels))
    made = 0
    while made < steps:
        found, i, k = _best_relief(exact, rows, state, use, costs, nobody)
        if not found:
            break
        _move(exact, unary, stand_in, rows, state, use, costs, i, k)
        made += 1
    return made


@kernel
def improve_within(exact, unary, stand_in, rows, state, use, costs, first, last):
    """Move nodes ``first … last - 1`` where that lowers cost plus soft prices and violates nothing more.

    Returns the number of moves.
    """
    moves = 0
    for i in range(first, last):
        start, now = exact.label_ptr[i], state[i]
        unbound = rows.entry_ptr[i] == rows.entry_ptr[i + _1]
        simple = _is_simple(rows, i)
        hard, soft, above, below, weights = 0.0, 0.0, np.inf, np.inf, _0
        looked = False
        best, label = -1e-12 * abs(costs[start + now]), now
        for k in range(exact.labels[i]):
            gain = costs[start + k] - costs[start + now]
            if k == now or (gain >= best and (simple or unbound)):
                continue
            if unbound:
                best, label = gain, k
                continue
            if not looked:
                looked = True
                if simple:
                    e = rows.entry_ptr[i]
                    weights = rows.weight_ptr[e]
                    for r in range(rows.row_start[e], rows.row_stop[e]):
                        above = min(above, rows.upper[r] - use[r])
                        below = min(below, use[r] - rows.lower[r])
                else:
                    hard, soft = _burden(rows, use, i)
            if simple:
                change = rows.weights[weights + k] - rows.weights[weights + now]
                if (change > 0.0 and change > above) or (change < 0.0 and -change > below):
                    continue
                best, label = gain, k
            elif gain - soft < best:
                _shift(rows, use, i, now, k)
                new_hard, new_soft = _burden(rows, use, i)
                _shift(rows, use, i, k, now)
                if new_hard <= hard and gain + new_soft - soft < best:
                    best, label = gain + new_soft - soft, k
        if label != now:
            _move(exact, unary, stand_in, rows, state, use, costs, i, label)
            moves += 1
    return moves


@kernel
def chains(exact, unary, stand_in, rows, state, use, costs, first, last, depth, attempts, trail):
    """Moves that break a budget, followed by repairs of it: kept when the whole chain gains.

    For each label of the nodes ``first … last - 1`` that is cheaper than the present one but does not fit, the move is
    made, up to ``depth`` relieving moves of other nodes follow, and all are undone unless the budgets hold again at a
    lower total.

    ``attempts`` is the most chains to try; ``trail`` (``uint64[depth + 1, 2]``) is scratch for nodes moved and their
    labels before.

    Returns:
        The numbers of chains kept and tried.
    """
    kept, tried = 0, 0
    for i in range(first, last):
        start = exact.label_ptr[i]
        if rows.entry_ptr[i] == rows.entry_ptr[i + _1]:
            continue
        for k in range(exact.labels[i]):
            now = state[i]
            price = costs[start + k] - costs[start + now]
            if k == now or price >= 0.0:
                continue
            if tried >= attempts:
                return kept, tried
            tried += 1
            before_hard, before = violation(rows, use)
            length = 0
            trail[0, 0], trail[0, 1] = i, now
            _move(exact, unary, stand_in, rows, state, use, costs, i, k)
            length = 1
            hard, soft = violation(rows, use)
            while hard > before_hard and length <= depth and price < 0.0:
                found, j, label = _best_relief(exact, rows, state, use, costs, i)
                if not found:
                    break
                price += costs[exact.label_ptr[j] + label] - costs[exact.label_ptr[j] + state[j]]
                trail[length, 0], trail[length, 1] = j, state[j]
                length += 1
                _move(exact, unary, stand_in, rows, state, use, costs, j, label)
                hard, soft = violation(rows, use)
            if hard <= before_hard and price + soft - before < -1e-12 * abs(costs[start + now]):
                kept += 1
            else:
                while length > 0:
                    length -= 1
                    _move(exact, unary, stand_in, rows, state, use, costs, trail[length, 0], trail[length, 1])
    return kept, tried
