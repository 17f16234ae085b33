"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl

from .options import TrwsOptions


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solver ``trws``."""
    return [
        SolverInfo(
            "trws",
            "TRW-S message passing: assignment and lower bound, fast on large pairwise problems",
            "berthage_trws.solver:Trws",
            requires=("numba",),
            options=TrwsOptions,
            capabilities=frozenset(
                {
                    Capability.BOUND,
                    Capability.ANYTIME,
                    Capability.LINEAR_BUDGETS,
                    Capability.INTERVAL_BUDGETS,
                    Capability.SOFT_BUDGETS,
                    Capability.WARM_START,
                    Capability.RELATIONS,
                    Capability.INTEGRAL,
                }
            ),
        )
    ]
