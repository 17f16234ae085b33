"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl

from .options import Toulbar2Options


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solver ``toulbar2``."""
    return [
        SolverInfo(
            "toulbar2",
            "toulbar2 in a process of its own: soft arc consistency and best-first search, no budgets",
            "berthage_toulbar2.solver:Toulbar2",
            requires=("pytoulbar2",),
            install="pip install './plugins/toulbar2[toulbar2]' (in a clone of the repository; not published yet)",
            options=Toulbar2Options,
            capabilities=frozenset(
                {
                    Capability.EXACT,
                    Capability.BOUND,
                    Capability.WARM_START,
                    Capability.RELATIONS,
                    Capability.INTEGRAL,
                }
            ),
        )
    ]
