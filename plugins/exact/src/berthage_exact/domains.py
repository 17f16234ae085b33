"""Labels and costs of variables: overwriting with a trail, removing labels, node consistency."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from berthage_trws.jit import inner_kernel

from .state import FAILED, LEVEL, PENALTY, RAISED, REMOVED, SHRUNK, TOP, TRAIL, UNSURE


@inner_kernel
def put(s, at, value):
    """Overwrite a place of `State.x`, saving what stood there once a level."""
    if s.stamp[at] != s.ctl[LEVEL]:
        s.stamp[at] = s.ctl[LEVEL]
        top = s.ctl[TRAIL]
        s.trail_at[top] = at
        s.trail_was[top] = s.x[at]
        s.ctl[TRAIL] = top + 1
    s.x[at] = value


@inner_kernel
def undo(s, length):
    """Restore what the trail saved since it was ``length`` long."""
    top = s.ctl[TRAIL]
    while top > length:
        top -= 1
        s.x[s.trail_at[top]] = s.trail_was[top]
    s.ctl[TRAIL] = length


@inner_kernel
def left(net, s, i):
    """How many labels variable `i` has left."""
    return s.x[len(s.x) - len(net.ptr) + i]


@inner_kernel
def is_left(net, s, i, a):
    """Whether label `a` of variable `i` is left."""
    return s.where[net.ptr[i] + a] < s.x[len(s.x) - len(net.ptr) + i]


@inner_kernel
def touch(net, s, i, bits):
    """Say that variable `i` changed; later neighbours must look for a witness again."""
    s.dirty[i] |= bits
    for k in range(net.adj_ptr[i], net.adj_ptr[i + 1]):
        j = net.adj_other[k]
        if j > i:
            s.dirty[j] |= UNSURE


@inner_kernel
def swap_to(net, s, i, a, count):
    """Swap label `a` of variable `i` to place ``count`` of the labels left."""
    start = net.ptr[i]
    at, b = s.where[start + a], s.labels[start + count]
    s.labels[start + count], s.labels[start + at] = a, b
    s.where[start + a], s.where[start + b] = count, at


@inner_kernel
def remove(net, s, i, a):
    """Remove label `a` of variable `i`. False when none is left."""
    count = left(net, s, i) - 1
    swap_to(net, s, i, a, count)
    put(s, len(s.x) - len(net.ptr) + i, count)
    touch(net, s, i, SHRUNK | RAISED | UNSURE)
    s.ctl[REMOVED] += 1
    if count == 0:
        s.ctl[FAILED] = i
        return False
    return True


@inner_kernel
def assign(net, s, i, a):
    """Leave variable `i` nothing but label `a`."""
    swap_to(net, s, i, a, 0)
    put(s, len(s.x) - len(net.ptr) + i, 1)
    touch(net, s, i, SHRUNK | RAISED | UNSURE)
    s.ctl[REMOVED] += 1


@inner_kernel
def lift(net, s, i):
    """Move what every label of `i` costs to the constant."""
    start, constant = net.ptr[i], len(s.x) - 1
    count = left(net, s, i)
    least = s.x[start + s.labels[start]]
    for p in range(1, count):
        least = min(least, s.x[start + s.labels[start + p]])
    if least != 0:
        for p in range(count):
            at = start + s.labels[start + p]
            put(s, at, s.x[at] - least)
        put(s, constant, s.x[constant] + least)


@inner_kernel
def settle(net, s, i):
    """Node consistency: lift, then remove the labels that are too dear. False at a failure."""
    lift(net, s, i)
    start = net.ptr[i]
    room = s.ctl[TOP] - s.x[len(s.x) - 1] - s.ctl[PENALTY]
    if room <= 0:
        s.ctl[FAILED] = i
        return False
    p = left(net, s, i) - 1
    while p >= 0:
        a = s.labels[start + p]
        if s.x[start + a] >= room and not remove(net, s, i, a):
            return False
        p -= 1
    return True
