"""Message passing where no variable has more than two labels.

A message is one number, its value for label 1 less that for label 0, and a table is four numbers beside its
half-edge, so that a sweep reads memory in sequence and does nothing per label.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from .jit import kernel

_1 = np.uint64(1)


@kernel
def sweep_binary(half_ptr, half_mid, mate, first, last, difference, gamma, tables, messages):
    """Pass messages as :func:`~berthage_trws.sweep.sweep` does, and return the same part of the dual bound.

    The cost of label 0 is left out: the caller adds the sum of all ``unary[label 0]`` to the bound.

    Args:
        half_ptr: Where the half-edges of each node start.
        half_mid: The first of each node that has a later neighbour.
        mate: The half-edge at the other end of each.
        first: Node to begin with (ascending), or one above it (descending).
        last: One above the final node (ascending), or the final node (descending).
        difference: Cost of label 1 less that of label 0, by node.
        gamma: Node weights.
        tables: ``[half-edges, 4]``: costs (0, 0), (0, 1), (1, 0), (1, 1) of (own label, neighbour's label).
        messages: Incoming message of each half-edge; changed in place.
    """
    bound = 0.0
    ascending = last > first
    count = last - first if ascending else first - last
    for step in range(count):
        i = first + step if ascending else first - _1 - step
        low, middle, high = half_ptr[i], half_mid[i], half_ptr[i + _1]
        hat = difference[i]
        for h in range(low, high):
            hat += messages[h]
        zero = hat - hat
        least = hat if hat < zero else zero
        bound += least
        cost_0 = gamma[i] * (zero - least)
        share = gamma[i] * (hat - least)
        begin, end = (middle, high) if ascending else (low, middle)
        for h in range(begin, end):
            cost_1 = share - messages[h]
            same, other = cost_0 + tables[h, 0], cost_1 + tables[h, 2]
            to_0 = same if same < other else other
            same, other = cost_0 + tables[h, 1], cost_1 + tables[h, 3]
            to_1 = same if same < other else other
            messages[mate[h]] = to_1 - to_0
            bound += to_0
    return bound
