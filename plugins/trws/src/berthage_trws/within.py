"""Assignments that respect the budgets: repair, local search and offering, around the kernels of ``repair``."""

from __future__ import annotations

import math

import numpy as np

from .budgets import Budgets
from .engine import chunks
from .layout import Words, repeated
from .repair import chains, conditional_costs, improve_within, repair, violation
from .search import Search

WORK_PER_CALL = 1 << 23
"""Numbers that a call of a kernel may look at, so that a clock or Ctrl-C is heeded within tens of milliseconds."""

CHAIN_WORK = 1 << 27
"""The same for all chains of one thorough search."""

CHAIN_DEPTH = 4


class BudgetedSearch:
    """Local search of one problem with budgets; keeps scratch arrays between calls."""

    def __init__(self, search: Search, budgets: Budgets) -> None:
        self.search, self.budgets = search, budgets
        layout, rows = search.engine.layout, budgets.rows
        self._costs = np.empty(len(layout.unary))
        self._trail = np.empty((CHAIN_DEPTH + 2, 2), np.uint64)
        labels = layout.exact.labels.astype(np.float64)
        half_ptr = layout.exact.half_ptr.astype(np.int64)
        reach = np.zeros(layout.nodes)
        node = repeated(rows.entry_ptr)
        np.add.at(reach, node, (rows.row_stop - rows.row_start).astype(np.float64))
        # one search for the best relieving move, and the move itself
        relief = len(rows.upper) + len(layout.unary) + layout.nodes + int(6 * reach.max(initial=0.0))
        self._moves_per_call = max(1, WORK_PER_CALL // (relief + 1))
        self._chunks = chunks(labels * (np.diff(half_ptr) + reach + 1), WORK_PER_CALL)
        self._attempts = max(16, CHAIN_WORK // (CHAIN_DEPTH * (relief + 1)))

    def offer(self, state: Words, thorough: bool) -> float:
        """Repair ``state`` in place, improve it, and offer it; returns its scaled objective, ``inf`` if infeasible."""
        search, budgets = self.search, self.budgets
        layout = search.engine.layout
        fixed = layout.exact, layout.unary, layout.stand_in, budgets.rows
        use = budgets.use(state)
        conditional_costs(layout.exact, layout.unary, layout.stand_in, state, self._costs)
        work = (state, use, self._costs)
        for _ in range(4 * layout.nodes + 1):
            if repair(*fixed, *work, self._moves_per_call) < self._moves_per_call or search.stopped():
                break
        if violation(budgets.rows, use)[0] > 0.0:
            return math.inf
        for _ in range(50):
            moves = 0
            for first, last in self._chunks:
                moves += improve_within(*fixed, *work, np.uint64(first), np.uint64(last))
                if search.stopped():
                    break
            if thorough and not moves and not search.stopped():
                moves = self._chains(fixed, work)
            if not moves or search.stopped():
                break
        use[:] = budgets.use(state)
        hard, soft = violation(budgets.rows, use)
        energy = search.engine.energy(state) + float(soft)
        better = hard == 0.0 and energy < search.best_energy
        if better and search.context.incumbent(layout.to_variables(state)) is not None:
            search.best_energy = energy
        return energy if hard == 0.0 else math.inf

    def _chains(self, fixed: tuple[object, ...], work: tuple[object, ...]) -> int:
        kept, left = 0, self._attempts
        for first, last in self._chunks:
            more, tried = chains(
                *fixed, *work, np.uint64(first), np.uint64(last), np.uint64(CHAIN_DEPTH), left, self._trail
            )
            kept, left = kept + more, left - tried
            if left <= 0 or self.search.stopped():
                break
        return kept
