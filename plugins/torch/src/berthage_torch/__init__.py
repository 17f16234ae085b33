"""From a PyTorch module and a mesh to a priced plan.

Importing this package imports no torch; its names do when they are first used.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .applying.module import ParallelModule, apply_plan
    from .errors import ApplyError, TraceError
    from .graph import OpGraph
    from .marks import hint, local_map, with_sharding_constraint
    from .plans.assigning import Misfit
    from .plans.comparing import Change, CostChange, Difference
    from .plans.costs import Collective, CostRow
    from .plans.explaining import Alternative, Explanation
    from .plans.placed import PlannedEdge, PlannedNode, Step
    from .plans.plan import Plan
    from .plans.planning import make_plan
    from .plans.repricing import Repriced
    from .plans.settings import Origin, Settings
    from .policy import MixedPrecision
    from .pricing.pricer import Pricer
    from .pricing.strategies import MissingRuleWarning
    from .searching.autoparallel import AutoParallel
    from .searching.building import BuiltProblem, build_problem
    from .searching.constraints import Constraints, PeakMemory
    from .searching.memory import MemoryTimeline, memory_of
    from .searching.run import SearchResult, run_search, search
    from .tracing.trace_step import at_batch, trace

__all__ = [
    "Alternative",
    "ApplyError",
    "AutoParallel",
    "BuiltProblem",
    "Change",
    "Collective",
    "Constraints",
    "CostChange",
    "CostRow",
    "Difference",
    "Explanation",
    "MemoryTimeline",
    "Misfit",
    "MissingRuleWarning",
    "MixedPrecision",
    "OpGraph",
    "Origin",
    "ParallelModule",
    "PeakMemory",
    "Plan",
    "PlannedEdge",
    "PlannedNode",
    "Pricer",
    "Repriced",
    "SearchResult",
    "Settings",
    "Step",
    "TraceError",
    "apply_plan",
    "at_batch",
    "build_problem",
    "hint",
    "local_map",
    "make_plan",
    "memory_of",
    "run_search",
    "search",
    "trace",
    "with_sharding_constraint",
]

_HOME: Final = MappingProxyType(
    {
        "Alternative": "plans.explaining",
        "ApplyError": "errors",
        "AutoParallel": "searching.autoparallel",
        "BuiltProblem": "searching.building",
        "Change": "plans.comparing",
        "Collective": "plans.costs",
        "Constraints": "searching.constraints",
        "CostChange": "plans.comparing",
        "CostRow": "plans.costs",
        "Difference": "plans.comparing",
        "Explanation": "plans.explaining",
        "MemoryTimeline": "searching.memory",
        "Misfit": "plans.assigning",
        "MissingRuleWarning": "pricing.strategies",
        "MixedPrecision": "policy",
        "OpGraph": "graph",
        "Origin": "plans.settings",
        "ParallelModule": "applying.module",
        "PeakMemory": "searching.constraints",
        "Plan": "plans.plan",
        "PlannedEdge": "plans.placed",
        "PlannedNode": "plans.placed",
        "Pricer": "pricing.pricer",
        "Repriced": "plans.repricing",
        "SearchResult": "searching.run",
        "Settings": "plans.settings",
        "Step": "plans.placed",
        "TraceError": "errors",
        "apply_plan": "applying.module",
        "at_batch": "tracing.trace_step",
        "build_problem": "searching.building",
        "hint": "marks",
        "local_map": "marks",
        "make_plan": "plans.planning",
        "memory_of": "searching.memory",
        "run_search": "searching.run",
        "search": "searching.run",
        "trace": "tracing.trace_step",
        "with_sharding_constraint": "marks",
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it; no module has the name of a public function."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
