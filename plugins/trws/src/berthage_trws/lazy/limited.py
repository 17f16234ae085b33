"""The search under a candidate limit.

Messages are passed among the best labels of every variable only. What that proves is put to the test with all labels:
the messages are carried over, passed once more over all of them, and the bound is certified there. Where it does not
close the gap, the limit is doubled, until it would save nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from berthage_trws.budgets import compile_budgets
from berthage_trws.lagrange import Dual
from berthage_trws.layout import Layout
from berthage_trws.search import Search

from .ascent import ascend_lazily
from .candidates import best_labels, fewer_cells, flat_labels
from .engine import WIDTH, LazyEngine
from .pool import LazyPool

__all__ = ["Limited"]

WHOLE_PASSES = 10
"""Passes over all labels by which a result is put to the test, as long as each leads to something being priced."""


class Limited:
    """A search whose candidates grow.

    Args:
        search: The search; its engine has all labels, in tables that are not packed.
        whole: That engine.
        pool: The tables.
        compiled: Compiles the problem with some unary costs, packed.
    """

    def __init__(
        self,
        search: Search,
        whole: LazyEngine,
        pool: LazyPool,
        compiled: Callable[[npt.NDArray[np.float64]], Layout],
    ) -> None:
        self.search, self.whole, self.pool, self._compiled = search, whole, pool, compiled
        problem = search.problem
        self._flat = flat_labels(whole.layout, problem.label_ptr.astype(np.int64))
        self._budgets = compile_budgets(problem, whole.layout) if problem.has_budgets else None

    def run(self, limit: int, start: npt.NDArray[np.int32] | None) -> int | None:
        """Search with at most ``limit`` candidates a variable, and more where that is not enough.

        Returns:
            The limit in the end; None when all labels took part.
        """
        search, whole = self.search, self.whole
        whole.pass_messages()
        most = int(whole.layout.exact.labels.max(initial=0))
        while True:
            everything = limit >= most or not fewer_cells(whole.layout, limit)
            keep = self._candidates(most if everything else limit, start)
            inner, engine = self._search_among(keep, start)
            if everything:
                search.bound = max(search.bound, inner.bound)
                search.infeasible = inner.infeasible
                if not search.infeasible:
                    search.context.bound(search.bound)
                return None
            whole.take_messages(engine)
            self._test(inner)
            if search.proved or search.stopped():
                return limit
            limit *= 2
            start = search.context.best_assignment

    def _candidates(self, limit: int, start: npt.NDArray[np.int32] | None) -> npt.NDArray[np.bool_]:
        """``bool`` by label of the problem: the best, and those of the assignments known."""
        problem = self.search.problem
        keep = np.zeros(len(problem.unary), np.bool_)
        keep[self._flat[best_labels(self.whole.layout, self.whole.slacks(), limit)]] = True
        for known in (start, self.search.context.best_assignment):
            if known is not None:
                keep[problem.label_ptr[:-1] + known] = True
        return keep

    def _search_among(
        self, keep: npt.NDArray[np.bool_], start: npt.NDArray[np.int32] | None
    ) -> tuple[Search, LazyEngine]:
        search = self.search
        layout = self._compiled(np.where(keep, search.problem.unary, np.inf))
        engine = LazyEngine(replace(layout, highest=math.inf), self.whole.stopped, self.pool)
        engine.take_messages(self.whole)
        inner = replace(search, engine=engine, bound=-math.inf, tells_bound=False, stats={}, candidate=None)
        ascend_lazily(inner, engine, None if start is None else layout.to_nodes(start))
        search.sweeps, search.best_energy, search.limit = inner.sweeps, inner.best_energy, inner.limit
        search.stats |= inner.stats
        return inner, engine

    def _test(self, inner: Search) -> None:
        """Certify a bound over all labels with what the candidates' search ended with."""
        search, whole = self.search, self.whole
        offset = slack = 0.0
        if self._budgets is not None and inner.multipliers is not None:
            dual = Dual(self._budgets, *inner.multipliers)
            offset, slack = dual.offset()
            added, size = self._budgets.unary(dual.rates())
            missing = len(whole.layout.unary) - len(added)
            unary = whole.layout.unary
            whole.set_unary(unary + np.pad(added, (0, missing)), np.abs(unary) + np.pad(size, (0, missing)))
        whole.room = lambda: max(search.best_energy - search.bound, 0.0) if search.bound > -math.inf else math.inf
        for _ in range(WHOLE_PASSES):
            whole.pass_messages()
            search.certify(offset, slack)
            if search.proved or search.context.stop_reason() is not None or not whole.refine(WIDTH):
                return
