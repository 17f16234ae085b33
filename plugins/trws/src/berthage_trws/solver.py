"""The solver ``trws``: sequential tree-reweighted message passing with rounding, local search and multipliers."""

from __future__ import annotations

import math

import numpy as np

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    lower_relations,
)

from .budgets import compile_budgets
from .engine import Engine
from .lagrange import ascend_budgeted
from .layout import compile_layout
from .options import TrwsOptions
from .ordering import node_order
from .parallel import merge_parallel
from .ready import warm_kernels
from .search import Search, ascend


class Trws:
    """Kolmogorov's TRW-S. Registered as ``trws``; see the options in `TrwsOptions`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: TrwsOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        options = options or TrwsOptions()
        lowered = merge_parallel(lower_relations(problem))
        single = options.dtype == "f32"
        with context.phase("compile", charged=False):
            binary = bool((lowered.num_labels <= 2).all())
            warm_kernels(options.dtype, binary=binary, budgets=lowered.has_budgets, ordering=options.ordering)
        with context.phase("build"):
            layout = compile_layout(lowered, node_order(lowered, options.ordering), single)
        if isinstance(layout, int):
            detail = f"every label of {problem.variable_names[layout]!r} is forbidden"
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf)
        engine = Engine(layout, lambda: context.stop_reason() is not None)
        search = Search(lowered, engine, context, options)
        start = None if params.warm_start is None else layout.to_nodes(np.asarray(params.warm_start))
        if lowered.has_budgets:
            ascend_budgeted(search, compile_budgets(lowered, layout), start)
        else:
            if start is not None:
                search.offer(start)
                engine.improve(start, pairs=False)
                search.offer(start)
            ascend(search)
        return _outcome(search)


def _outcome(search: Search) -> SolverOutcome:
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
