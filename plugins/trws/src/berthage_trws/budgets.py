"""Budgets as rows: every linear budget is one row, every interval budget one row per instant that can bind.

A row sums the weights of the labels chosen by the entries that reach it; an entry belongs to one node and reaches a
range of rows. An instant cannot bind unless something starts at it and something stops at the next event: at any
other instant a subset of what is live at a neighbouring one is live, and weights are not negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from berthage import PlacementProblem

from .layout import Layout, Words, repeated
from .tables import Floats, Ints


class Rows(NamedTuple):
    """What the kernels read. Indices are ``uint64``.

    Entries are grouped by node (``entry_ptr``); entry ``e`` adds ``weights[weight_ptr[e] + k]`` to the rows
    ``row_start[e] … row_stop[e] - 1`` when its node takes compact label ``k``. Row ``r`` of budget ``budget[r]`` wants
    ``lower[r] <= use <= upper[r]``; ``size[r]`` makes violations comparable. The rows of budget ``b`` are
    ``budget_ptr[b] … budget_ptr[b + 1] - 1``; ``price[b]`` is its scaled cost per unit outside, ``inf`` when hard.
    """

    entry_ptr: Words
    row_start: Words
    row_stop: Words
    weight_ptr: Words
    weights: Floats
    lower: Floats
    upper: Floats
    size: Floats
    budget: Words
    budget_ptr: Words
    price: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Budgets:
    """The rows of a problem's budgets, for its layout.

    Attributes:
        rows: For the kernels.
        names: Name of each budget.
        instant: First instant at which each row holds; -1 for a linear budget.
        cell: For each weight, the flat compact label it belongs to.
        entry_of_weight: For each weight, its entry.
    """

    rows: Rows
    names: tuple[str, ...]
    instant: Ints
    cell: Ints
    entry_of_weight: Ints

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.rows.upper)

    def use(self, state: Words) -> Floats:
        """Use of each row by an assignment of compact labels."""
        rows = self.rows
        node = repeated(rows.entry_ptr)
        chosen = rows.weights[(rows.weight_ptr + state[node]).astype(np.int64)]
        change = np.zeros(self.count + 1)
        np.add.at(change, rows.row_start.astype(np.int64), chosen)
        np.subtract.at(change, rows.row_stop.astype(np.int64), chosen)
        total: Floats = np.cumsum(change)[:-1]
        return total

    def unary(self, multipliers: Floats) -> tuple[Floats, Floats]:
        """What multipliers (cost per unit of each row) add to the cost of each label, and its magnitude.

        The magnitude covers the rounding of the sums over rows as well, so that errors can be charged in full.
        """
        rows = self.rows
        total = np.concatenate([np.zeros(1), np.cumsum(multipliers)])
        rate = total[rows.row_stop.astype(np.int64)] - total[rows.row_start.astype(np.int64)]
        doubt = (np.count_nonzero(multipliers) + 1) * float(np.abs(multipliers).sum())
        labels = int(self.cell.max(initial=-1)) + 1
        weights = np.abs(rows.weights)
        added = np.bincount(self.cell, rate[self.entry_of_weight] * rows.weights, labels)
        size = np.bincount(self.cell, (np.abs(rate[self.entry_of_weight]) + doubt) * weights, labels)
        return added.astype(np.float64), size.astype(np.float64)


def compile_budgets(problem: PlacementProblem, layout: Layout) -> Budgets:
    """The rows of all budgets of ``problem`` in terms of ``layout``'s nodes and compact labels."""
    position = np.empty(problem.num_variables, np.int64)
    position[layout.order] = np.arange(problem.num_variables)
    label_ptr = layout.exact.label_ptr.astype(np.int64)
    parts: list[
        tuple[Ints, Ints, Ints, Any, Any]
    ] = []  # variables, first row, row past the last, weights, their starts
    lower: list[float] = []
    upper: list[float] = []
    budget: list[int] = []
    instants: list[int] = []
    names: list[str] = []
    prices: list[float] = []
    counts: list[int] = []
    for linear in problem.linear_budgets:
        k, row = len(linear.variables), len(budget)
        parts.append(
            (linear.variables.astype(np.int64), np.full(k, row), np.full(k, row + 1), linear.weights, linear.ptr[:-1])
        )
        lower.append(float(linear.lower))
        upper.append(float(linear.upper))
        budget.append(len(names))
        instants.append(-1)
        names.append(linear.name)
        prices.append(np.inf if linear.price is None else float(linear.price) * layout.scale)
        counts.append(1)
    for interval in problem.interval_budgets:
        live = np.flatnonzero(interval.stop > interval.start)
        start, stop = interval.start[live], interval.stop[live]
        events = np.unique(np.concatenate([start, stop]))
        binding = events[:-1][np.isin(events[:-1], start) & np.isin(events[1:], stop)] if len(events) else events
        row = len(budget)
        first, last = row + np.searchsorted(binding, start), row + np.searchsorted(binding, stop)
        parts.append(
            (interval.variables[live].astype(np.int64), first, last, interval.weights, interval.ptr[:-1][live])
        )
        lower += [-np.inf] * len(binding)
        upper += [float(interval.limit)] * len(binding)
        budget += [len(names)] * len(binding)
        instants += binding.tolist()
        names.append(interval.name)
        prices.append(np.inf if interval.price is None else float(interval.price) * layout.scale)
        counts.append(len(binding))
    node = position[np.concatenate([p[0] for p in parts])]
    rank = np.argsort(node, kind="stable")
    node = node[rank]
    lengths = np.diff(label_ptr)[node]
    weight_ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    entry = np.repeat(np.arange(len(node)), lengths)
    cell = np.repeat(label_ptr[node] - weight_ptr[:-1], lengths) + np.arange(int(weight_ptr[-1]))
    shift = np.cumsum([0, *(len(p[3]) for p in parts)])
    flat = np.concatenate([p[3].astype(np.float64) for p in parts])
    begin = np.concatenate([p[4] + s for p, s in zip(parts, shift, strict=False)])[rank]
    weights = flat[begin[entry] + layout.label[cell]]
    up, low = np.array(upper, np.float64), np.array(lower, np.float64)
    size = np.maximum(np.where(np.isfinite(up), np.abs(up), 0.0), np.where(np.isfinite(low), np.abs(low), 0.0))
    rows = Rows(
        entry_ptr=np.searchsorted(node, np.arange(layout.nodes + 1)).astype(np.uint64),
        row_start=np.concatenate([p[1] for p in parts])[rank].astype(np.uint64),
        row_stop=np.concatenate([p[2] for p in parts])[rank].astype(np.uint64),
        weight_ptr=weight_ptr[:-1].astype(np.uint64),
        weights=weights,
        lower=low,
        upper=up,
        size=np.maximum(size, 1.0),
        budget=np.array(budget, np.uint64),
        budget_ptr=np.cumsum([0, *counts]).astype(np.uint64),
        price=np.array(prices, np.float64),
    )
    return Budgets(rows, tuple(names), np.array(instants, np.int64), cell, entry)
