"""What this plugin offers."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl
from berthage_lp.options import LpOptions


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solver ``lp``."""
    return [
        SolverInfo(
            name="lp",
            summary="linear relaxation (local polytope) on HiGHS in memory: a bound, optimal where integral",
            target="berthage_lp.solver:LpSolver",
            options=LpOptions,
            capabilities=frozenset(
                {
                    Capability.BOUND,
                    Capability.LINEAR_BUDGETS,
                    Capability.INTERVAL_BUDGETS,
                    Capability.SOFT_BUDGETS,
                    Capability.RELATIONS,
                }
            ),
            requires=("highspy",),
        )
    ]
