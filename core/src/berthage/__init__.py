"""Berthage: placement problems, solvers chosen by name, and proofs of how good the answer is.

>>> from berthage import ProblemBuilder
>>> b = ProblemBuilder("tiny")
>>> x = b.add_variable("x", ["R", "S(0)"], [2, 1])
>>> b.build().num_variables
1
"""

from berthage.errors import (
    BerthageError,
    InvalidProblemError,
    OptionError,
    PluginError,
    SolutionUnavailableError,
    UnknownNameError,
    UnsupportedProblemError,
)
from berthage.evaluate import Evaluation, evaluate
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
