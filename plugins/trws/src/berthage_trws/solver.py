"""The solver ``trws``: sequential tree-reweighted message passing with rounding, local search and multipliers."""

from __future__ import annotations

import math

from berthage import Limit, PlacementProblem, Reason, SolveContext, SolveParams, SolverOutcome, Termination

from .options import TrwsOptions
from .relaxation import run_search
from .search import Search


class Trws:
    """Kolmogorov's TRW-S. Registered as ``trws``; see the options in `TrwsOptions`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: TrwsOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        search = run_search(problem, params, options or TrwsOptions(), context)
        return search if isinstance(search, SolverOutcome) else search_outcome(search)


def search_outcome(search: Search) -> SolverOutcome:
    """What a finished search says."""
    stats: dict[str, int | float | str | bool] = {
        "sweeps": search.sweeps,
        "cells": int(search.engine.layout.work.sum()) // 2,
        "dtype": str(search.engine.layout.gamma.dtype),
        **search.stats,
    }
    assignment = search.context.best_assignment
    if search.infeasible and assignment is None:
        return SolverOutcome(
            Termination(Reason.INFEASIBLE, detail="the lower bound is above the cost of any assignment"),
            None,
            math.inf,
            stats=stats,
        )
    if assignment is not None and search.closes(search.bound):
        return SolverOutcome(Termination(Reason.OPTIMAL), assignment, search.bound, stats=stats)
    limit = search.limit or Limit.CONVERGED
    detail = "" if search.limit else "the bound of the relaxation no longer rises"
    reason = Reason.FEASIBLE if assignment is not None else Reason.NO_SOLUTION_FOUND
    return SolverOutcome(Termination(reason, limit, detail), assignment, search.bound, stats=stats)
