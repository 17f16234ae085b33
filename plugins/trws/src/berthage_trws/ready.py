"""Compiles (or loads from numba's disk cache) ahead of time, so that a solve does not."""

from __future__ import annotations

import numpy as np

from berthage import ProblemBuilder, SolveContext, SolveParams

from .budgets import compile_budgets
from .engine import Engine
from .layout import compile_layout
from .options import TrwsOptions
from .ordering import node_order
from .search import Search
from .within import BudgetedSearch


def warm_kernels(dtype: str, *, binary: bool, budgets: bool, ordering: str = "natural") -> None:
    """Make the kernels of one kind of problem ready, by running them on a tiny one.

    Args:
        dtype: ``"f64"`` or ``"f32"``, as in the options.
        binary: Whether no variable has more than two labels.
        budgets: Whether there are budgets.
        ordering: As in the options.
    """
    size = 2 if binary else 3
    builder = ProblemBuilder("warm-up")
    for name in ("a", "b", "c"):
        builder.add_variable(name, size, np.arange(size, dtype=np.float64))
    table = builder.add_table(np.ones((size, size)))
    builder.add_pairwise(0, 1, table)
    builder.add_pairwise(1, 2, table)
    # large enough for its equal rows to be searched for
    wide = 2 if binary else 32
    builder.add_variable("d", wide)
    builder.add_variable("e", wide)
    builder.add_pairwise(3, 4, np.zeros((wide, wide)))
    if budgets:
        weights = np.arange(size)
        builder.add_budget("budget", {0: weights, 1: weights}, upper=1)
    problem = builder.build()
    layout = compile_layout(problem, node_order(problem, ordering), dtype == "f32")
    assert not isinstance(layout, int)
    engine = Engine(layout, lambda: False)
    engine.sweep()
    state = engine.assign(True)
    engine.improve(state, pairs=True)
    engine.kick(state, state.copy(), np.ones(1, np.uint64), 10, np.zeros(3), 0.0)
    engine.energy(state)
    engine.bound()
    if budgets:
        search = Search(problem, engine, SolveContext(problem, SolveParams()), TrwsOptions())
        state[:2] = 1
        BudgetedSearch(search, compile_budgets(problem, layout)).offer(state, thorough=True)
