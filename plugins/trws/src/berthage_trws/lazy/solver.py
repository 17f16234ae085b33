"""The solver ``trws-lazy``."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from berthage import (
    LazyTable,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    lower_relations,
)
from berthage_trws.layout import Layout, compile_layout
from berthage_trws.ordering import node_order
from berthage_trws.parallel import merge_parallel
from berthage_trws.ready import warm_kernels
from berthage_trws.search import Search
from berthage_trws.solver import Trws, search_outcome

from .ascent import ascend_lazily
from .candidates import fewer_cells
from .engine import LazyEngine
from .limited import Limited
from .options import TrwsLazyOptions
from .pool import LazyPool, inner_table, lazy_pool
from .ready import warm_lazy_kernels
from .sums import add_lazily

__all__ = ["TrwsLazy"]

LEAST_CANDIDATES = 3
"""Messages between variables of at most two labels have a form of their own, which cannot be carried over to more."""


class TrwsLazy:
    """TRW-S on lower bounds, priced where the search touches them. See `TrwsLazyOptions`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: TrwsLazyOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        options = options or TrwsLazyOptions()
        lowered = merge_parallel(lower_relations(problem), add_lazily)
        single = options.dtype == "f32"
        with context.phase("compile", charged=False):
            binary = bool((lowered.num_labels <= 2).all())
            warm_kernels(options.dtype, binary=binary, budgets=lowered.has_budgets, ordering=options.ordering)
            warm_lazy_kernels(options.dtype, binary=binary)
            if not binary and options.candidates is not None and options.dtype != "f64":
                warm_lazy_kernels("f64", binary=False)  # what concerns all labels is done in 64 bits
        order = node_order(lowered, options.ordering)
        limit = None if options.candidates is None else max(options.candidates, LEAST_CANDIDATES)
        few = limit is None or int(lowered.num_labels.max(initial=0)) <= limit
        with context.phase("build"):
            pool = _pool(lowered)
            layout = compile_layout(lowered, order, single and few, pool.pool, packed=few)
        if isinstance(layout, int):
            detail = f"every label of {problem.variable_names[layout]!r} is forbidden"
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf)

        def compiled(unary: npt.NDArray[np.float64]) -> Layout:
            with context.phase("build"):
                packed = compile_layout(replace(lowered, unary=unary), order, single, pool.pool)
            assert not isinstance(packed, int)  # every variable keeps a label that is allowed
            return packed

        def stopped() -> bool:
            return context.stop_reason() is not None

        start = None if params.warm_start is None else np.asarray(params.warm_start, np.int32)
        if limit is not None and not few and layout.scale == 1.0 and fewer_cells(layout, limit):
            engine = LazyEngine(layout, stopped, pool)
            search = Search(lowered, engine, context, options)
            limit = Limited(search, engine, pool, compiled).run(limit, start)
        else:
            limit = None
            layout = layout if few else compiled(lowered.unary)
            # what is not priced may cost anything
            engine = LazyEngine(replace(layout, highest=math.inf) if pool.open.any() else layout, stopped, pool)
            search = Search(lowered, engine, context, options)
            ascend_lazily(search, engine, None if start is None else layout.to_nodes(start))
        unfinished = context.best_assignment is None or pool.outgrown
        if unfinished and pool.open.any() and not search.proved and context.stop_reason() is None:
            outcome = Trws().solve(problem, params, options, context)
            return replace(outcome, stats={**outcome.stats, **_calls(problem)})
        search.stats |= _calls(problem)
        could = 0.0
        if limit is not None and not search.proved and context.best_objective is not None:
            could = max(float(context.best_objective) - search.bound, 0.0)
        search.stats["candidates"] = limit or int(lowered.num_labels.max(initial=0))
        search.stats["limit_could_cost"] = could
        return search_outcome(search)


def _pool(problem: PlacementProblem) -> LazyPool:
    used, slot = np.unique(problem.edge_table, return_inverse=True)
    weight = np.bincount(slot, problem.edge_multiplicity, len(used)).astype(np.float64)
    return lazy_pool([problem.tables[t] for t in used.tolist()], weight)


def _calls(problem: PlacementProblem) -> dict[str, int]:
    """Entries that the oracles priced, and how many there are."""
    tables = [inner_table(table) for table in problem.tables]
    lazy = {id(table.oracle): table for table in tables if isinstance(table, LazyTable)}.values()
    entries = sum(table.oracle.shape[0] * table.oracle.shape[1] for table in lazy)
    return {"oracle_calls": sum(table.calls for table in lazy), "oracle_calls_eager": entries}
