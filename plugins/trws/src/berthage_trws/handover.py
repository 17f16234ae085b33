"""What message passing knows at its end: bound, messages, and prices of budgets. Imports no numba.

Messages and prices are *any* numbers as far as validity goes: whoever moves costs along them with exact arithmetic
gets an equivalent problem, and a good one in so far as the messages have converged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage import Limit, PlacementProblem

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class RowPrices:
    """Prices of the rows of the budgets: one row a linear budget, one an instant that can bind of an interval budget.

    Attributes:
        budget: Index of each row's budget, the linear ones first.
        instant: First instant at which the row holds; -1 for a linear budget.
        upper: Cost per unit of use above the row's upper limit, not negative.
        lower: Cost per unit of use below its lower limit, not negative.
    """

    budget: Ints
    instant: Ints
    upper: Floats
    lower: Floats


@dataclass(frozen=True, eq=False, slots=True)
class Relaxation:
    """The end of a run of TRW-S. The best assignment stands in the context that the run was given.

    Attributes:
        problem: What was relaxed: relations lowered, parallel edges added up. `to_u` and `to_v` follow its edges.
        bound: Certified lower bound in units of the problem's costs, with its constant; inf when infeasible.
        closed: Whether the best assignment is proved optimal within the tolerance, or that there is none.
        infeasible: Whether no assignment is feasible (within the cutoff).
        detail: Why it is infeasible.
        limit: What stopped it, or None when it ended by itself.
        sweeps: Sweeps done.
        to_u: Message into the first variable of each edge, one number a label, edge after edge.
        to_v: The same for the second variables.
        prices: Prices of the budgets' rows; None without budgets.
    """

    problem: PlacementProblem
    bound: float
    closed: bool
    infeasible: bool
    detail: str
    limit: Limit | None
    sweeps: int
    to_u: Floats
    to_v: Floats
    prices: RowPrices | None
