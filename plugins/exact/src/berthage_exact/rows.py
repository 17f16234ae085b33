"""Budgets during the search: the least that is still to be used of each row, and the labels that no longer fit."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from berthage_trws.jit import inner_kernel

from .domains import left, remove
from .multipliers import rate_at, rate_of
from .state import FAILED, PENALTY, TOP, WORK


@inner_kernel
def least_use(net, s):
    """Fill `State.use` with the least use of each row that the labels left allow, `State.low` by entry."""
    rows = len(net.limit)
    s.use[:] = 0
    for i in range(len(net.entry_ptr) - 1):
        count, start = left(net, s, i), net.ptr[i]
        for k in range(net.entry_ptr[i], net.entry_ptr[i + 1]):
            at = net.weight[k]
            low = net.weights[at + s.labels[start]]
            for p in range(1, count):
                low = min(low, net.weights[at + s.labels[start + p]])
            s.low[k] = low
            s.use[net.first[k]] += low
            s.use[net.last[k]] -= low
    for r in range(1, rows):
        s.use[r] += s.use[r - 1]


@inner_kernel
def penalty(net, s):
    """The least that soft budgets must cost more than multipliers charge for them; -1 when a hard one is broken."""
    total, worst, taken, group = 0.0, 0, 0.0, -1
    rows = len(net.limit)
    for r in range(rows + 1):
        if r == rows or net.group[r] != group:
            if worst > 0:
                if net.price[group] < 0.0:
                    return -1
                total += max(0.0, net.price[group] - taken) * worst
            if r == rows:
                break
            group, worst, taken = net.group[r], 0, 0.0
        worst = max(worst, s.use[r] - net.limit[r])
        taken += rate_of(net, s.x[rate_at(net, s, r)], r) * (1.0 + 1e-12)
    # rounding of the sum must not overstate it
    return int(min(total * (1.0 - 1e-12), float(s.ctl[TOP])))


@inner_kernel
def keep_within(net, s):
    """Remove labels whose use no row has room for, and update the penalty of soft budgets. False at a failure."""
    while True:
        least_use(net, s)
        s.ctl[WORK] += len(s.low) + len(s.use)
        fee = penalty(net, s)
        if fee < 0 or s.x[len(s.x) - 1] + fee >= s.ctl[TOP]:
            s.ctl[FAILED] = -1
            return False
        s.ctl[PENALTY] = fee
        removed = False
        for i in range(len(net.entry_ptr) - 1):
            start = net.ptr[i]
            if left(net, s, i) == 1:
                continue
            for k in range(net.entry_ptr[i], net.entry_ptr[i + 1]):
                at, room = net.weight[k], 1 << 62
                for r in range(net.first[k], net.last[k]):
                    if net.price[net.group[r]] < 0.0:
                        room = min(room, net.limit[r] - s.use[r])
                p = left(net, s, i) - 1
                while p >= 0:
                    a = s.labels[start + p]
                    p -= 1
                    if net.weights[at + a] - s.low[k] > room:
                        removed = True
                        if not remove(net, s, i, a):
                            return False
        if not removed:
            return True
