"""The bound of the relaxation, by itself."""

from __future__ import annotations

import math
import time

from berthage import PlacementProblem
from berthage.linear import linear_program
from berthage_lp.options import LpOptions

__all__ = ["lower_bound"]


def lower_bound(
    problem: PlacementProblem,
    *,
    time_limit: float | None = None,
    options: LpOptions | None = None,
    seed: int = 0,
) -> float:
    """Lower bound on the cost of every feasible assignment, from the local-polytope relaxation.

    Computed from row duals with the rounding of every sum allowed for, so it holds whatever the solver's tolerances.

    Args:
        problem: The problem; it is only read.
        time_limit: Wall seconds, or None. A run that is stopped still gives a (weaker) bound.
        options: Method and form of interval budgets.
        seed: Seed of HiGHS.

    Returns:
        The bound, in the units of the problem's costs; inf when the relaxation is infeasible, so that no assignment
        exists.
    """
    # HiGHS is imported with its first use: the plugin's hooks, in this package too, must stay light.
    from berthage_lp.relaxation import Control, solve_relaxation

    deadline = math.inf if time_limit is None else time.perf_counter() + time_limit
    options = options or LpOptions()
    program = linear_program(problem, intervals=options.intervals)
    if program.impossible:
        return math.inf
    control = Control(
        stop=lambda: time.perf_counter() >= deadline,
        remaining=lambda: max(0.0, deadline - time.perf_counter()),
        seed=seed,
    )
    return solve_relaxation(program, options, control).bound
