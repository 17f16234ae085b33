"""Depth-first branch and bound below one node, resumable: decisions are taken and undone on a trail."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from berthage_trws.jit import inner_kernel, kernel

from .consistency import propagate
from .domains import assign, is_left, left, remove, undo
from .state import BOUND, DECISIONS, FAILED, FAILS, LEVEL, LEVELS, NODES, PENALTY, PHASE, TOP, TRAIL, WORK

DONE, LEAF, PAUSED, ENOUGH, CROWDED = range(5)
"""What `explore` ends with: everything below is searched; an assignment is found; much work was done; the failures
allowed are used up; the trail is too short."""


@inner_kernel
def decide(net, s, decision):
    """Take a decision: the variable of a flat label gets it, or loses it (``-1 - label``). False at a failure."""
    flat = decision if decision >= 0 else -1 - decision
    low, high = 0, len(net.ptr) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if net.ptr[middle] <= flat:
            low = middle
        else:
            high = middle
    i, a = low, flat - net.ptr[low]
    s.decided[s.ctl[DECISIONS]] = decision
    s.ctl[DECISIONS] += 1
    if decision < 0:
        return not is_left(net, s, i, a) or remove(net, s, i, a)
    if not is_left(net, s, i, a):
        s.ctl[FAILED] = i
        return False
    assign(net, s, i, a)
    return True


@inner_kernel
def replay(net, s, decisions):
    """From the root, take decisions all at once. False when they clash."""
    undo(s, 0)
    s.ctl[LEVEL] += 1
    s.ctl[LEVELS] = 0
    s.ctl[DECISIONS] = 0
    s.ctl[PENALTY] = 0
    s.dirty[:] = 0
    fits = True
    for k in range(len(decisions)):
        fits = fits and decide(net, s, decisions[k])
    return fits


@inner_kernel
def choose(net, s, last):
    """The variable to branch on: the last branched on in vain, else the least labels per failure; -1: none is open."""
    if last >= 0 and left(net, s, last) > 1:
        return last
    best, found = 0.0, -1
    for i in range(len(net.ptr) - 1):
        count = left(net, s, i)
        if count > 1:
            worth = (s.heat[i] + 1.0) / count
            if found < 0 or worth > best:
                best, found = worth, i
    return found


@inner_kernel
def favourite(net, s, i, hint):
    """The label to try first: the best assignment's if it costs nothing here, the witness, or the cheapest."""
    start, count = net.ptr[i], left(net, s, i)
    a = hint[i]
    if a >= 0 and s.where[start + a] < count and s.x[start + a] == 0:
        return a
    a = s.witness[i]
    if s.where[start + a] < count and s.x[start + a] == 0:
        return a
    best = s.labels[start]
    for p in range(1, count):
        a = s.labels[start + p]
        if s.x[start + a] < s.x[start + best] or (s.x[start + a] == s.x[start + best] and a < best):
            best = a
    return best


@kernel
def explore(net, s, decisions, fresh, hint, work, fails):
    """Search below a node, depth first.

    Args:
        net: The network.
        s: The state.
        decisions: Those that lead from the root to the node.
        fresh: Whether to begin; otherwise go on where the last call stopped.
        hint: A label of each variable to try first, -1 for none.
        work: Pause after so many costs were looked at.
        fails: Stop after so many failures.

    Returns:
        One of the constants above. After `ENOUGH`, and `PAUSED`, the current node has the bound ``ctl[BOUND]`` and
        the decisions ``decided[:ctl[DECISIONS]]``; ``open`` holds the levels whose alternative is untried.
    """
    constant = len(s.x) - 1
    stop = s.ctl[WORK] + work
    left_over = fails
    last = np.int64(-1)
    if fresh:
        s.ctl[PHASE] = 0 if replay(net, s, decisions) else 1
    while True:
        if s.ctl[PHASE] == 0:
            if left_over <= 0:
                return ENOUGH
            if s.ctl[WORK] >= stop:
                return PAUSED
            if s.ctl[TRAIL] + 2 * len(s.x) + 8 > len(s.trail_at):
                return CROWDED
            s.ctl[NODES] += 1
            s.ctl[WORK] += len(net.ptr)
            s.ctl[PHASE] = 1
            if propagate(net, s):
                bound = s.x[constant] + s.ctl[PENALTY]
                i = choose(net, s, last)
                if i < 0:
                    s.ctl[BOUND] = bound
                    return LEAF
                a = favourite(net, s, i, hint)
                level = s.ctl[LEVELS]
                s.open[0, level] = s.ctl[TRAIL]
                s.open[1, level] = s.ctl[DECISIONS]
                s.open[2, level] = net.ptr[i] + a
                s.open[3, level] = bound
                s.open[4, level] = i
                s.ctl[LEVELS] = level + 1
                s.ctl[LEVEL] += 1
                s.ctl[BOUND] = bound
                decide(net, s, net.ptr[i] + a)
                s.ctl[PHASE] = 0
                continue
            s.ctl[FAILS] += 1
            left_over -= 1
            s.dirty[:] = 0
            if s.ctl[FAILED] >= 0:
                s.heat[s.ctl[FAILED]] += 1.0
        level = s.ctl[LEVELS] - 1
        if level < 0:
            return DONE
        s.ctl[LEVELS] = level
        undo(s, s.open[0, level])
        s.ctl[DECISIONS] = s.open[1, level]
        s.ctl[PENALTY] = 0
        s.dirty[:] = 0
        if s.open[3, level] >= s.ctl[TOP]:
            continue
        s.ctl[LEVEL] += 1
        s.ctl[BOUND] = s.open[3, level]
        last = s.open[4, level]
        if decide(net, s, -1 - s.open[2, level]):
            s.ctl[PHASE] = 0
