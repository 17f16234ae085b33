"""Budgets: linear constraints, and constraints on what is live over time. Hard, or soft with a price."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from berthage.problem.arrays import Array, Int32Array, Int64Array

__all__ = ["FLOAT_TOLERANCE", "IntervalBudget", "LinearBudget"]

FLOAT_TOLERANCE = 1e-9
"""Relative slack at the limits of hard budgets whose weights are floats; whole-number budgets are compared exactly."""


@dataclass(frozen=True, eq=False, slots=True)
class LinearBudget:
    """``lower ≤ Σ_i weights[ptr[i] + x[variables[i]]] ≤ upper``.

    Attributes:
        name: Name of the constraint.
        variables: int32[k], distinct variables.
        ptr: int64[k+1], where the weights of each variable start.
        weights: One weight per label of each variable; int64 when all are whole numbers, else float64.
        lower: Least sum allowed; -inf for none.
        upper: Greatest sum allowed; inf for none.
        price: None for a hard budget; else the cost per unit outside ``[lower, upper]``.
    """

    name: str
    variables: Int32Array
    ptr: Int64Array
    weights: Array
    lower: int | float = -np.inf
    upper: int | float = np.inf
    price: int | float | None = None

    @property
    def slack(self) -> int | float:
        """How far either limit of a hard budget may be exceeded: rounding of float weights; 0 for whole ones."""
        return _slack(self.weights, self.upper if math.isfinite(self.upper) else self.lower)

    def digest_parts(self) -> tuple[object, ...]:
        """What the content digest depends on."""
        return (
            "linear",
            self.name,
            self.variables,
            self.ptr,
            self.weights,
            self.lower,
            self.upper,
            self.price,
        )


@dataclass(frozen=True, eq=False, slots=True)
class IntervalBudget:
    """A limit on what is live at any instant.

    At every instant t, ``Σ weights[ptr[i] + x[variables[i]]] ≤ limit`` over the rows i with ``start ≤ t < stop``.
    This is how memory over time is said; written out as one linear row an instant it can have a billion
    nonzeros.

    Attributes:
        name: Name of the constraint.
        variables: int32[k]; a variable may own several rows (live more than once).
        start: int64[k], first instant of each row's half-open interval.
        stop: int64[k], first instant after it; ``stop == start`` uses nothing.
        ptr: int64[k+1], where the weights of each row start.
        weights: One non-negative weight per label of each row's variable; int64 when all are whole, else
            float64.
        limit: Greatest total use at any instant.
        price: None for a hard budget; else the cost per unit of *peak* overuse, ``price · max_t (use(t) −
            limit)⁺``.
    """

    name: str
    variables: Int32Array
    start: Int64Array
    stop: Int64Array
    ptr: Int64Array
    weights: Array
    limit: int | float
    price: int | float | None = None

    @property
    def slack(self) -> int | float:
        """How far the limit of a hard budget may be exceeded: rounding of float weights; 0 for whole ones."""
        return _slack(self.weights, self.limit)

    def use_over_time(self, row_use: Array) -> tuple[Int64Array, Array]:
        """Total use between event instants, given the use of each row.

        Args:
            row_use: [k] use of each row, for example the weight of the chosen label.

        Returns:
            ``(instants, use)``: sorted instants at which the use may change, and the total from each one to
            the next.
        """
        live = np.flatnonzero(self.stop > self.start)
        instants, where = np.unique(np.concatenate([self.start[live], self.stop[live]]), return_inverse=True)
        change = np.zeros(len(instants), dtype=row_use.dtype)
        np.add.at(change, where[: len(live)], row_use[live])
        np.subtract.at(change, where[len(live) :], row_use[live])
        return instants, np.cumsum(change)

    def digest_parts(self) -> tuple[object, ...]:
        """What the content digest depends on."""
        return (
            "interval",
            self.name,
            self.variables,
            self.start,
            self.stop,
            self.ptr,
            self.weights,
            self.limit,
            self.price,
        )


def _slack(weights: Array, limit: int | float) -> int | float:
    if weights.dtype.kind == "i":
        return 0  # an integer, so that limits beyond 2^53 stay exact
    return FLOAT_TOLERANCE * max(1.0, abs(float(limit)) if math.isfinite(limit) else 0.0)
