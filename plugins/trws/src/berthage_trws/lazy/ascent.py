"""The ascent on lower bounds: sweep and price until the gap closes, or nothing unpriced could change the answer."""

from __future__ import annotations

import math

from berthage_trws.budgets import compile_budgets
from berthage_trws.lagrange import ascend_budgeted
from berthage_trws.layout import Words
from berthage_trws.search import Search, kick, sweep_up

from .engine import WIDTH, LazyEngine

__all__ = ["ascend_lazily"]

MOST_ROUNDS = 50
"""Times that sweeps go on after they had converged because something more was priced."""


def ascend_lazily(search: Search, engine: LazyEngine, start: Words | None) -> None:
    """Run a search to its end.

    Args:
        search: Its engine is the next.
        engine: Messages on lower bounds.
        start: An assignment to begin with, or None.
    """
    engine.room = lambda: max(search.best_energy - engine.value, 0.0) if search.best_energy < math.inf else math.inf
    if search.problem.has_budgets:
        budgets = compile_budgets(search.problem, engine.layout)
        for _ in range(MOST_ROUNDS):
            ascend_budgeted(search, budgets, start)
            if search.proved or search.stopped() or not engine.refine(WIDTH):
                return
            start = None
        return
    if start is not None:
        search.offer(start)
        engine.improve(start, pairs=False)
        search.offer(start)
    if _sweep_and_price(search, engine):
        return
    engine.price_relevant(search.best_energy)
    if search.best_energy < math.inf:
        engine.restart()  # from here on as if everything had been priced to begin with
        if not _sweep_and_price(search, engine):
            kick(search)


def _sweep_and_price(search: Search, engine: LazyEngine) -> bool:
    """Sweep until no look at what the messages rest on prices anything; whether the search is over."""
    for _ in range(MOST_ROUNDS):
        sweep_up(search)
        if search.proved or search.stopped():
            return True
        if not engine.refine(WIDTH):
            break
    return False
