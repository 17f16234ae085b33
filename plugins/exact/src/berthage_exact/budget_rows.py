"""Budgets as rows of whole numbers, each ``use ≤ limit``, and what the prices of rows add to the costs of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem
from berthage_trws import RowPrices

from .state import MOST_RATE, Floats, Ints

if TYPE_CHECKING:
    from berthage.problem import IntervalBudget, LinearBudget

MOST_USE = 2.0**60
FLOAT_USE = 2.0**52
"""Greatest sum of weights after scaling: whole weights are scaled down only, floats are scaled up."""


MOST_CELLS = 1 << 22
"""Members of all rows together above which multipliers stay as they were given: listing members takes memory."""


@dataclass(frozen=True, eq=False, slots=True)
class BudgetRows:
    """Rows for the kernels; see `berthage_exact.state.Net`.

    Attributes:
        price: In the problem's costs per unit of the weights.
        rate: Multiplier of each row, likewise.
        dearest: Most that all soft budgets together can cost, in the problem's costs.
    """

    entry_ptr: Ints
    first: Ints
    last: Ints
    weight: Ints
    weights: Ints
    limit: Ints
    group: Ints
    price: Floats
    rate: Floats
    member_ptr: Ints
    member: Ints
    member_weight: Ints
    bits: Ints
    most: Ints
    dearest: float


@dataclass(eq=False, slots=True)
class _Collected:
    """Entries and rows so far."""

    variable: list[Ints] = field(default_factory=list)
    first: list[Ints] = field(default_factory=list)
    last: list[Ints] = field(default_factory=list)
    weights: list[Ints] = field(default_factory=list)
    limit: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    price: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    dearest: float = 0.0


def budget_rows(
    problem: PlacementProblem, prices: RowPrices | None, keep: npt.NDArray[np.bool_], ptr: Ints
) -> BudgetRows:
    """The rows that can bind when only the labels in ``keep`` are left.

    Args:
        problem: The problem.
        prices: Multipliers of rows, or None for none.
        keep: ``bool[ΣK]``, labels that are left.
        ptr: Where the labels left of each variable start.
    """
    kept = [np.flatnonzero(part) for part in np.split(keep, problem.label_ptr[1:-1])] if len(keep) else []
    found = _Collected()
    for index, linear in enumerate(problem.linear_budgets):
        mine = _priced(prices, index)
        for side in _linear(linear, kept, mine.upper, mine.lower):
            side.collect(found)
    for index, interval in enumerate(problem.interval_budgets, len(problem.linear_budgets)):
        mine = _priced(prices, index)
        for side in _interval(interval, kept, mine.upper, mine.instant):
            side.collect(found)
    order = np.argsort(_cat(found.variable), kind="stable")
    variable, first, last = _cat(found.variable)[order], _cat(found.first)[order], _cat(found.last)[order]
    flat = [found.weights[i] for i in order.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(w) for w in flat])]).astype(np.int64)[:-1]
    weights = _cat(flat)
    members = _members(variable, first, last, flat, starts, len(found.limit))
    extra = _cat(members.weights)
    largest = np.zeros(len(found.limit), np.int64)
    np.maximum.at(largest, members.row, members.largest)
    member_ptr = np.searchsorted(members.row, np.arange(len(found.limit) + 1)).astype(np.int64)
    crowd = [max(0, int(count).bit_length() - 9) for count in np.diff(member_ptr)]
    return BudgetRows(
        np.searchsorted(variable, np.arange(len(ptr))).astype(np.int64), first, last, starts,
        np.concatenate([weights, extra]), np.array(found.limit, np.int64), np.array(found.group, np.int64),
        np.array(found.price, np.float64), np.array(found.rate, np.float64),
        member_ptr, members.variable, members.weight,
        np.array([max(int(w), 1).bit_length() + 3 for w in largest], np.int64),
        np.array([1 << (MOST_RATE - less) for less in crowd], np.int64), found.dearest,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class _Members:
    """The variables of each row, each once, with the place of its weights; `weights` are appended to the others."""

    row: Ints
    variable: Ints
    weight: Ints
    largest: Ints
    weights: list[Ints]


def _members(variable: Ints, first: Ints, last: Ints, flat: list[Ints], starts: Ints, rows: int) -> _Members:
    lengths = last - first
    if int(lengths.sum()) > MOST_CELLS:
        none = np.zeros(0, np.int64)
        return _Members(none, none, none, none, [])
    entry = np.repeat(np.arange(len(first)), lengths)
    before = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    row = first[entry] + np.arange(len(entry)) - before[entry]
    rank = np.lexsort((entry, row))
    row, entry = row[rank], entry[rank]
    at = starts[entry]
    big = np.array([int(np.abs(w).max(initial=0)) for w in flat], np.int64)[entry]
    same = (row[1:] == row[:-1]) & (variable[entry][1:] == variable[entry][:-1])
    if not same.any():
        return _Members(row, variable[entry], at, big, [])
    # A variable that is live twice at one instant: its weights are added up.
    heads = np.flatnonzero(np.concatenate([[True], ~same]))
    tails = np.append(heads[1:], len(row))
    end = int(starts[-1]) + len(flat[-1])
    extra: list[Ints] = []
    at, big = at.copy(), big.copy()
    for h, t in zip(heads.tolist(), tails.tolist(), strict=True):
        if t - h > 1:
            total: Ints = np.stack([flat[k] for k in entry[h:t].tolist()]).sum(0)
            at[h], big[h] = end, int(np.abs(total).max())
            end += len(total)
            extra.append(total)
    return _Members(row[heads], variable[entry][heads], at[heads], big[heads], extra)


def _priced(prices: RowPrices | None, index: int) -> RowPrices:
    """The prices of one budget's rows."""
    if prices is None:
        none = np.zeros(0, np.int64)
        return RowPrices(none, none, np.zeros(0), np.zeros(0))
    mine = np.flatnonzero(prices.budget == index)
    return RowPrices(prices.budget[mine], prices.instant[mine], prices.upper[mine], prices.lower[mine])


