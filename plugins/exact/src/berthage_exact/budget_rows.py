"""Budgets as rows of whole numbers, each ``use ≤ limit``, and what the prices of rows add to the costs of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem
from berthage_trws import RowPrices

from .state import Floats, Ints

if TYPE_CHECKING:
    from berthage.problem.budgets import IntervalBudget, LinearBudget

MOST_USE = 2.0**60
FLOAT_USE = 2.0**52
"""Greatest sum of weights after scaling: whole weights are scaled down only, floats are scaled up."""


@dataclass(frozen=True, eq=False, slots=True)
class BudgetRows:
    """Rows for the kernels (see `berthage_exact.state.Net`), and the part of the budgets that is in the costs.

    Attributes:
        price: In the problem's costs per unit of the weights.
        added: Cost added to each label kept, by the prices.
        doubt: Greatest error of each.
        offset: Cost added to every assignment, rounded down.
    """

    entry_ptr: Ints
    first: Ints
    last: Ints
    weight: Ints
    weights: Ints
    limit: Ints
    group: Ints
    price: Floats
    added: Floats
    doubt: Floats
    offset: float


@dataclass(eq=False, slots=True)
class _Collected:
    """Entries and rows so far."""

    variable: list[Ints] = field(default_factory=list)
    first: list[Ints] = field(default_factory=list)
    last: list[Ints] = field(default_factory=list)
    weights: list[list[Ints]] = field(default_factory=list)
    limit: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    price: list[float] = field(default_factory=list)


def budget_rows(
    problem: PlacementProblem, prices: RowPrices | None, keep: npt.NDArray[np.bool_], ptr: Ints
) -> BudgetRows:
    """The rows that can bind when only the labels in ``keep`` are left.

    Args:
        problem: The problem.
        prices: Prices of rows, or None for none.
        keep: ``bool[ΣK]``, labels that are left.
        ptr: Where the labels left of each variable start.
    """
    kept = [np.flatnonzero(part) for part in np.split(keep, problem.label_ptr[1:-1])] if len(keep) else []
    found = _Collected()
    added, doubt = np.zeros(int(ptr[-1])), np.zeros(int(ptr[-1]))
    offsets: list[float] = []
    for index, budget in enumerate((*problem.linear_budgets, *problem.interval_budgets)):
        mine = None if prices is None else np.flatnonzero(prices.budget == index)
        upper = np.zeros(0) if prices is None else prices.upper[mine]
        lower = np.zeros(0) if prices is None else prices.lower[mine]
        if index < len(problem.linear_budgets):
            sides = _linear(budget, kept, upper, lower)
        else:
            sides = _interval(budget, kept, upper, np.zeros(0, np.int64) if prices is None else prices.instant[mine])
        for side in sides:
            offsets += side.charge(added, doubt, ptr)
            side.collect(found)
    order = np.argsort(_cat(found.variable), kind="stable")
    variable = _cat(found.variable)[order]
    flat = [w for part in found.weights for w in part]
    flat = [flat[i] for i in order.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(w) for w in flat])]).astype(np.int64)[:-1]
    offset = math.fsum(offsets) - 2.0**-50 * math.fsum(abs(x) for x in offsets)
    return BudgetRows(
        np.searchsorted(variable, np.arange(len(ptr))).astype(np.int64),
        _cat(found.first)[order], _cat(found.last)[order], starts, _cat(flat),
        np.array(found.limit, np.int64), np.array(found.group, np.int64), np.array(found.price, np.float64),
        added, doubt, offset,
    )  # fmt: skip


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

    def charge(self, added: Floats, doubt: Floats, ptr: Ints) -> list[float]:
        """Add what the multipliers charge to the labels; returns the terms of the offset."""
        rate = self.valid_rate()
        if not rate.any():
            return []
        first, last = self.rows
        for i, a, b, weights in zip(self.variable.tolist(), first.tolist(), last.tolist(), self.weights, strict=True):
            each = math.fsum(rate[a:b].tolist()) * weights.astype(np.float64) * self.sign
            added[ptr[i] : ptr[i + 1]] += each
            doubt[ptr[i] : ptr[i + 1]] += 2.0**-50 * np.abs(each)
        return [-float(r) * (float(self.limit) + self.slack) for r in rate.tolist() if r]

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
        binds = np.array(_running(change)[:rows], object) > limit
        if not binds.any():
            return
        number = np.concatenate([[0], np.cumsum(binds)]).astype(np.int64) + len(found.limit)
        reach = number[last] > number[first]
        found.variable.append(self.variable[reach])
        found.first.append(number[first][reach])
        found.last.append(number[last][reach])
        found.weights.append([w for w, taken in zip(units, reach.tolist(), strict=True) if taken])
        count = int(binds.sum())
        found.limit += [limit] * count
        found.group += [len(found.price)] * count
        if self.price is None:
            found.price.append(-1.0)
        else:
            over = max(0.0, float(self.price) - float(self.valid_rate().sum())) * (1.0 - 1e-12)
            found.price.append(over / unit)


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
