"""A run of message passing, and what is handed over at its end to those who build on it."""

from __future__ import annotations

import math

import numpy as np

from berthage import (
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
from .handover import Relaxation, RowPrices
from .lagrange import ascend_budgeted
from .layout import compile_layout, repeated
from .options import TrwsOptions
from .ordering import node_order
from .parallel import merge_parallel
from .parts import offsets
from .ready import warm_kernels
from .search import Search, ascend
from .sweep import PANEL
from .tables import Floats


def run_search(
    problem: PlacementProblem, params: SolveParams, options: TrwsOptions, context: SolveContext
) -> Search | SolverOutcome:
    """Sweep to the end; an outcome instead when a variable has no allowed label."""
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
    return search


def relax(
    problem: PlacementProblem, params: SolveParams, context: SolveContext, options: TrwsOptions | None = None
) -> Relaxation:
    """Run TRW-S and hand over where it ended; see `berthage_trws.relax`."""
    search = run_search(problem, params, options or TrwsOptions(), context)
    if isinstance(search, SolverOutcome):
        return Relaxation(
            problem, math.inf, True, True, search.termination.detail, None, 0, np.zeros(0), np.zeros(0), None
        )
    to_u, to_v = _messages(search)
    detail = "the lower bound is above the cost of any assignment" if search.infeasible else ""
    return Relaxation(
        search.problem, math.inf if search.infeasible else search.bound, search.proved, search.infeasible, detail,
        search.limit, search.sweeps, to_u, to_v, _prices(search),
    )  # fmt: skip


def _messages(search: Search) -> tuple[Floats, Floats]:
    """The messages by edge of the problem and label, in its units; 0 for labels that were left out."""
    problem, layout = search.problem, search.engine.layout
    exact = layout.exact
    messages = search.engine.messages()
    node = repeated(exact.half_ptr)
    labels = exact.labels.astype(np.int64)
    counts = labels[node]
    half_ptr = exact.half_ptr.astype(np.int64)
    width = -(-counts // PANEL) * PANEL
    inbox = exact.message_ptr.astype(np.int64)[node] + (np.arange(len(node)) - half_ptr[node]) * width
    mine, other = layout.order[node], layout.order[exact.neighbour.astype(np.int64)]
    n = problem.num_variables
    ends = problem.edge_u.astype(np.int64), problem.edge_v.astype(np.int64)
    keys = np.concatenate([ends[0] * n + ends[1], ends[1] * n + ends[0]])
    rank = np.argsort(keys, kind="stable")
    at = rank[np.argsort(np.argsort(mine * n + other, kind="stable"), kind="stable")]
    sizes = np.concatenate([problem.num_labels[ends[0]], problem.num_labels[ends[1]]]).astype(np.int64)
    place = offsets(sizes)
    ptr = offsets(counts)
    half = np.repeat(np.arange(len(node)), counts)
    k = np.arange(int(ptr[-1])) - ptr[half]
    flat = np.zeros(int(place[-1]))
    label = layout.label[exact.label_ptr.astype(np.int64)[node[half]] + k]
    flat[place[at[half]] + label] = messages[inbox[half] + k].astype(np.float64) / layout.scale
    split = int(place[problem.num_edges])
    return flat[:split], flat[split:]


def _prices(search: Search) -> RowPrices | None:
    if search.multipliers is None or search.budgets is None:
        return None
    rows, scale = search.budgets.rows, search.engine.layout.scale
    upper, lower = search.multipliers
    return RowPrices(
        rows.budget.astype(np.int64), search.budgets.instant, upper / rows.size / scale, lower / rows.size / scale
    )
