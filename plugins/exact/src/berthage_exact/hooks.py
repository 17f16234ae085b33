"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl

from .options import ExactOptions


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solver ``exact``."""
    return [
        SolverInfo(
            "exact",
            "message passing, elimination, and branch and bound with soft arc consistency: a proof",
            "berthage_exact.solver:Exact",
            requires=("numba", "berthage_trws"),
            options=ExactOptions,
            capabilities=frozenset(
                {
                    Capability.EXACT,
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
