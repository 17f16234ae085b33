"""From a PyTorch module and a mesh to a priced plan.

Importing this package imports no torch; its names do when they are first used.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .building import BuiltProblem, build_problem
    from .constraints import Constraints
    from .errors import TraceError
    from .graph import OpGraph
    from .marks import hint, local_map
    from .plan import Change, Plan, PlannedEdge, PlannedNode
    from .planning import make_plan
    from .policy import MixedPrecision
    from .price import Pricer
    from .searching import SearchResult, search, search_plan
    from .strategies import MissingRuleWarning
    from .tracing import at_batch, trace

__all__ = [
    "BuiltProblem",
    "Change",
    "Constraints",
    "MissingRuleWarning",
    "MixedPrecision",
    "OpGraph",
    "Plan",
    "PlannedEdge",
    "PlannedNode",
    "Pricer",
    "SearchResult",
    "TraceError",
    "at_batch",
    "build_problem",
    "hint",
    "local_map",
    "make_plan",
    "search",
    "search_plan",
    "trace",
]

_HOME: Final = MappingProxyType(
    {
        "BuiltProblem": "building",
        "Change": "plan",
        "Constraints": "constraints",
        "MissingRuleWarning": "strategies",
        "MixedPrecision": "policy",
        "OpGraph": "graph",
        "Plan": "plan",
        "PlannedEdge": "plan",
        "PlannedNode": "plan",
        "Pricer": "price",
        "SearchResult": "searching",
        "TraceError": "errors",
        "at_batch": "tracing",
        "build_problem": "building",
        "hint": "marks",
        "local_map": "marks",
        "make_plan": "planning",
        "search": "searching",
        "search_plan": "searching",
        "trace": "tracing",
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