def _cat(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class _Side:
    """One side of a budget: ``Σ sign · weight ≤ sign · limit`` at every row.

    Attributes:
        variable: Variable of each entry.
        rows: First row, and row past the last, of each entry.
        weights: Weights of the labels kept, by entry.
        limit: The limit, with its sign.
        slack: How far it may be exceeded.
        price: Cost per unit above, or None when hard.
        rate: Multiplier of each row.
        sign: 1, or -1 for a lower limit.
    """

    variable: Ints
    rows: tuple[Ints, Ints]
    weights: list[npt.NDArray[np.int64] | Floats]
    limit: int | float
    slack: float
    price: float | None
    rate: Floats
    sign: int

    def valid_rate(self) -> Floats:
        """The multipliers, lowered where they add up to more than the price."""
        total = float(self.rate.sum())
        if self.price is None or total <= self.price * (1.0 - 1e-12):
            return self.rate
        return self.rate * (self.price / total) * (1.0 - 1e-9)

    def collect(self, found: _Collected) -> None:
        """Append the rows that can bind, with their entries, in whole numbers."""
        whole = all(w.dtype.kind == "i" for w in self.weights) and float(self.limit).is_integer()
        most = math.fsum(float(np.abs(w).max(initial=0.0)) for w in self.weights)
        ceiling = MOST_USE if whole else FLOAT_USE
        unit = 2.0 ** math.floor(math.log2(ceiling / max(most, 2.0**-900)))
        unit = min(unit, 1.0) if whole else unit
        units = [_scaled(w, self.sign, unit) for w in self.weights]
        if whole and unit == 1.0:
            limit = int(self.limit)
        else:
            limit = math.floor((float(self.limit) + self.slack) * unit + abs(float(self.limit)) * unit * 2.0**-50) + 1
        limit = max(min(limit, 1 << 61), -(1 << 61))
        first, last = self.rows
        rows = len(self.rate) if len(self.rate) else int(last.max(initial=0))
        change = [0] * (rows + 1)
        for a, b, w in zip(first.tolist(), last.tolist(), units, strict=True):
            change[a] += int(w.max())
            change[b] -= int(w.max())
        most_used = np.array(_running(change)[:rows], object)
        binds = most_used > limit
        if not binds.any():
            return
        if self.price is not None:
            found.dearest += float(self.price) / unit * float(max(most_used) - limit)
        number = np.concatenate([[0], np.cumsum(binds)]).astype(np.int64) + len(found.limit)
        reach = number[last] > number[first]
        found.variable.append(self.variable[reach])
        found.first.append(number[first][reach])
        found.last.append(number[last][reach])
        found.weights += [w for w, taken in zip(units, reach.tolist(), strict=True) if taken]
        count = int(binds.sum())
        found.limit += [limit] * count
        found.group += [len(found.price)] * count
        found.rate += (self.valid_rate()[binds] / unit).tolist()
        found.price.append(-1.0 if self.price is None else float(self.price) / unit)


def _running(change: list[int]) -> list[int]:
    total, out = 0, []
    for value in change:
        total += value
        out.append(total)
    return out


def _scaled(weights: npt.NDArray[np.int64] | Floats, sign: int, unit: float) -> Ints:
    if weights.dtype.kind == "i" and unit == 1.0:
        return weights.astype(np.int64) * sign
    return np.floor(weights.astype(np.float64) * (sign * unit)).astype(np.int64)


def _linear(budget: LinearBudget, kept: list[Ints], upper: Floats, lower: Floats) -> list[_Side]:
    weights = [
        budget.weights[a + kept[i]] for i, a in zip(budget.variables.tolist(), budget.ptr.tolist(), strict=False)
    ]
    k = len(budget.variables)
    rows = np.zeros(k, np.int64), np.ones(k, np.int64)
    sides = []
    slack = float(budget.slack) if budget.price is None else 0.0
    for limit, rate, sign in ((budget.upper, upper, 1), (budget.lower, lower, -1)):
        if math.isfinite(limit):
            own = rate if len(rate) else np.zeros(1)
            sides.append(
                _Side(
                    budget.variables.astype(np.int64), rows, weights, sign * limit, slack,
                    None if budget.price is None else float(budget.price), own, sign,
                )
            )  # fmt: skip
    return sides


def _interval(budget: IntervalBudget, kept: list[Ints], upper: Floats, instant: Ints) -> list[_Side]:
    live = np.flatnonzero(budget.stop > budget.start)
    if not len(live) or not math.isfinite(budget.limit):
        return []
    start, stop = budget.start[live], budget.stop[live]
    events = np.unique(np.concatenate([start, stop]))
    # An instant can bind only where something starts and something stops at the next event.
    binding = events[:-1][np.isin(events[:-1], start) & np.isin(events[1:], stop)]
    rate = np.zeros(len(binding))
    if len(instant):
        at = np.searchsorted(binding, instant)
        rate[at] = upper
    variables = budget.variables[live].astype(np.int64)
    weights = [budget.weights[a + kept[i]] for i, a in zip(variables.tolist(), budget.ptr[live].tolist(), strict=True)]
    rows = np.searchsorted(binding, start).astype(np.int64), np.searchsorted(binding, stop).astype(np.int64)
    slack = float(budget.slack) if budget.price is None else 0.0
    price = None if budget.price is None else float(budget.price)
    return [_Side(variables, rows, weights, budget.limit, slack, price, rate, 1)]
