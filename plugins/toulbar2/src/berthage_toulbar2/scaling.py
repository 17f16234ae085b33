"""A problem in whole numbers below 2^50: toulbar2 counts in integers, and turns decimals into them by rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST = 2.0**50
"""The sum of all costs stays below this: floats are exact there, and toulbar2's own greatest cost is far above."""


@dataclass(frozen=True, eq=False, slots=True)
class Scaled:
    """``floor((cost - base) * scale)`` for every cost.

    Attributes:
        unary: Costs of the labels, flat.
        tables: A matrix for each edge's table, `of_edge` says which; costs of `top` and more are forbidden.
        of_edge: ``int64[m]``.
        top: Costs of assignments of interest are below this; 0 when there are none.
        constant: Cost of every assignment in the problem's units, rounded down.
        scale: Power of two.
    """

    unary: Ints
    tables: list[Ints]
    of_edge: Ints
    top: int
    constant: float
    scale: float

    def cost(self, units: float) -> float:
        """A lower bound in the problem's units."""
        return math.nextafter(self.constant + units / self.scale, -math.inf)


def scale_problem(problem: PlacementProblem, upper: float) -> Scaled:
    """Scale a problem without relations and budgets.

    Args:
        problem: The problem.
        upper: Only assignments that cost no more are of interest; inf for all.
    """
    owner = np.repeat(np.arange(problem.num_variables), problem.num_labels)
    unary = problem.unary * problem.multiplicity[owner]
    keys = np.stack([problem.edge_table, problem.edge_multiplicity], 1).astype(np.int64)
    distinct, of_edge = np.unique(keys, axis=0, return_inverse=True)
    of_edge = of_edge.reshape(-1)
    tables = [problem.tables[t].to_dense() * float(copies) for t, copies in distinct.tolist()]
    parts = np.split(unary, problem.label_ptr[1:-1]) if len(unary) else []
    terms = [*((part, 1) for part in parts), *zip(tables, np.bincount(of_edge, minlength=len(tables)), strict=True)]
    ranges = [(*_range(values), int(times)) for values, times in terms]
    largest = math.fsum(max(abs(low), abs(high)) * times for low, high, times in ranges)
    whole = problem.is_integral and largest < 2.0**52
    # what floats lose in a product and a difference, of all terms together
    doubt = 0.0 if whole else 2.0**-51 * (largest + abs(float(problem.constant)))
    constant = math.fsum([float(problem.constant), *(low * times for low, _, times in ranges), -doubt])
    room = upper - constant
    span = math.fsum(min(high - low, max(room, 0.0)) * times for low, high, times in ranges)
    scale = 2.0 ** math.floor(math.log2(MOST / min(max(span, 2.0**-900), 2.0**1020)))
    scale = max(1.0, scale) if whole and span < MOST else scale
    top = math.floor(min(room, span) * scale) + 2 if room >= 0.0 else 0
    spread = np.repeat([low for low, _, _ in ranges[: len(parts)]], problem.num_labels) if parts else np.zeros(0)
    lows = [low for low, _, _ in ranges[len(parts) :]]
    return Scaled(
        _units(unary - spread, scale, top),
        [_units(values - low, scale, top) for values, low in zip(tables, lows, strict=True)],
        of_edge, top, constant, scale,
    )  # fmt: skip


def _range(values: Floats) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _units(values: Floats, scale: float, top: int) -> Ints:
    with np.errstate(over="ignore"):
        return np.minimum(np.floor(values * scale), float(top)).astype(np.int64)
