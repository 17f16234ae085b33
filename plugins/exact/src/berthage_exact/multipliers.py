"""Multipliers of the rows of budgets, kept in the state and improved at every node.

A row with multiplier ``λ`` adds ``floor(λ w)`` to the cost of every label of weight ``w`` and takes ``λ limit``,
rounded up by more than all of that rounding, off the constant: no assignment that keeps the row costs more than
before. What stands in the network is a function of the multipliers alone, so that changing them loses nothing.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

from berthage_trws.jit import inner_kernel

from .domains import left, lift, put, settle, touch
from .state import LEAST, RAISED, UNSURE, WORK

STEPS = 24
"""Most points at which the dual of one row is looked at."""


@inner_kernel
def rate_at(net, s, r):
    """Place of the multiplier of row `r` in `State.x`."""
    return len(s.x) - len(net.ptr) - len(net.limit) + r


@inner_kernel
def rate_of(net, value, r):
    """A multiplier in units of cost per unit of use."""
    return float(value) * 2.0 ** -net.bits[r]


@inner_kernel
def taken_off(net, rate, r):
    """What a multiplier takes off the constant."""
    members = net.member_ptr[r + 1] - net.member_ptr[r]
    product = rate * net.limit[r]
    return 0 if rate == 0.0 else math.ceil(product + abs(product) * 2.0**-50) + members + 1


@inner_kernel
def impose(net, s, rates):
    """Charge given multipliers, in a network that has none yet."""
    for r in range(len(net.limit)):
        if net.member_ptr[r + 1] == net.member_ptr[r]:
            continue
        rate = rate_of(net, rates[r], r)
        put(s, rate_at(net, s, r), rates[r])
        put(s, len(s.x) - 1, s.x[len(s.x) - 1] - taken_off(net, rate, r))
        for k in range(net.member_ptr[r], net.member_ptr[r + 1]):
            i, at = net.member[k], net.member_weight[k]
            for a in range(net.ptr[i + 1] - net.ptr[i]):
                put(s, net.ptr[i] + a, s.x[net.ptr[i] + a] + math.floor(rate * net.weights[at + a]))


@inner_kernel
def dual(net, s, r, old, new):
    """At a multiplier of row `r`: what the costs of its variables add up to, and the least and greatest use they have.

    Returns (gain of the constant, least use, greatest use) of the cheapest labels.
    """
    gain = taken_off(net, old, r) - taken_off(net, new, r)
    fewest, most = 0, 0
    for k in range(net.member_ptr[r], net.member_ptr[r + 1]):
        i, at = net.member[k], net.member_weight[k]
        start, count = net.ptr[i], left(net, s, i)
        s.ctl[WORK] += count
        best, low, high = 1 << 62, 0, 0
        for p in range(count):
            a = s.labels[start + p]
            w = net.weights[at + a]
            cost = s.x[start + a] + math.floor(new * w) - math.floor(old * w)
            if cost < best:
                best, low, high = cost, w, w
            elif cost == best:
                low, high = min(low, w), max(high, w)
        gain += best
        fewest += low
        most += high
    return gain, fewest, most


@inner_kernel
def improve_row(net, s, r):
    """Move the multiplier of row `r` to where the constant gains most. Returns (changed, still consistent)."""
    if net.member_ptr[r + 1] == net.member_ptr[r]:
        return False, True  # its members were too many to list
    place, unit = rate_at(net, s, r), 2.0 ** -net.bits[r]
    now = s.x[place]
    old = now * unit
    gain, fewest, most = dual(net, s, r, old, old)
    limit = net.limit[r]
    if fewest <= limit and (now == 0 or most >= limit):
        return False, True
    # The dual is concave; its slope is use less limit. Enclose its top, then meet tangents.
    top = net.most[r]
    best, best_gain = now, gain
    if fewest > limit:
        low, low_gain, low_slope = now, gain, float(fewest - limit)
        high, high_gain, high_slope = -1, 0, 0.0
    else:
        low, low_gain, low_slope = -1, 0, 0.0
        high, high_gain, high_slope = now, gain, float(most - limit)
    step = max(now // 2, 1 << max(net.bits[r] - 3, 0))
    for _ in range(STEPS):
        if high < 0:
            at = min(low + step, top)
            step = min(4 * step, top)
            if at == low:
                break
        elif low < 0:
            at = max(high - step, 0)
            step = min(4 * step, top)
            if at == high:
                break
        else:
            if high - low <= 1 or low_slope <= 0.0 or high_slope >= 0.0:
                break
            meet = float(high_gain - low_gain) / unit
            width = float(high - low)
            inside = (meet - high_slope * width) / (low_slope - high_slope)
            inside = min(max(inside, 0.02 * width), 0.98 * width)
            at = min(max(low + int(inside), low + 1), high - 1)
        gain, fewest, most = dual(net, s, r, old, at * unit)
        if gain > best_gain:
            best, best_gain = at, gain
        if fewest > limit:
            low, low_gain, low_slope = at, gain, float(fewest - limit)
        elif most < limit and at > 0:
            high, high_gain, high_slope = at, gain, float(most - limit)
        else:
            break
    if best == now or best_gain < s.ctl[LEAST]:
        return False, True
    new = best * unit
    put(s, place, best)
    put(s, len(s.x) - 1, s.x[len(s.x) - 1] + taken_off(net, old, r) - taken_off(net, new, r))
    for k in range(net.member_ptr[r], net.member_ptr[r + 1]):
        i, at = net.member[k], net.member_weight[k]
        start = net.ptr[i]
        for p in range(left(net, s, i)):
            a = s.labels[start + p]
            w = net.weights[at + a]
            change = math.floor(new * w) - math.floor(old * w)
            if change != 0:
                put(s, start + a, s.x[start + a] + change)
    # The constant is right again only when all of them have paid into it; then labels may be judged by it.
    for k in range(net.member_ptr[r], net.member_ptr[r + 1]):
        lift(net, s, net.member[k])
        touch(net, s, net.member[k], RAISED | UNSURE)
    for k in range(net.member_ptr[r], net.member_ptr[r + 1]):
        if not settle(net, s, net.member[k]):
            return True, False
    return True, True


@inner_kernel
def improve_rows(net, s):
    """Improve the multiplier of every hard row once. Returns (something changed, still consistent)."""
    changed = False
    for r in range(len(net.limit)):
        if net.price[net.group[r]] < 0.0:
            moved, fits = improve_row(net, s, r)
            changed |= moved
            if not fits:
                return True, False
    return changed, True
