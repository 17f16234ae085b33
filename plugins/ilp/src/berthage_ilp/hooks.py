"""What this plugin offers."""

from __future__ import annotations

from berthage import Capability, SolverInfo, hookimpl
from berthage_ilp.options import PulpOptions, PyomoOptions

_CAPABILITIES = frozenset(
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
)


@hookimpl
def berthage_solvers() -> list[SolverInfo]:
    """The solvers ``ilp-pulp`` (also called ``ilp``) and ``ilp-pyomo``."""
    return [
        SolverInfo(
            name="ilp-pulp",
            summary="integer linear program through PuLP: HiGHS in memory, or CBC",
            target="berthage_ilp.solvers:PulpSolver",
            options=PulpOptions,
            capabilities=_CAPABILITIES,
            requires=("pulp", "highspy"),
            aliases=("ilp",),
        ),
        SolverInfo(
            name="ilp-pyomo",
            summary="integer linear program through Pyomo's solver interface: HiGHS in memory",
            target="berthage_ilp.solvers:PyomoSolver",
            options=PyomoOptions,
            capabilities=_CAPABILITIES,
            requires=("pyomo", "highspy"),
            install="pip install './plugins/ilp[pyomo]' (in a clone of Berthage's repository; not published yet)",
        ),
    ]
