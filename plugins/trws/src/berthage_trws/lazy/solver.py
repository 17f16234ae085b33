"""The solver ``trws-lazy``."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from berthage import PlacementProblem, Reason, SolveContext, SolveParams, SolverOutcome, Termination, lower_relations
from berthage_trws.budgets import compile_budgets
from berthage_trws.lagrange import ascend_budgeted
from berthage_trws.layout import compile_layout
from berthage_trws.ordering import node_order
from berthage_trws.parallel import merge_parallel
from berthage_trws.ready import warm_kernels
from berthage_trws.search import Search, kick, sweep_up
from berthage_trws.solver import Trws, search_outcome

from .engine import WIDTH, LazyEngine
from .options import TrwsLazyOptions
from .pool import LazyPool, lazy_pool

__all__ = ["TrwsLazy"]

MOST_ROUNDS = 50
"""Times that sweeps go on after they had converged because something more was priced."""


class TrwsLazy:
    """TRW-S on lower bounds, priced where the search touches them. See `TrwsLazyOptions`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: TrwsLazyOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        options = options or TrwsLazyOptions()
        lowered = merge_parallel(lower_relations(problem))
        single = options.dtype == "f32"
        with context.phase("compile", charged=False):
            binary = bool((lowered.num_labels <= 2).all())
            warm_kernels(options.dtype, binary=binary, budgets=lowered.has_budgets, ordering=options.ordering)
        with context.phase("build"):
            pool = _pool(lowered)
            layout = compile_layout(lowered, node_order(lowered, options.ordering), single, pool.pool)
        if isinstance(layout, int):
            detail = f"every label of {problem.variable_names[layout]!r} is forbidden"
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf)
        if pool.open.any():
            layout = replace(layout, highest=math.inf)  # what is not priced may cost anything
        engine = LazyEngine(layout, lambda: context.stop_reason() is not None, pool)
        search = Search(lowered, engine, context, options)
        engine.room = lambda: max(search.best_energy - engine.value, 0.0)
        start = None if params.warm_start is None else layout.to_nodes(np.asarray(params.warm_start))
        if lowered.has_budgets:
            budgets = compile_budgets(lowered, layout)
            for _ in range(MOST_ROUNDS):
                ascend_budgeted(search, budgets, start)
                if search.proved or search.stopped() or not engine.refine(WIDTH):
                    break
        else:
            if start is not None:
                search.offer(start)
                engine.improve(start, pairs=False)
                search.offer(start)
            _ascend(search, engine)
        unfinished = context.best_assignment is None or pool.outgrown
        if unfinished and pool.open.any() and not search.proved and context.stop_reason() is None:
            outcome = Trws().solve(problem, params, options, context)
            return replace(outcome, stats={**outcome.stats, **_stats(pool, engine)})
        search.stats |= _stats(pool, engine)
        return search_outcome(search)


def _pool(problem: PlacementProblem) -> LazyPool:
    used, slot = np.unique(problem.edge_table, return_inverse=True)
    weight = np.bincount(slot, problem.edge_multiplicity, len(used))
    return lazy_pool([problem.tables[t] for t in used.tolist()], weight)


def _ascend(search: Search, engine: LazyEngine) -> None:
    """Sweep and price until the gap closes, or nothing unpriced could change the answer."""
    _sweep_and_price(search, engine)
    if search.proved or search.stopped():
        return
    engine.price_relevant(search.best_energy)
    if search.best_energy < math.inf:
        engine.restart()  # from here on as if everything had been priced to begin with
        _sweep_and_price(search, engine)
        if not search.proved and search.context.stop_reason() is None:
            kick(search)


def _sweep_and_price(search: Search, engine: LazyEngine) -> None:
    for _ in range(MOST_ROUNDS):
        sweep_up(search)
        if search.proved or search.stopped() or not engine.refine(WIDTH):
            return


def _stats(pool: LazyPool, engine: LazyEngine) -> dict[str, int]:
    return {"oracle_calls": pool.calls, "oracle_calls_eager": pool.size, "pricing_rounds": engine.rounds}
