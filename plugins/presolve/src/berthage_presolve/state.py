"""The problem under reduction: flat arrays that every rule reads and replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import CostTable, PlacementProblem

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
EXACT_FLOAT = 2.0**53
"""Above this magnitude a float64 no longer holds every integer."""
EPSILON = float(np.finfo(np.float64).eps)
"""Relative rounding error of one operation (twice its bound)."""


@dataclass(frozen=True, slots=True)
class Head:
    """A budget without its rows: what is left of it once `fixed` use (linear) has been taken off.

    Attributes:
        name: Name of the constraint.
        interval: Whether it is an interval budget.
        lower: Least use (linear only).
        upper: Greatest use; the limit of an interval budget.
        price: None for hard.
        whole: Whether all weights are whole numbers (int64).
        tolerance: How far beyond its limits `evaluate` lets a hard budget with float weights go.
        alive: False once nothing can violate it any more.
    """

    name: str
    interval: bool
    lower: int | float
    upper: int | float
    price: int | float | None
    whole: bool
    tolerance: float = 0.0
    alive: bool = True

    @property
    def hard(self) -> bool:
        """Whether it must be kept rather than priced."""
        return self.price is None


@dataclass(frozen=True, slots=True)
class Rows:
    """Budget rows: use of one budget by one variable, by label, over ``[start, stop)`` (0 and 1 for linear ones).

    Attributes:
        budget: int64[R], non-decreasing.
        var: int64[R].
        start: int64[R].
        stop: int64[R].
        at: int64[R], first weight; a row has as many as its variable has labels.
        weights: float64, all weights; exact, because totals stay below 2^53 where they are whole.
    """

    budget: Array
    var: Array
    start: Array
    stop: Array
    at: Array
    weights: Array


@dataclass(frozen=True, slots=True)
class Fixed:
    """Use of interval budgets that no choice can change any more: int64 and float64 arrays of equal length."""

    budget: Array
    lead: Array
    start: Array
    stop: Array
    weight: Array

    @staticmethod
    def none() -> Fixed:
        """Nothing fixed."""
        empty = np.zeros(0, dtype=np.int64)
        return Fixed(empty, empty, empty, empty, np.zeros(0))


@dataclass(frozen=True, slots=True)
class Work:
    """A problem in the form the rules work on.

    Attributes:
        problem: The original.
        ptr: int64[n+1], first label of each variable.
        unary: float64[labels], multiplicities included.
        lead: int64[n], an original variable each variable stands for, and takes its name and labels from.
        lead_label: int64[labels], label of `lead`.
        edges: int64[m, WIDTH], see `edge_columns`.
        mult: float64[m], whole numbers.
        maps: int32, class maps.
        cells: float64, costs of tables.
        tables: Tables that are priced on demand, by their `SOURCE`.
        heads: Budgets.
        rows: What the budgets count.
        fixed: Constant use of interval budgets.
        constant: Cost of what has been decided.
        error: Bound on the rounding error of the objective, 0 while all costs are whole.
        magnitude: Upper limit on the magnitude of any sum of finite costs.
        cause: int64[labels], relation row that forbids a label from the start, or -1.
    """

    problem: PlacementProblem
    ptr: Array
    unary: Array
    lead: Array
    lead_label: Array
    edges: Array
    mult: Array
    maps: Array
    cells: Array
    tables: tuple[CostTable, ...]
    heads: tuple[Head, ...]
    rows: Rows
    fixed: Fixed
    constant: int | float
    error: float
    magnitude: float
    cause: Array

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.ptr) - 1

    @property
    def counts(self) -> Array:
        """int64[n], labels of each variable."""
        counts: Array = np.diff(self.ptr)
        return counts

    def names(self, variables: Array) -> tuple[str, ...]:
        """Original names of some variables' leads."""
        return tuple(self.problem.variable_names[i] for i in self.lead[variables].tolist())


def spans(starts: Array, counts: Array) -> Array:
    """Indices ``starts[i], …, starts[i] + counts[i] − 1`` for every i, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    result: Array = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return result


def pointers(counts: Array) -> Array:
    """int64[len + 1], running sums from 0."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def peaks(ptr: Array, values: Array) -> Array:
    """float64[n], the largest finite magnitude of each group of a ragged array (groups are never empty)."""
    if len(ptr) < 2:
        return np.zeros(0)
    result: Array = np.maximum.reduceat(np.where(np.isfinite(values), np.abs(values), 0.0), ptr[:-1])
    return result
