"""From a PyTorch module and a mesh to a priced plan.

Importing this package imports no torch; its names do when they are first used.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .errors import TraceError
    from .graph import OpGraph
    from .marks import hint, local_map
    from .policy import MixedPrecision
    from .tracing import at_batch, trace

__all__ = [
    "MixedPrecision",
    "OpGraph",
    "TraceError",
    "at_batch",
    "hint",
    "local_map",
    "trace",
]

_HOME: Final = MappingProxyType(
    {
        "MixedPrecision": "policy",
        "OpGraph": "graph",
        "TraceError": "errors",
        "at_batch": "tracing",
        "hint": "marks",
        "local_map": "marks",
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
