"""Messages of a problem whose tables are priced while they are passed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from berthage_trws.engine import Engine, quads
from berthage_trws.layout import Layout, Words
from berthage_trws.sweep import PANEL
from berthage_trws.tables import Floats, Ints

from .candidates import move_messages
from .kernels import find_touched, node_slacks, pack_rows, pass_messages, used_cells
from .pool import LazyPool

__all__ = ["LazyEngine"]

FIRST_SWEEPS, MOST_SWEEPS = 2, 16
"""Sweeps between two looks at what they touch: few while every look finds much, more where it finds nothing."""

WIDTH = 0.005
"""Share of the gap within which pairs of labels count as touched. What lies further off is looked at once the gap has
become small; a larger share prices entries that never matter, a smaller one takes more rounds."""

LEAST_AT_ONCE, AT_ONCE, NARROWER = 1000, 400, 8.0
"""One look prices at most one in so many entries, or a thousand. Where more are within the width (while the first
assignments are far from the bound) it is made narrower, so that the nearest are priced."""

IMPROVE_ROUNDS = 8
FOUND_AT_ONCE = 1 << 20
_EPS = 1e-12


class LazyEngine(Engine):
    """An `Engine` on lower bounds that prices what sweeps, roundings and local search touch.

    Its bound holds for the true costs whatever is priced; the energy of an assignment is its true cost.

    Attributes:
        pool: The tables.
        room: Told by the search: how far the best assignment is above the bound (scaled); inf without one.
        value: The bound of the last sweep.
    """

    def __init__(self, layout: Layout, stopped: Callable[[], bool], pool: LazyPool) -> None:
        super().__init__(layout, stopped)
        self.pool = pool
        self.room: Callable[[], float] = lambda: math.inf
        self.value = -math.inf
        self._every, self._since = FIRST_SWEEPS, 0
        self._lazy_slot = np.array([table is not None for table in pool.tables], np.bool_)
        lazy_start = pool.pool.start[self._lazy_slot].astype(np.uint64)
        self._lazy = np.isin(layout.exact.origin, lazy_start)
        self._slack = np.empty(len(layout.unary))
        self._found = np.empty(FOUND_AT_ONCE, np.int64)
        self._most = min(max(LEAST_AT_ONCE, len(layout.exact.base) // AT_ONCE), FOUND_AT_ONCE)
        self._dirty = np.zeros(len(layout.exact.base), np.bool_)
        self._edges = np.empty(len(layout.exact.neighbour) // 2, np.int64)
        self._first_stand_in, self._grown, self._spare = layout.stand_in, 0.0, 0.0

    def sweep(self) -> float | None:
        """As `Engine.sweep`; every few sweeps, what the messages rest on is priced."""
        value = super().sweep()
        self._since += 1
        if value is not None:
            self.value = value
        if value is not None and self._since >= self._every and self.pool.open.any():
            priced = self.refine(WIDTH)
            self._every = FIRST_SWEEPS if priced else min(2 * self._every, MOST_SWEEPS)
        return value

    def refine(self, share: float) -> int:
        """Price what the least costs rest on, up to a share of the gap above them; returns how many entries."""
        self._since = 0
        room = self.room()
        width = share * room if room < math.inf else 0.0
        least_width = _EPS * float(np.abs(self.unary).max(initial=1.0))
        width = max(width, least_width)
        node_slacks(self.layout.exact, self.unary, self._wide_messages(), self._slack)
        while True:
            found, _ = self._find(width, width, False, self._found[: self._most])
            if len(found) < self._most or width <= least_width:
                return self._price(np.unique(found))
            width = max(width / NARROWER, least_width)

    def price_relevant(self, best: float) -> int:
        """Price every entry that an assignment of a cost up to ``best`` (scaled) could use; returns how many.

        With a node's slack shared evenly by its edges, the cost of an assignment is the sum of the least costs of nodes
        and edges and of what each pair that it uses is above its edge's least: no pair that is above by more than is
        missing from ``best`` can be part of it.
        """
        total = 0
        while not self.stopped():
            least = float(node_slacks(self.layout.exact, self.unary, self._wide_messages(), self._slack))
            _, edges = self._find(math.inf, -math.inf, True, self._found)
            within = math.inf
            if max(best, least, edges) < math.inf:
                within = best - least - edges + _EPS * (abs(best) + abs(least) + abs(edges))
            found, _ = self._find(math.inf, within, True, self._found)
            if not len(found):
                break
            total += self._price(np.unique(found))
        return total

    def slacks(self) -> Floats:
        """By how much each label's cost, messages included, is above the least of its node; ``float64[ΣK']``."""
        node_slacks(self.layout.exact, self.unary, self._wide_messages(), self._slack)
        return self._slack

    def pass_messages(self) -> None:
        """A sweep that needs no packed tables and gives no bound."""
        layout = self.layout
        for ascending in (True, False):
            pass_messages(layout.exact, self.unary, self._messages, layout.stand_in, ascending, *self._wide[:3])

    def take_messages(self, other: LazyEngine) -> None:
        """Take over the messages of an engine of the same edges; labels that it lacks keep theirs."""
        move_messages(other.layout, other.messages(), self.layout, self._messages)

    def restart(self) -> None:
        """Forget all messages."""
        self._messages[:] = 0
        if self.is_binary:
            self._differences[:] = 0

    def _wide_messages(self) -> Floats:
        return np.asarray(self.messages(), dtype=np.float64)

    def _find(self, labels_within: float, pairs_within: float, even: bool, into: Ints) -> tuple[Ints, float]:
        count, least = find_touched(
            self.layout.exact, self._lazy, self.pool.open, self._wide_messages(), self._slack, labels_within,
            pairs_within, even, *self._wide[:2], into,
        )  # fmt: skip
        return into[:count], float(least)

    def energy(self, state: Words) -> float:
        """The true cost of ``state`` (see `Engine.energy`); what it uses is priced."""
        self._price_used(state)
        return super().energy(state)

    def improve(self, state: Words, pairs: bool, rounds: int = 100) -> None:
        """As `Engine.improve`, again while the assignment found turns out to be dearer than its bounds.

        Pairs are moved only once looks find little to price: before, most moves lead to what is dearer than it seems.
        """
        for _ in range(IMPROVE_ROUNDS):
            super().improve(state, pairs and self._every > FIRST_SWEEPS, rounds)
            if not self._price_used(state) or self.stopped():
                return

    def _price_used(self, state: Words) -> int:
        count = used_cells(self.layout.exact, state, self._edges)
        cells = self._edges[:count]
        return self._price(np.unique(cells[self.pool.open[cells]]))

    def _price(self, cells: Ints) -> int:
        """Price entries and write them wherever costs are read from."""
        if not len(cells):
            return 0
        layout, pool = self.layout, self.pool
        before = float(pool.weight @ pool.pool.high)
        layout.exact.base[cells] = pool.price(cells) * layout.scale
        raised = self._raise_stand_in((float(pool.weight @ pool.pool.high) - before) * layout.scale)
        if not len(layout.cells):
            pass  # not packed
        elif raised:
            layout.packing.write(layout.exact.base, self.layout.stand_in, layout.cells)
        elif self.is_binary:
            self._quads = quads(layout, layout.gamma.dtype)
        else:
            lines = pool.line_starts(cells)
            self._dirty[lines] = True
            *sides, forward, backward, _ = layout.packing
            places = forward, backward, self._dirty, layout.cells
            pack_rows(layout.exact.base, *sides, PANEL, layout.stand_in, *places)
            self._dirty[lines] = False
        return len(cells)

    def _raise_stand_in(self, grown: float) -> bool:
        """Keep the stand-in for forbidden pairs above every difference between allowed assignments."""
        self._grown += grown
        if self._grown <= self._spare:
            return False
        self._spare = 2.0 * self._grown
        self.layout = replace(self.layout, stand_in=self._first_stand_in + 2.0 * self._spare)
        if self.is_binary:
            self._quads = quads(self.layout, self.layout.gamma.dtype)
        return not self.is_binary
