"""Assignments that respect the budgets: repair, local search and offering, around the kernels of ``repair``."""

from __future__ import annotations

import math

import numpy as np

from .budgets import Budgets
from .layout import Words
from .repair import chains, conditional_costs, improve_within, repair, violation
from .search import Search

REPAIR_MOVES_PER_CALL = 32
CHAIN_DEPTH = 4
CHAIN_NODES_PER_CALL = 16


class BudgetedSearch:
    """Local search of one problem with budgets; keeps scratch arrays between calls."""

    def __init__(self, search: Search, budgets: Budgets) -> None:
        self.search, self.budgets = search, budgets
        self._costs = np.empty(len(search.engine.layout.unary))
        self._trail = np.empty((CHAIN_DEPTH + 2, 2), np.uint64)

    def offer(self, state: Words, thorough: bool) -> float:
        """Repair ``state`` in place, improve it, and offer it; returns its scaled objective, ``inf`` if infeasible."""
        search, budgets = self.search, self.budgets
        layout = search.engine.layout
        fixed = layout.exact, layout.unary, layout.stand_in, budgets.rows
        use = budgets.use(state)
        conditional_costs(layout.exact, layout.unary, layout.stand_in, state, self._costs)
        work = (state, use, self._costs)
        for _ in range(layout.nodes + 1):
            if repair(*fixed, *work, REPAIR_MOVES_PER_CALL) < REPAIR_MOVES_PER_CALL or search.stopped():
                break
        if violation(budgets.rows, use)[0] > 0.0:
            return math.inf
        for _ in range(50):
            moves = improve_within(*fixed, *work)
            if thorough and not moves and not search.stopped():
                moves = self._chains(fixed, work)
            if not moves or search.stopped():
                break
        use[:] = budgets.use(state)
        hard, soft = violation(budgets.rows, use)
        energy = search.engine.energy(state) + float(soft)
        if hard == 0.0 and energy < search.best_energy:
            if search.context.incumbent(layout.to_variables(state)) is not None:
                search.best_energy = energy
        return energy if hard == 0.0 else math.inf

    def _chains(self, fixed: tuple[object, ...], work: tuple[object, ...]) -> int:
        kept, nodes = 0, self.search.engine.layout.nodes
        for first in range(0, nodes, CHAIN_NODES_PER_CALL):
            last = min(first + CHAIN_NODES_PER_CALL, nodes)
            kept += chains(*fixed, *work, np.uint64(first), np.uint64(last), np.uint64(CHAIN_DEPTH), self._trail)
            if self.search.stopped():
                break
        return kept
