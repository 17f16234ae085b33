"""Solvers that answer what a test wants to be answered, and small problems to ask them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from berthage import (
    PlacementProblem,
    ProblemBuilder,
    Reason,
    Registry,
    SolveContext,
    SolveParams,
    SolveResult,
    SolverInfo,
    SolverOutcome,
    Termination,
    hookimpl,
    solve,
)
from berthage.testing import brute_force

OPTIMAL = Termination(Reason.OPTIMAL)
EMPTY_REGISTRY = Registry()


def small() -> PlacementProblem:
    """Optimum 1 at [1, 0]; the other assignments cost 3, 2 and 5."""
    b = ProblemBuilder("small")
    b.add_variable("a", 2, [0, 1])
    b.add_variable("b", 2, [0, 0])
    b.add_pairwise("a", "b", [[3, 2], [0, 4]])
    b.forbid_pairs("a", "b", [(1, 1)], name="apart")
    return b.build()


def fractional() -> PlacementProblem:
    b = ProblemBuilder("fractional")
    b.add_variable("a", 2, [0.5, 1.25])
    return b.build()


def says(outcome: Any) -> Callable[..., SolverOutcome]:
    """A solver that answers this whatever it is asked."""

    def liar(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> Any:
        return outcome

    return liar


def labels(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


def run(solver: Any, problem: PlacementProblem | None = None, **params: Any) -> SolveResult:
    return solve(problem or small(), solver, presolve=False, registry=EMPTY_REGISTRY, **params)


def honest(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
    truth = brute_force(problem)
    if not truth.feasible:
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
    if params.cutoff is not None and truth.objective > params.cutoff:
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
    return SolverOutcome(OPTIMAL, truth.assignments[0], float(truth.objective))


@dataclass(frozen=True)
class Options:
    sweeps: int = field(default=3, metadata={"help": "how many"})


class Recorder:
    """A solver that tells which options it got."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: Options, context: SolveContext
    ) -> SolverOutcome:
        return SolverOutcome(OPTIMAL, labels(1, 0), 1.0, stats={"sweeps": options.sweeps, "seed": params.seed})


class RecorderPlugin:
    @hookimpl
    def berthage_solvers(self) -> list[SolverInfo]:
        return [SolverInfo("recorder", "For tests.", f"{__name__}:Recorder", options=Options, version="7")]
