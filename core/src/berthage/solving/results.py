"""What a solve answers: why it stopped, and, apart from that, what it found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from berthage.errors import SolutionUnavailableError
from berthage.evaluation import Evaluation
from berthage.problem.arrays import Int32Array

__all__ = [
    "Infeasibility",
    "Limit",
    "Reason",
    "SolveResult",
    "SolverOutcome",
    "Termination",
    "Timing",
    "TracePoint",
]


class Reason(StrEnum):
    """Why a solve ended."""

    OPTIMAL = "optimal"
    """The assignment is proved optimal within the stated tolerance."""
    INFEASIBLE = "infeasible"
    """It is proved that no assignment satisfies the constraints (and the cutoff, when one is given)."""
    FEASIBLE = "feasible"
    """An assignment was found; a limit stopped the proof."""
    NO_SOLUTION_FOUND = "no_solution_found"
    """A limit stopped the search before any assignment was found; there may be one."""
    NOT_INTEGRAL = "not_integral"
    """A relaxation was solved and its solution is fractional: there is a bound but no assignment."""
    NUMERICAL_ERROR = "numerical_error"
    """The numbers defeated the solver, or what it returned did not stand up to core's check."""


class Limit(StrEnum):
    """What stopped a solve that proved nothing. Set exactly when the reason is FEASIBLE or NO_SOLUTION_FOUND."""

    TIME = "time"
    """The time limit."""
    ITERATIONS = "iterations"
    """The iteration limit."""
    INTERRUPTED = "interrupted"
    """The user (Ctrl-C)."""
    MEMORY = "memory"
    """A memory limit of the solver."""
    CONVERGED = "converged"
    """The method itself: it can improve neither the bound nor the assignment any more."""
    OTHER = "other"
    """Something else; the detail says what."""


@dataclass(frozen=True, slots=True)
class Termination:
    """Why a solve ended.

    Attributes:
        reason: The reason.
        limit: What stopped it; set exactly when the reason is FEASIBLE or NO_SOLUTION_FOUND.
        detail: A sentence for a person.
    """

    reason: Reason
    limit: Limit | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        """Check the invariant between reason and limit."""
        stopped = self.reason in (Reason.FEASIBLE, Reason.NO_SOLUTION_FOUND)
        if stopped != (self.limit is not None):
            raise ValueError(
                f"a limit is given exactly for feasible and no_solution_found, got {self.reason} with {self.limit}"
            )


@dataclass(frozen=True, slots=True)
class Infeasibility:
    """Why no assignment exists, so that a person can act on it.

    Attributes:
        detail: The reason in words.
        constraints: Names of the constraints (and variables) that clash.
        instant: The instant at which an interval budget cannot be met, or None.
        live: Names of the variables live at that instant.
        least_limit: The limit of that budget below which no assignment can exist, or None.
    """

    detail: str
    constraints: tuple[str, ...] = ()
    instant: int | None = None
    live: tuple[str, ...] = ()
    least_limit: int | float | None = None


@dataclass(frozen=True, slots=True)
class TracePoint:
    """Best objective (None before the first) and bound at a wall time in seconds from the start."""

    time: float
    objective: int | float | None
    bound: float


@dataclass(frozen=True, slots=True)
class Timing:
    """CPU and wall seconds of a phase."""

    cpu: float
    wall: float


@dataclass(frozen=True, eq=False, slots=True)
class SolverOutcome:
    """What a solver hands to core, which checks all of it.

    Attributes:
        termination: Why it stopped.
        assignment: int[n] or None. Incumbents given to the context count too; core takes the best.
        bound: A valid lower bound on the objective of every feasible assignment; -inf when nothing is known.
        infeasibility: The reason, when the termination says infeasible and the solver knows one.
        stats: Whatever the solver wants to tell, by name.
    """

    termination: Termination
    assignment: Int32Array | None = None
    bound: float = -math.inf
    infeasibility: Infeasibility | None = None
    stats: Mapping[str, int | float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class SolveResult:
    """The checked result of a solve.

    Attributes:
        termination: Why it stopped.
        assignment: int32[n], a feasible assignment, or None.
        objective: Its cost as `evaluate` has it (an exact ``int`` for integral problems), or None.
        bound: A lower bound on the objective of every feasible assignment; -inf when nothing is known.
        evaluation: The full evaluation of the assignment, or None.
        infeasibility: Why there is no assignment, when the reason is INFEASIBLE.
        trace: Objective and bound over time.
        timings: Seconds by phase: ``presolve``, ``compile``, ``solve``, ``total``, and what the solver adds.
        solver: Name of the solver.
        solver_version: Its version.
        seed: Seed that was used.
        stats: What the solver told.
        reductions: What each reduction reported, in order.
    """

    termination: Termination
    assignment: Int32Array | None
    objective: int | float | None
    bound: float
    evaluation: Evaluation | None
    infeasibility: Infeasibility | None
    trace: tuple[TracePoint, ...]
    timings: Mapping[str, Timing]
    solver: str
    solver_version: str
    seed: int
    stats: Mapping[str, int | float | str | bool]
    reductions: tuple[tuple[str, Mapping[str, int | float | str | bool]], ...] = ()

    @property
    def absolute_gap(self) -> float:
        """``objective − bound``, at least 0; inf when either is unknown."""
        if self.objective is None or self.bound == -math.inf:
            return math.inf
        return max(0.0, float(self.objective - self.bound))

    @property
    def relative_gap(self) -> float:
        """``(objective − bound) / max(1, |objective|)``; inf when either is unknown."""
        return relative_gap(self.objective, self.bound)

    def require(self) -> Int32Array:
        """The assignment.

        Raises:
            SolutionUnavailableError: When there is none, with the reason.
        """
        if self.assignment is None:
            why = self.infeasibility.detail if self.infeasibility else self.termination.detail
            raise SolutionUnavailableError(f"{self.solver} has no assignment ({self.termination.reason.value}): {why}")
        return self.assignment


def relative_gap(objective: int | float | None, bound: float) -> float:
    """``(objective − bound) / max(1, |objective|)``, at least 0; inf when either is unknown."""
    if objective is None or bound == -math.inf:
        return math.inf
    return max(0.0, float(objective - bound)) / max(1.0, abs(float(objective)))
