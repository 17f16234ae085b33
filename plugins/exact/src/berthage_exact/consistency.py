"""Soft arc consistency in whole numbers: node, arc, full directional and existential consistency at every node.

Costs are moved between pairs, labels and the constant such that every assignment costs what it did; what ends up in
the constant is a lower bound. S. de Givry, F. Heras, M. Zytnicki, J. Larrosa, *Existential arc consistency: getting
closer to full arc consistency in weighted CSPs* (2005) describes the levels; the order of variables is the network's,
and costs move from later variables to earlier ones.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from berthage_trws.jit import inner_kernel, kernel

from .domains import is_left, left, put, remove, settle, touch, undo
from .multipliers import impose, improve_rows
from .rows import keep_within
from .state import (
    COARSE,
    DECISIONS,
    FORBIDDEN,
    LEAST,
    LEVEL,
    LEVELS,
    PENALTY,
    RAISED,
    REMOVED,
    SHRUNK,
    TOP,
    TRAIL,
    UNSURE,
    WORK,
)


@inner_kernel
def simple(net, s, e, i, j):
    """Arc consistency of `i` over edge `e`: every label of `i` gets a pair that costs nothing. False at a failure."""
    mine, other = net.ptr[i], net.ptr[j]
    base = net.cell[e]
    if i < j:
        step, across, out, away = net.step_u[e], net.step_v[e], net.out_u[e], net.out_v[e]
    else:
        step, across, out, away = net.step_v[e], net.step_u[e], net.out_v[e], net.out_u[e]
    first = net.ptr[len(net.ptr) - 1]
    count, reach = left(net, s, i), left(net, s, j)
    raised = False
    s.ctl[WORK] += count
    p = count - 1
    while p >= 0:
        a = s.labels[mine + p]
        p -= 1
        row, gone = base + a * step, s.x[out + a]
        b = s.support[out - first + a]
        if s.where[other + b] < reach and net.cells[row + b * across] - gone - s.x[away + b] == 0:
            continue
        least = FORBIDDEN
        s.ctl[WORK] += reach
        for q in range(reach):
            b = s.labels[other + q]
            cost = net.cells[row + b * across]
            if cost < FORBIDDEN:
                cost -= gone + s.x[away + b]
                if cost < least:
                    least = cost
                    s.support[out - first + a] = b
                    if least == 0:
                        break
        if least == FORBIDDEN:
            if not remove(net, s, i, a):
                return False
        elif least > 0:
            put(s, out + a, gone + least)
            put(s, mine + a, s.x[mine + a] + least)
            raised = True
    if raised:
        touch(net, s, i, RAISED | UNSURE)
        return settle(net, s, i)
    return True


@inner_kernel
def full(net, s, e, i, j):
    """Full support of `i` over edge `e`: pairs *and* labels of `j` that cost nothing, by moving costs of `j` into `i`.

    Returns False at a failure.
    """
    mine, other = net.ptr[i], net.ptr[j]
    base = net.cell[e]
    if i < j:
        step, across, out, away = net.step_u[e], net.step_v[e], net.out_u[e], net.out_v[e]
    else:
        step, across, out, away = net.step_v[e], net.step_u[e], net.out_v[e], net.out_u[e]
    first = net.ptr[len(net.ptr) - 1]
    count, reach = left(net, s, i), left(net, s, j)
    raised = False
    s.ctl[WORK] += count
    p = count - 1
    while p >= 0:
        a = s.labels[mine + p]
        p -= 1
        s.part[a] = 0
        row, gone = base + a * step, s.x[out + a]
        b = s.support[out - first + a]
        held = s.where[other + b] < reach and s.x[other + b] == 0
        if held and net.cells[row + b * across] - gone - s.x[away + b] == 0:
            continue
        least = FORBIDDEN
        s.ctl[WORK] += reach
        for q in range(reach):
            b = s.labels[other + q]
            cost = net.cells[row + b * across]
            if cost < FORBIDDEN:
                cost += s.x[other + b] - gone - s.x[away + b]
                if cost < least:
                    least = cost
                    s.support[out - first + a] = b
                    if least == 0:
                        break
        if least == FORBIDDEN:
            if not remove(net, s, i, a):
                return False
        elif least > 0:
            s.part[a] = least
            raised = True
    if not raised:
        return True
    count = left(net, s, i)
    s.ctl[WORK] += count * reach
    for q in range(reach):
        s.gain[s.labels[other + q]] = 0
    for p in range(count):
        a = s.labels[mine + p]
        if s.part[a] > 0:
            row, gone = base + a * step, s.x[out + a]
            for q in range(reach):
                b = s.labels[other + q]
                cost = net.cells[row + b * across]
                if cost < FORBIDDEN:
                    want = s.part[a] - cost + gone + s.x[away + b]
                    if want > s.gain[b]:
                        s.gain[b] = want
    for q in range(reach):
        b = s.labels[other + q]
        if s.gain[b] > 0:
            put(s, other + b, s.x[other + b] - s.gain[b])
            put(s, away + b, s.x[away + b] - s.gain[b])
    for p in range(count):
        a = s.labels[mine + p]
        if s.part[a] > 0:
            put(s, out + a, s.x[out + a] + s.part[a])
            put(s, mine + a, s.x[mine + a] + s.part[a])
    touch(net, s, i, RAISED | UNSURE)
    return settle(net, s, i)


@inner_kernel
def exists(net, s, i):
    """Existential consistency: some label of `i` costs nothing with all earlier neighbours, or the constant rises.

    Gains below ``ctl[LEAST]`` are left alone. Returns False at a failure.
    """
    mine = net.ptr[i]
    first = net.ptr[len(net.ptr) - 1]
    count = left(net, s, i)
    a = s.witness[i]
    if s.where[mine + a] < count and s.x[mine + a] == 0:
        holds = True
        for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
            j, e = net.adj_other[k], net.adj_edge[k]
            if j > i:
                continue
            b = s.support[net.out_v[e] - first + a]
            if not is_left(net, s, j, b) or s.x[net.ptr[j] + b] > 0:
                holds = False
                break
            if (
                net.cells[net.cell[e] + a * net.step_v[e] + b * net.step_u[e]]
                != s.x[net.out_v[e] + a] + s.x[net.out_u[e] + b]
            ):
                holds = False
                break
        if holds:
            return True
    best = FORBIDDEN
    for p in range(count):
        a = s.labels[mine + p]
        total = s.x[mine + a]
        for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
            j, e = net.adj_other[k], net.adj_edge[k]
            if j > i:
                continue
            if total >= best:
                break
            other, away, out = net.ptr[j], net.out_u[e], net.out_v[e]
            row, gone = net.cell[e] + a * net.step_v[e], s.x[out + a]
            b = s.support[out - first + a]
            reach = left(net, s, j)
            held = s.where[other + b] < reach and s.x[other + b] == 0
            if held and net.cells[row + b * net.step_u[e]] - gone - s.x[away + b] == 0:
                continue
            least = FORBIDDEN
            s.ctl[WORK] += reach
            for q in range(reach):
                b = s.labels[other + q]
                cost = net.cells[row + b * net.step_u[e]]
                if cost < FORBIDDEN:
                    cost += s.x[other + b] - gone - s.x[away + b]
                    if cost < least:
                        least = cost
                        s.support[out - first + a] = b
                        if least == 0:
                            break
            total = min(total + least, FORBIDDEN)
        if total < best:
            best = total
            s.witness[i] = a
            if best == 0:
                break
    if best < s.ctl[LEAST]:
        return True
    for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
        j = net.adj_other[k]
        if j < i and not full(net, s, net.adj_edge[k], i, j):
            return False
    return True


@inner_kernel
def propagate(net, s):
    """Make the network consistent again after what `State.dirty` says has changed. False when nothing is left."""
    n = len(net.ptr) - 1
    constant = len(s.x) - 1
    while True:
        again = False
        for i in range(n):
            if s.dirty[i] & UNSURE:
                s.dirty[i] &= ~UNSURE
                again = True
                if not exists(net, s, i):
                    return False
        for back in range(n):
            j = n - 1 - back
            if s.dirty[j] & RAISED:
                s.dirty[j] &= ~RAISED
                again = True
                for k in range(net.adj_ptr[j], net.adj_ptr[j + 1]):
                    i = net.adj_other[k]
                    if i < j and not full(net, s, net.adj_edge[k], i, j):
                        return False
        for j in range(n):
            if s.dirty[j] & SHRUNK:
                s.dirty[j] &= ~SHRUNK
                again = True
                for k in range(net.adj_ptr[j], net.adj_ptr[j + 1]):
                    i = net.adj_other[k]
                    if i > j and not simple(net, s, net.adj_edge[k], i, j):
                        return False
        if not again:
            # Every label against the constant, every row against its limit: when something goes, all over again.
            before = s.x[constant]
            removed = s.ctl[REMOVED]
            if len(net.limit) and not keep_within(net, s):
                return False
            for i in range(n):
                if not settle(net, s, i):
                    return False
            if removed == s.ctl[REMOVED] and before == s.x[constant]:
                if not len(net.limit):
                    return True
                changed, fits = improve_rows(net, s)
                if not fits:
                    return False
                if not changed:
                    return True


@inner_kernel
def shift(net, s, messages):
    """Move costs along given messages and make every cost non-negative, by one descending sweep.

    Node by node, latest first: what all labels cost goes to the constant; a share of the rest goes back to each edge
    to an earlier variable, and that edge's costs go on to the earlier variable as far as they leave nothing negative
    (Kolmogorov 2006, section 4). Equivalent whatever the messages are.
    """
    n = len(net.ptr) - 1
    for e in range(len(net.u)):
        i, j = net.u[e], net.v[e]
        for a in range(net.ptr[i + 1] - net.ptr[i]):
            s.x[net.out_u[e] + a] += messages[net.out_u[e] - net.ptr[n] + a]
            s.x[net.ptr[i] + a] += messages[net.out_u[e] - net.ptr[n] + a]
        for b in range(net.ptr[j + 1] - net.ptr[j]):
            s.x[net.out_v[e] + b] += messages[net.out_v[e] - net.ptr[n] + b]
            s.x[net.ptr[j] + b] += messages[net.out_v[e] - net.ptr[n] + b]
    for back in range(n):
        i = n - 1 - back
        mine = net.ptr[i]
        if not settle(net, s, i):
            return False
        count = left(net, s, i)
        lower = 0
        for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
            lower += net.adj_other[k] < i
        share = max(lower, net.adj_ptr[i + 1] - net.adj_ptr[i] - lower, 1)
        for p in range(count):
            a = s.labels[mine + p]
            s.part[a] = s.x[mine + a] // share
        for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
            j, e = net.adj_other[k], net.adj_edge[k]
            if j > i:
                continue
            out, away, other = net.out_v[e], net.out_u[e], net.ptr[j]
            for p in range(count):
                a = s.labels[mine + p]
                s.x[mine + a] -= s.part[a]
                s.x[out + a] -= s.part[a]
            q = left(net, s, j) - 1
            while q >= 0:
                b = s.labels[other + q]
                q -= 1
                row = net.cell[e] + b * net.step_u[e]
                least = FORBIDDEN
                for p in range(count):
                    a = s.labels[mine + p]
                    cost = net.cells[row + a * net.step_v[e]]
                    if cost < FORBIDDEN:
                        least = min(least, cost - s.x[out + a])
                if least == FORBIDDEN:
                    if not remove(net, s, j, b):
                        return False
                else:
                    s.x[other + b] += least - s.x[away + b]
                    s.x[away + b] = least
    return True


@kernel
def prepare(net, s, rates, messages):
    """Charge multipliers and move costs along messages, in a new state. False when nothing is left."""
    impose(net, s, rates)
    fits = shift(net, s, messages)
    s.ctl[TRAIL] = 0
    return fits


@kernel
def refresh(net, s):
    """Back to the root; make all of it consistent, for good. False when nothing is left."""
    undo(s, 0)
    s.ctl[LEVEL] += 1
    s.ctl[LEVELS] = 0
    s.ctl[DECISIONS] = 0
    s.ctl[PENALTY] = 0
    s.ctl[LEAST] = max(1, (s.ctl[TOP] - s.x[len(s.x) - 1]) // COARSE)
    s.dirty[:] = SHRUNK | RAISED | UNSURE
    fits = propagate(net, s)
    s.ctl[TRAIL] = 0
    s.ctl[LEVEL] += 1
    return fits
