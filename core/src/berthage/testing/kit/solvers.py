"""`conformance`: the test class of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berthage import Registry
from berthage.testing.kit.answers import ANSWER_CHECKS
from berthage.testing.kit.checks import Check, build_class
from berthage.testing.kit.conduct import CONDUCT_CHECKS
from berthage.testing.kit.cutoffs import CUTOFF_CHECKS
from berthage.testing.kit.processes import PROCESS_CHECKS
from berthage.testing.kit.solver_kit import SolverKit

__all__ = ["conformance", "solver_checks"]


def solver_checks() -> tuple[Check, ...]:
    """Every check of a solver; their names are what ``exclude`` takes."""
    return (*ANSWER_CHECKS, *CUTOFF_CHECKS, *CONDUCT_CHECKS, *PROCESS_CHECKS)


def conformance(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    exclude: Mapping[str, str] | None = None,
    tolerance: float = 1e-6,
    time_limit: float = 10.0,
    max_examples: int = 20,
    registry: Registry | None = None,
) -> type:
    """A fresh pytest class that tests a solver against the contract; a solver plugin needs no other test.

    What is tested follows the promises in the solver's description: an exact solver must be right, any other
    must be valid (feasible assignments, true bounds, honest terminations); budgets are drawn for solvers
    that promise them.

    Args:
        name: the solver's name. Nothing is looked up until the tests run.
        options: the options to test it with.
        exclude: name of a check (the test's name without ``test_``) to the reason why it is left out.
        tolerance: relative tolerance of objectives and bounds.
        time_limit: seconds each solve of a tiny problem may take.
        max_examples: Hypothesis examples of each property; some run more, dear ones fewer.
        registry: where to look the solver up; None for what is installed.

    Returns:
        A class to be bound to a name that pytest collects: ``TestMine = conformance("my-solver")``.

    Raises:
        ValueError: ``exclude`` names a check that does not exist, or gives no reason.

    Example:
        >>> from berthage.testing import conformance
        >>> TestMine = conformance("my-solver", exclude={"time_limit_is_kept": "one step takes minutes"})
    """
    kit = SolverKit(name, dict(options or {}), tolerance, time_limit, max_examples, registry)
    return build_class(name, kit, solver_checks(), exclude or {})
