"""What this plugin offers; imported whenever anyone lists solvers, so it must stay light.

It imports berthage and the standard library only. The solver itself is named by ``target`` and imported when
somebody solves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from berthage import Capability, SolverInfo, hookimpl


@dataclass(frozen=True)
class DfbbOptions:
    """Options of ``dfbb-example``. Core checks names, types and choices before the solver sees them."""

    order: str = field(
        default="degree",
        metadata={"help": "which variable to branch on first", "choices": ("degree", "given")},
    )


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The one solver of this plugin."""
    return [
        SolverInfo(
            name="dfbb-example",
            summary="Depth-first branch and bound; exact, for small problems (a tutorial)",
            target="berthage_example_dfbb.solver:DepthFirst",
            options=DfbbOptions,
            # Promise only what the solver keeps: the conformance kit tests each promise.
            capabilities=frozenset(
                {
                    Capability.EXACT,
                    Capability.BOUND,
                    Capability.ANYTIME,
                    Capability.LINEAR_BUDGETS,
                    Capability.INTERVAL_BUDGETS,
                    Capability.SOFT_BUDGETS,
                    Capability.WARM_START,
                    Capability.INTEGRAL,
                }
            ),
        )
    ]
