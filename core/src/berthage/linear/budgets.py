"""Budget rows: exact arithmetic on integers first, then a scaling that solvers can bear."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isinf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from berthage.linear.groups import Groups
from berthage.linear.ragged import ragged, starts_of
from berthage.linear.rows import Collector

if TYPE_CHECKING:
    from berthage.problem.budgets import IntervalBudget, LinearBudget
    from berthage.problem.model import PlacementProblem

__all__ = ["Items", "Scaling", "items_of", "linear_budget_rows", "scaling"]

_MAX_COEFFICIENT = 1e5
"""HiGHS counts x = 0.999999 as integral; a coefficient of 1e6 then hides a violated budget."""

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Items:
    """The weights of some variables over label columns, each reduced by its least weight.

    Item ``i`` has the entries ``ptr[i]:ptr[i+1]`` of ``col`` and ``weight`` (``weight >= 0``) and uses
    ``base[i]`` whatever is chosen and at most ``top[i]`` above that.
    """

    ptr: NDArray[np.int64]
    col: NDArray[np.int64]
    weight: NDArray[Any]
    base: NDArray[Any]
    top: NDArray[Any]

    @property
    def exact(self) -> bool:
        """Whether all arithmetic on these weights is integer arithmetic."""
        return self.weight.dtype == np.int64


def items_of(problem: PlacementProblem, groups: Groups, budget: LinearBudget | IntervalBudget) -> Items:
    """The weights of a budget over the label columns; labels without a column are left out.

    Integer weights whose sums might leave int64 are taken as floats.
    """
    variables = np.asarray(budget.variables, dtype=np.int64)
    counts = np.asarray(problem.num_labels, dtype=np.int64)[variables]
    flat, owner = ragged(np.asarray(problem.label_ptr)[variables], counts)
    at, _ = ragged(np.asarray(budget.ptr)[:-1], counts)
    col = groups.col_of_label[flat]
    weight = np.asarray(budget.weights)[at]
    if weight.dtype != np.float64:
        weight = weight.astype(np.int64)
        # Half of int64 leaves room for the differences taken here; min() itself may be below -2^62.
        if len(weight) and float(np.abs(weight.astype(np.float64)).max()) * (len(variables) + 1) >= 2.0**61:
            weight = weight.astype(np.float64)
    held = col >= 0
    col, weight, owner = col[held], weight[held], owner[held]
    ptr = starts_of(np.bincount(owner, minlength=len(variables)))
    full = np.flatnonzero(np.diff(ptr) > 0)
    base = np.zeros(len(variables), dtype=weight.dtype)
    top = np.zeros(len(variables), dtype=weight.dtype)
    if len(full):
        base[full] = np.minimum.reduceat(weight, ptr[full])
        top[full] = np.maximum.reduceat(weight, ptr[full]) - base[full]
    return Items(ptr, col, weight - base[owner], base, top)


@dataclass(frozen=True, slots=True)
class Scaling:
    """Row coefficients are ``weight / divisor * factor``; `factor` is a power of two, so scaling is exact."""

    divisor: int
    factor: float

    @property
    def unit(self) -> float:
        """Scaled units per unit of the budget."""
        return self.factor / self.divisor

    def coefficients(self, weight: NDArray[Any]) -> NDArray[np.float64]:
        """Weights in scaled units."""
        if weight.dtype == np.int64:
            weight = weight // self.divisor
        return weight.astype(np.float64) * self.factor

    def limit(self, value: int | float, direction: int, slack: float) -> float:
        """A limit in scaled units, never tighter than it is.

        Args:
            value: The limit in units of the budget.
            direction: 1 for an upper limit, -1 for a lower one.
            slack: What rounding may have added to the use (0 for integers).
        """
        if isinf(value):
            return float(value)
        if self.divisor > 1 and isinstance(value, int):
            value = value // self.divisor if direction > 0 else -((-value) // self.divisor)
        return float(value) * self.factor + direction * (slack * self.factor)


def scaling(weight: NDArray[Any], whole: bool) -> Scaling:
    """Choose divisor and factor for some non-negative weights; ``whole``: dividing by the gcd is allowed."""
    divisor = 1
    if whole and weight.dtype == np.int64 and len(weight):
        divisor = max(1, int(np.gcd.reduce(weight)))
    top = float(weight.max()) / divisor if len(weight) else 0.0
    factor = 1.0
    if top > _MAX_COEFFICIENT:
        factor = 2.0 ** -ceil(np.log2(top / _MAX_COEFFICIENT))
    elif 0.0 < top < 1.0:
        factor = 2.0 ** floor(np.log2(1.0 / top))
    return Scaling(divisor, factor)


def _shifted(limit: int | float, base: int | float) -> int | float:
    """``limit - base``, in exact integers where both are whole."""
    if isinf(limit):
        return limit
    if isinstance(base, int) and float(limit).is_integer():
        return int(limit) - base
    return float(limit) - float(base)


def linear_budget_rows(
    problem: PlacementProblem, groups: Groups, index: int, budget: LinearBudget, scale: float, out: Collector
) -> None:
    """Add the row of a linear budget, and its overuse columns when it is soft.

    Args:
        problem: The problem.
        groups: Its label columns.
        index: Index of the budget, recorded with the row.
        budget: The budget.
        scale: Objective scale that prices are multiplied with.
        out: Where the row goes.
    """
    if budget.price == 0:
        return
    items = items_of(problem, groups, budget)
    hard = budget.price is None
    base: int | float = int(items.base.sum()) if items.exact else float(items.base.sum())
    top: int | float = int(items.top.sum()) if items.exact else float(items.top.sum())
    upper, lower = _shifted(budget.upper, base), _shifted(budget.lower, base)
    slack = budget.slack if hard else 0.0  # what `evaluate` lets pass no row may forbid
    if not items.exact:
        magnitude = float(np.abs(items.base).sum() + top)
        slack += 4.0 * _EPS * (len(items.base) + 1) * magnitude
    if upper >= top and lower <= 0:
        return
    positive = items.weight > 0
    weight, col = items.weight[positive], items.col[positive]
    units = scaling(weight, whole=hard)
    row = out.rows(units.limit(lower, -1, slack), units.limit(upper, 1, slack), budget=index)
    out.entries(row, col, units.coefficients(weight))
    if not hard:
        price = float(budget.price or 0.0) * scale / units.unit
        if upper < top:
            over = out.columns(price, 0.0, (float(top) - float(upper)) * units.unit)
            out.entries(row, over, -1.0)
        if lower > 0:
            under = out.columns(price, 0.0, float(lower) * units.unit)
            out.entries(row, under, 1.0)
