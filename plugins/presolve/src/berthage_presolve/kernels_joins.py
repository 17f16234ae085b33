"""Compiled kernel: joining variables along edges that allow few pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from berthage_presolve.edge_columns import (
    AT,
    COL_AT,
    COL_STEP,
    COLS,
    KIND,
    ROW_AT,
    ROW_STEP,
    TIE,
    U,
    V,
)
from berthage_presolve.jit import kernel

Array = np.ndarray[Any, Any]


@kernel
def join(ptr: Array, edges: Array, maps: Array, cells: Array) -> tuple[Array, Array, Array, Array]:
    """Join the groups at the ends of each edge, one edge after the other, unless that makes more joint choices.

    A group starts as one variable with its labels. Joined along an edge, two groups have the pairs of joint choices
    that the edge allows; they are joined when these are no more than the larger group had choices, and not none.

    Args:
        ptr: int64[n+1], first label of each variable.
        edges: int64[h, WIDTH], the edges to join along, with stored costs or ties.
        maps: int32, class maps.
        cells: float64, costs.

    Returns:
        ``(group, size, at, column)``: the group of each variable (one of its members), the number of joint choices by
        group, and where in `column` each variable's label for every joint choice of its group starts.
    """
    n = len(ptr) - 1
    group, size, at = np.arange(n), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    members, last, following = np.ones(n, dtype=np.int64), np.arange(n), np.full(n, -1, dtype=np.int64)
    column = np.empty(ptr[n], dtype=np.int64)
    for v in range(n):
        size[v], at[v] = ptr[v + 1] - ptr[v], ptr[v]
        for a in range(size[v]):
            column[ptr[v] + a] = a
    used = ptr[n]
    for e in range(len(edges)):
        u, v = edges[e, U], edges[e, V]
        left, right = group[u], group[v]
        if left == right:
            continue
        most = max(size[left], size[right])
        # Joint choices of the right group, bucketed by the column class of v's label.
        bucket = np.zeros(edges[e, COLS] + 1, dtype=np.int64)
        for j in range(size[right]):
            bucket[maps[edges[e, COL_AT] + column[at[v] + j]] + 1] += 1
        live, classes = np.empty(edges[e, COLS], dtype=np.int64), 0
        for c in range(edges[e, COLS]):
            if bucket[c + 1]:
                live[classes] = c
                classes += 1
            bucket[c + 1] += bucket[c]
        order = np.empty(size[right], dtype=np.int64)
        for j in range(size[right]):
            c = maps[edges[e, COL_AT] + column[at[v] + j]]
            order[bucket[c]] = j
            bucket[c] += 1  # afterwards bucket[c] is where c's choices end
        first, second = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        count, straight = 0, True
        for i in range(size[left]):
            r = maps[edges[e, ROW_AT] + column[at[u] + i]]
            row = edges[e, AT] + r * edges[e, ROW_STEP]
            for k in range(classes):
                c = live[k]
                if edges[e, KIND] == TIE:
                    if c != r:
                        continue
                elif cells[row + c * edges[e, COL_STEP]] == np.inf:
                    continue
                for j in range(bucket[c - 1] if c else 0, bucket[c]):
                    if count < most:
                        first[count], second[count] = i, order[j]
                        straight = straight and i == count
                    count += 1
            if count > most:
                break
        if count == 0 or count > most:
            continue
        if members[left] < members[right]:
            left, right = right, left
            first, second = second, first
            straight = True
            for i in range(count):
                straight = straight and first[i] == i
        straight = straight and count == size[left]
        for side in range(2):
            w = right if side else left
            if side == 0 and straight:
                continue  # the larger group's columns stay as they are
            pick = second if side else first
            while w >= 0:
                if used + count > len(column):
                    grown = np.empty(2 * (used + count), dtype=np.int64)
                    for i in range(used):
                        grown[i] = column[i]
                    column = grown
                for i in range(count):
                    column[used + i] = column[at[w] + pick[i]]
                at[w] = used
                used += count
                group[w] = left
                w = following[w]
        following[last[left]] = right
        last[left] = last[right]
        members[left] += members[right]
        size[left] = count
    return group, size, at, column[:used]
