"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl

from .lazy.options import TrwsLazyOptions
from .options import TrwsOptions

_CAPABILITIES = frozenset(
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
)


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solvers ``trws`` and ``trws-lazy``."""
    return [
        SolverInfo(
            "trws",
            "TRW-S message passing: assignment and lower bound, fast on large pairwise problems",
            "berthage_trws.solver:Trws",
            requires=("numba",),
            options=TrwsOptions,
            capabilities=_CAPABILITIES,
        ),
        SolverInfo(
            "trws-lazy",
            "TRW-S on cheap lower bounds that prices only what the search touches, for large lazy problems",
            "berthage_trws.lazy.solver:TrwsLazy",
            requires=("numba",),
            options=TrwsLazyOptions,
            capabilities=_CAPABILITIES | {Capability.LAZY_TABLES},
        ),
    ]
