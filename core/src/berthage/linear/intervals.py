"""Rows for interval budgets: only instants that can bind, written densely or as running sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from berthage.linear.budgets import Items, Scaling, items_of, scaling
from berthage.linear.groups import Groups
from berthage.linear.ragged import ragged
from berthage.linear.rows import Collector

if TYPE_CHECKING:
    from berthage.problem.budgets import IntervalBudget
    from berthage.problem.model import PlacementProblem

__all__ = ["IntervalForm", "interval_budget_rows", "maximal_instants"]

IntervalForm = Literal["auto", "dense", "running"]

_DENSE_NONZEROS = 300_000
"""Up to this many nonzeros the dense form is the faster one, whatever the running form would need."""

_DENSE_FACTOR = 4
"""Above that, dense rows are still taken up to this many times the nonzeros of running sums."""

_EPS = float(np.finfo(np.float64).eps)


def maximal_instants(start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
    """Instants whose set of live items no other instant's set contains.

    The live set is maximal exactly at a start that is followed by a stop before the next start.

    Args:
        start: ``int64[k]`` where each half-open interval starts.
        stop: ``int64[k]`` where it stops, after its start.
    """
    starts = np.unique(start)
    if not len(starts):
        return starts
    stops = np.sort(stop)
    before = np.searchsorted(stops, starts, side="right")
    after = np.append(np.searchsorted(stops, starts[1:], side="right"), len(stops))
    return starts[after > before]


@dataclass(frozen=True, slots=True)
class _Timeline:
    """Which items are live at which of the instants that can bind.

    Item ``i`` is live at the instants ``first[i]:last[i]``; ``room`` is the limit left at each instant after
    what the items use whatever is chosen; ``top`` is the most they can use above that.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    room: NDArray[Any]
    top: NDArray[Any]

    def __len__(self) -> int:
        """Number of instants."""
        return len(self.room)


def interval_budget_rows(
    problem: PlacementProblem,
    groups: Groups,
    index: int,
    budget: IntervalBudget,
    scale: float,
    form: IntervalForm,
    out: Collector,
) -> None:
    """Add the rows of an interval budget, with one overuse column for all instants when it is soft.

    Args:
        problem: The problem.
        groups: Its label columns.
        index: Index of the budget, recorded with the rows.
        budget: The budget.
        scale: Objective scale that prices are multiplied with.
        form: ``dense`` (one row per instant over all live labels), ``running`` (a running sum, whose change
            from one instant to the next involves only what starts and stops), or ``auto`` by size.
        out: Where rows go.
    """
    if math.isinf(budget.limit) or budget.price == 0:
        return
    items = items_of(problem, groups, budget)
    line = _timeline(items, budget)
    if not len(line):
        return
    entry_item = np.repeat(np.arange(len(items.base)), np.diff(items.ptr))
    keep = (items.weight > 0) & (line.first < line.last)[entry_item]
    entry_item, col, weight = entry_item[keep], items.col[keep], items.weight[keep]
    hard = budget.price is None
    units = scaling(weight, whole=hard)
    slack = budget.slack if hard else 0.0  # what `evaluate` lets pass no row may forbid
    if not items.exact:
        slack += 4.0 * _EPS * (len(items.base) + 1) * float(items.base.sum() + items.top.sum())
    room = _room(line, units, slack)
    value = units.coefficients(weight)
    top = line.top.astype(np.float64) * units.unit + slack * units.factor
    over = -1
    if not hard:
        price = float(budget.price or 0.0) * scale / units.unit
        over = out.columns(price, 0.0, max(0.0, float((top - room).max())))
    first, last = line.first[entry_item], line.last[entry_item]
    dense = int((last - first).sum())
    running = 2 * len(col) + 3 * len(line)
    if form == "dense" or (form == "auto" and dense <= max(_DENSE_NONZEROS, _DENSE_FACTOR * running)):
        row = out.rows(np.full(len(line), -np.inf), room, budget=index)
        instant, owner = ragged(first, last - first)
        out.entries(row + instant, col[owner], value[owner])
        if over >= 0:
            out.entries(row + np.arange(len(line)), over, -1.0)
        return
    use = out.columns(
        0.0, np.minimum(0.0, room) if hard else np.zeros(len(room)), np.minimum(room, top) if hard else top
    )
    row = out.rows(np.zeros(len(line)), np.zeros(len(line)), budget=index)
    steps = np.arange(len(line))
    out.entries(row + steps, use + steps, 1.0)
    out.entries(row + steps[1:], use + steps[:-1], -1.0)
    out.entries(row + first, col, -value)
    ends = last < len(line)
    out.entries(row + last[ends], col[ends], value[ends])
    if over >= 0:
        caps = out.rows(np.full(len(line), -np.inf), room, budget=index)
        out.entries(caps + steps, use + steps, 1.0)
        out.entries(caps + steps, over, -1.0)


def _room(line: _Timeline, units: Scaling, slack: float) -> NDArray[np.float64]:
    room = line.room
    if room.dtype == np.int64:
        if units.divisor > 1:
            room = room // units.divisor
        return room.astype(np.float64) * units.factor
    return room * units.factor + slack * units.factor


def _timeline(items: Items, budget: IntervalBudget) -> _Timeline:
    """Instants that can bind: maximal live sets that can exceed the limit, one per set of varying items."""
    start = np.asarray(budget.start, dtype=np.int64)
    stop = np.asarray(budget.stop, dtype=np.int64)
    live = (start < stop) & ((items.base > 0) | (items.top > 0))
    instants = maximal_instants(start[live], stop[live])
    first = np.searchsorted(instants, start)
    last = np.where(live, np.searchsorted(instants, stop), first)
    exact = items.exact and float(budget.limit).is_integer()
    dtype = np.int64 if exact else np.float64
    base = _live_sum(first, last, items.base.astype(dtype), len(instants))
    top = _live_sum(first, last, items.top.astype(dtype), len(instants))
    limit = int(budget.limit) if exact else float(budget.limit)
    if exact and limit >= 2**62:  # int64 sums are below 2^61 here, so no instant can exceed such a limit
        return _Timeline(first * 0, first * 0, base[:0], top[:0])
    if exact:
        limit = max(limit, -(2**62))
    room = limit - base
    binding = np.flatnonzero(top > room)
    # Where the varying items of neighbouring instants are the same, the tighter one speaks for both.
    varying = items.top > 0
    first = np.searchsorted(binding, first)
    last = np.where(varying, np.searchsorted(binding, last), first)
    change = np.zeros(len(binding) + 1, dtype=bool)
    change[:1] = True
    used = last > first
    change[first[used]] = True
    change[last[used]] = True
    heads = np.flatnonzero(change[: len(binding)])
    if not len(heads):
        return _Timeline(first * 0, first * 0, room[:0], top[:0])
    first = np.searchsorted(heads, first)
    last = np.searchsorted(heads, last)
    return _Timeline(first, last, np.minimum.reduceat(room[binding], heads), top[binding][heads])


def _live_sum(
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    amount: NDArray[Any],
    count: int,
) -> NDArray[Any]:
    """Sum over the items live at each of ``count`` instants."""
    change = np.zeros(count + 1, dtype=amount.dtype)
    np.add.at(change, first, amount)
    np.subtract.at(change, last, amount)
    return np.cumsum(change[:count])
