"""Variables eliminated one after the other, where the tables that this makes stay small (bucket elimination)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .state import FORBIDDEN, Ints, Net, State

MOST_FILL = 10_000_000
"""Neighbour pairs looked at while an order is sought, before it is given up."""


@dataclass(frozen=True, eq=False, slots=True)
class Order:
    """An order of elimination.

    Attributes:
        variables: The variables, first one first.
        largest: Entries of the largest table.
        total: Entries of all tables.
    """

    variables: list[int]
    largest: int
    total: int


@dataclass(frozen=True, eq=False, slots=True)
class _Factor:
    scope: tuple[int, ...]
    values: Ints


def find_order(net: Net, s: State, most: int) -> Order | None:
    """An order in which no table has more than ``most`` entries, or None: always the variable of the least table."""
    n = len(net.ptr) - 1
    counts = s.x[-1 - n : -1].tolist()
    near: list[set[int]] = [set() for _ in range(n)]
    for u, v in zip(net.u.tolist(), net.v.tolist(), strict=True):
        if counts[u] > 1 and counts[v] > 1:
            near[u].add(v)
            near[v].add(u)
    size = np.log2(np.maximum(np.array(counts, np.float64), 1.0)).tolist()

    def weight(i: int) -> float:
        return float(size[i] + sum(size[j] for j in near[i]))

    heap = [(weight(i), i) for i in range(n)]
    heapq.heapify(heap)
    gone = [False] * n
    order: list[int] = []
    largest = total = looked = 0
    limit = math.log2(most) + 1e-9
    while heap:
        least, i = heapq.heappop(heap)
        if gone[i]:
            continue
        now = weight(i)
        if now > least + 1e-9:
            heapq.heappush(heap, (now, i))
            continue
        if now > limit:
            return None
        gone[i] = True
        order.append(i)
        cells = math.prod([counts[i], *(counts[j] for j in near[i])])
        largest, total = max(largest, cells), total + cells
        looked += len(near[i]) ** 2
        if looked > MOST_FILL:
            return None
        for j in sorted(near[i]):
            near[j] |= near[i]
            near[j] -= {i, j}
            heapq.heappush(heap, (weight(j), j))
    return Order(order, largest, total)


def eliminate(net: Net, s: State, order: Order, stopped: Callable[[], bool]) -> tuple[int, Ints] | None:
    """The least cost on top of the constant of the state, and labels that have it; None when told to stop.

    Args:
        net: The network, without rows of budgets.
        s: A consistent state.
        order: From `find_order`.
        stopped: Asked before every table.

    Returns:
        The cost in units, `FORBIDDEN` when there is no assignment, and ``int64[n]`` labels of the network.
    """
    n = len(net.ptr) - 1
    labels = [np.sort(s.labels[net.ptr[i] : net.ptr[i] + int(s.x[len(s.x) - 1 - n + i])]) for i in range(n)]
    rank = np.empty(n, np.int64)
    rank[order.variables] = np.arange(n)
    buckets: list[list[_Factor]] = [[] for _ in range(n)]
    constant = 0
    for i in range(n):
        buckets[int(rank[i])].append(_Factor((i,), s.x[net.ptr[i] + labels[i]]))
    for e, (u, v) in enumerate(zip(net.u.tolist(), net.v.tolist(), strict=True)):
        rows, columns = labels[u], labels[v]
        at = net.cell[e] + rows[:, None] * net.step_u[e] + columns[None, :] * net.step_v[e]
        raw = net.cells[at]
        moved = s.x[net.out_u[e] + rows][:, None] + s.x[net.out_v[e] + columns][None, :]
        buckets[int(min(rank[u], rank[v]))].append(_Factor((u, v), np.where(raw < FORBIDDEN, raw - moved, FORBIDDEN)))
    best: list[tuple[tuple[int, ...], npt.NDArray[np.intp]]] = []
    for step, i in enumerate(order.variables):
        if stopped():
            return None
        scope = sorted({j for factor in buckets[step] for j in factor.scope} - {i})
        scope = [j for j in scope if len(labels[j]) > 1]
        axes = (i, *scope)
        table = np.zeros([len(labels[j]) for j in axes], np.int64)
        for factor in buckets[step]:
            table += _aligned(factor, axes, labels)
            np.minimum(table, FORBIDDEN, out=table)
        best.append((tuple(scope), table.argmin(0)))
        least: Ints = np.asarray(table.min(0))
        if not scope:
            constant = min(constant + int(least), FORBIDDEN)
        else:
            home = min(int(rank[j]) for j in scope)
            buckets[home].append(_Factor(tuple(scope), least))
        buckets[step] = []
    place = np.zeros(n, np.int64)
    for i, (scope_of, choice) in zip(reversed(order.variables), reversed(best), strict=True):
        place[i] = choice[tuple(place[j] for j in scope_of)]
    return constant, np.array([labels[i][place[i]] for i in range(n)], np.int64)


def _aligned(factor: _Factor, axes: tuple[int, ...], labels: list[Ints]) -> Ints:
    """The factor's values with one axis for each of ``axes``, in that order; variables of one label are dropped."""
    wanted = [j for j in axes if j in factor.scope]
    kept = [j for j in factor.scope if j in wanted]
    values = factor.values
    for axis in reversed(range(len(factor.scope))):
        if factor.scope[axis] not in wanted:
            values = np.asarray(np.take(values, 0, axis))
    values = values.transpose([kept.index(j) for j in wanted])
    shape = [len(labels[j]) if j in wanted else 1 for j in axes]
    return values.reshape(shape)
