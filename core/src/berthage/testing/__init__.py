"""Tests for plugins, to be run by their authors: needs the extra ``berthage[test]`` (pytest, Hypothesis).

A solver plugin's whole test is ``TestMine = conformance("my-solver")``; `reduction_conformance`,
`format_conformance` and `seeder_conformance` do the same for reductions, file formats and seeders. `brute_force` is
the oracle, `reference_evaluate` a second evaluator that shares nothing with core's, `strategies` draws problems of
every kind, `known_answers` are problems solved by hand, and the ``verify_*`` functions are assertions about
results.
"""

from berthage.testing import strategies
from berthage.testing.hard import hard_problem
from berthage.testing.kit import (
    conformance,
    format_conformance,
    reduction_conformance,
    seeder_conformance,
)
from berthage.testing.known import KnownAnswer, known_answers
from berthage.testing.lazy import ArrayOracle
from berthage.testing.oracle import BruteForce, brute_force
from berthage.testing.reference import ReferenceValue, reference_evaluate
from berthage.testing.verify import (
    verify_bound,
    verify_feasible,
    verify_infeasible,
    verify_objective,
    verify_optimal,
)

__all__ = [
    "ArrayOracle",
    "BruteForce",
    "KnownAnswer",
    "ReferenceValue",
    "brute_force",
    "conformance",
    "format_conformance",
    "hard_problem",
    "known_answers",
    "reduction_conformance",
    "reference_evaluate",
    "seeder_conformance",
    "strategies",
    "verify_bound",
    "verify_feasible",
    "verify_infeasible",
    "verify_objective",
    "verify_optimal",
]
