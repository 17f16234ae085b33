"""Costs of very different size: which of them can be left out at first."""

from __future__ import annotations

import numpy as np

from berthage.linear.program import LinearProgram

__all__ = ["cost_levels", "objective_factor"]

_RANGE_BITS = 40
"""Costs within 2^40 of each other are left to the solver's floating-point arithmetic."""

_GAP_BITS = 16
"""An empty stretch of at least 2^16 between two costs separates two levels."""

_TYPICAL_COST = 2.0**7
"""Where scaling puts the median cost."""

_LARGEST_COST = 2.0**30
"""What scaling never lets a cost exceed: solvers work to absolute tolerances of some 1e-7."""


def objective_factor(program: LinearProgram) -> float:
    """Power of two to multiply costs with, so that a solver's absolute tolerances mean something.

    1.0 where the median of the positive costs lies between 2^-3 and 2^17 and none exceeds 2^30.
    """
    cost = program.cost[(program.cost > 0.0) & (program.upper > 0.0)]
    if not len(cost):
        return 1.0
    median, top = float(np.median(cost)), float(cost.max())
    if 2.0**-3 <= median <= 2.0**17 and top <= _LARGEST_COST:
        return 1.0
    # Differences of logarithms, and a cap: a quotient by a subnormal cost would be inf.
    typical = float(np.rint(np.log2(_TYPICAL_COST) - np.log2(median)))
    most = float(np.floor(np.log2(_LARGEST_COST) - np.log2(top)))
    return float(2.0 ** min(typical, most, 900.0))


def cost_levels(program: LinearProgram) -> tuple[float, ...]:
    """Limits under which to solve, smallest first; the last is always ``inf`` (nothing left out).

    A solver that sees costs of 1 and of 1e300 at once loses the small ones or calls the model infeasible.
    Solve instead ``program.without_costs_above(limit)`` for each limit in turn. An objective of at most the
    limit (above `offset`) settles the whole program, as costs are non-negative; otherwise the limit itself is
    a lower bound.

    Returns:
        ``(inf,)`` for ordinary programs; extra limits where costs span more than 2^40 with gaps in between.
    """
    # Overuse of a soft budget is no column to leave out, but its price is as easily lost beside a huge cost.
    cost = program.cost[(program.cost > 0.0) & (program.upper > 0.0)]
    if not len(cost):
        return (float("inf"),)
    exponent = np.unique(np.frexp(cost)[1])
    if exponent[-1] - exponent[0] < _RANGE_BITS:
        return (float("inf"),)
    gaps = np.flatnonzero(np.diff(exponent) >= _GAP_BITS)
    # The limit lies just below the dearer side of the gap, which makes the bound it gives as strong as it can
    # be.
    limits = [
        float(np.nextafter(2.0 ** (int(exponent[i + 1]) - 1), 0.0))
        for i in gaps.tolist()
        if exponent[i + 1] - exponent[0] >= _GAP_BITS
    ]
    return (*limits, float("inf"))
