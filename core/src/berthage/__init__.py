"""Berthage: placement problems, solvers chosen by name, and proofs of how good the answer is.

>>> from berthage import ProblemBuilder
>>> b = ProblemBuilder("tiny")
>>> x = b.add_variable("x", ["R", "S(0)"], [2, 1])
>>> b.build().num_variables
1
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from berthage.errors import (
        BerthageError,
        InvalidProblemError,
        OptionError,
        PluginError,
        SolutionUnavailableError,
        UnknownNameError,
        UnsupportedProblemError,
    )
    from berthage.evaluation import Evaluation, evaluate
    from berthage.files import read_problem, write_problem
    from berthage.problem import (
        ClassedTable,
        CostTable,
        DenseTable,
        LabelSet,
        LazyTable,
        PlacementProblem,
        ProblemBuilder,
        lower_relations,
    )
    from berthage.registry import Capability, Registry, SolverInfo, hookimpl, load_registry
    from berthage.solving.context import SolveContext
    from berthage.solving.params import SolveParams
    from berthage.solving.results import Infeasibility, Limit, Reason, SolveResult, SolverOutcome, Termination
    from berthage.solving.solve import Solver, solve

__all__ = [
    "BerthageError",
    "Capability",
    "ClassedTable",
    "CostTable",
    "DenseTable",
    "Evaluation",
    "Infeasibility",
    "InvalidProblemError",
    "LabelSet",
    "LazyTable",
    "Limit",
    "OptionError",
    "PlacementProblem",
    "PluginError",
    "ProblemBuilder",
    "Reason",
    "Registry",
    "SolutionUnavailableError",
    "SolveContext",
    "SolveParams",
    "SolveResult",
    "Solver",
    "SolverInfo",
    "SolverOutcome",
    "Termination",
    "UnknownNameError",
    "UnsupportedProblemError",
    "evaluate",
    "hookimpl",
    "load_registry",
    "lower_relations",
    "read_problem",
    "solve",
    "write_problem",
]

# Names are imported when they are first used, so that listing what is installed does not even import numpy.
_HOME: Final = MappingProxyType(
    {
        "BerthageError": "berthage.errors",
        "Capability": "berthage.registry",
        "ClassedTable": "berthage.problem",
        "CostTable": "berthage.problem",
        "DenseTable": "berthage.problem",
        "Evaluation": "berthage.evaluation",
        "Infeasibility": "berthage.solving.results",
        "InvalidProblemError": "berthage.errors",
        "LabelSet": "berthage.problem",
        "LazyTable": "berthage.problem",
        "Limit": "berthage.solving.results",
        "OptionError": "berthage.errors",
        "PlacementProblem": "berthage.problem",
        "PluginError": "berthage.errors",
        "ProblemBuilder": "berthage.problem",
        "Reason": "berthage.solving.results",
        "Registry": "berthage.registry",
        "SolutionUnavailableError": "berthage.errors",
        "SolveContext": "berthage.solving.context",
        "SolveParams": "berthage.solving.params",
        "SolveResult": "berthage.solving.results",
        "Solver": "berthage.solving.solve",
        "SolverInfo": "berthage.registry",
        "SolverOutcome": "berthage.solving.results",
        "Termination": "berthage.solving.results",
        "UnknownNameError": "berthage.errors",
        "UnsupportedProblemError": "berthage.errors",
        "evaluate": "berthage.evaluation",
        "hookimpl": "berthage.registry",
        "load_registry": "berthage.registry",
        "lower_relations": "berthage.problem",
        "read_problem": "berthage.files",
        "solve": "berthage.solving.solve",
        "write_problem": "berthage.files",
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next look-up finds it without coming here
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
