"""A compiled problem with its messages: sweeps, assignments and bounds on it, in units of the problem's costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .binary import sweep_binary
from .certify import certified_bound
from .kicks import MOST_MOVES, kick
from .layout import Layout, Words, repeated
from .rounding import descend, descend_pairs, energy, round_messages
from .sweep import PANEL, sweep
from .tables import Floats

CELLS_PER_CALL = 1 << 26
"""A sweep is cut into calls of about this many table cells, so that a clock or Ctrl-C is heeded within tens of ms."""


class Engine:
    """Messages of one problem, and what can be done with them.

    Bounds and energies are scaled like the layout, without the problem's constant; `Search.cost` turns them back.
    """

    def __init__(self, layout: Layout, stopped: Callable[[], bool]) -> None:
        self.layout = layout
        self.stopped = stopped
        exact, dtype = layout.exact, layout.gamma.dtype
        self.unary: Floats = layout.unary
        self.magnitude: Floats = np.abs(layout.unary)
        self.is_binary = bool((layout.graph.labels <= 2).all())
        self._scratch = [np.empty(layout.longest, dtype) for _ in range(4)]
        self._wide = [np.empty(layout.longest, np.float64) for _ in range(4)]
        self._messages = np.zeros(0 if self.is_binary else layout.message_size, dtype)
        half_ptr = exact.half_ptr.astype(np.int64)
        if self.is_binary:
            self._differences = np.zeros(int(half_ptr[-1]), dtype)
            self._quads = quads(layout, dtype)
        self._chunks = chunks(layout.work, CELLS_PER_CALL)
        self.set_unary(layout.unary, self.magnitude)

    def set_unary(self, unary: Floats, magnitude: Floats) -> None:
        """Replace the costs of the labels (for example by costs with multipliers); messages are kept."""
        self.unary, self.magnitude = unary, magnitude
        if not self.is_binary:
            self._theta = self.layout.theta(unary)
            return
        ptr = self.layout.exact.label_ptr.astype(np.int64)
        zero, one = unary[ptr[:-1]], unary[np.minimum(ptr[:-1] + 1, len(unary) - 1)] if len(unary) else unary
        difference = np.where(np.diff(ptr) == 2, one - zero, self.layout.stand_in)
        self._theta, self._base_cost = difference.astype(self.layout.gamma.dtype), float(zero.sum())

    def sweep(self) -> float | None:
        """One ascending and one descending pass. Returns the bound of the latter, or None when told to stop."""
        bound = 0.0
        for ascending in (True, False):
            bound = 0.0
            for first, last in self._chunks if ascending else [(b, a) for a, b in reversed(self._chunks)]:
                bound += self._pass(np.uint64(first), np.uint64(last))
                if len(self._chunks) > 1 and self.stopped():
                    return None
        return bound + (self._base_cost if self.is_binary else 0.0)

    def _pass(self, first: Any, last: Any) -> float:
        layout, exact = self.layout, self.layout.exact
        if self.is_binary:
            ends = exact.half_ptr, exact.half_mid, exact.mate
            values = self._theta, layout.gamma, self._quads, self._differences
            return float(sweep_binary(*ends, first, last, *values))
        values = self._theta, layout.gamma, layout.cells, self._messages
        return float(sweep(layout.graph, first, last, *values, *self._scratch))

    def messages(self) -> npt.NDArray[Any]:
        """Incoming messages in the layout's order."""
        if not self.is_binary:
            return self._messages
        spread = np.zeros((len(self._differences), PANEL), self._differences.dtype)
        spread[:, 1] = self._differences
        return spread.reshape(-1)

    def assign(self, ascending: bool) -> Words:
        """Round the messages in one direction."""
        state = np.zeros(self.layout.nodes, np.uint64)
        layout = self.layout
        round_messages(layout.exact, self.unary, self.messages(), layout.stand_in, ascending, state, self._wide[0])
        return state

    def improve(self, state: Words, pairs: bool, rounds: int = 100) -> None:
        """Local search from ``state``, in place: single moves, and moves of both ends of an edge."""
        layout = self.layout
        waiting = np.ones(layout.nodes, np.bool_)
        scratch = self._wide[0], self._wide[1]
        for _ in range(rounds):
            descend(layout.exact, self.unary, layout.stand_in, state, rounds, waiting, scratch[0])
            if not pairs:
                return
            moves = 0
            fixed = layout.exact, self.unary, layout.stand_in, state
            for first, last in self._chunks:
                moves += int(descend_pairs(*fixed, np.uint64(first), np.uint64(last), waiting, *scratch))
                if self.stopped():
                    return
            if not moves:
                return

    def kick(
        self, state: Words, best: Words, seed: npt.NDArray[np.uint64], work: int, tally: Floats, slack: float
    ) -> int:
        """Iterated local search, see :func:`~berthage_trws.kicks.kick`; returns how often ``best`` became better."""
        layout = self.layout
        queue, waiting = np.empty(layout.nodes, np.uint64), np.zeros(layout.nodes, np.int8)
        trail = np.empty((MOST_MOVES + 4, 2), np.uint64)
        scratch = self._wide[0], queue, waiting, trail
        fixed = layout.exact, self.unary, layout.stand_in
        return int(kick(*fixed, state, best, seed, np.uint64(work), tally, slack, *scratch))

    def energy(self, state: Words) -> float:
        """Cost of ``state`` at the layout's own unary costs."""
        return float(energy(self.layout.exact, self.layout.unary, state))

    def bound(self) -> float:
        """A certified lower bound at the current unary costs, from the current messages."""
        messages = self.messages().astype(np.float64)
        return float(certified_bound(self.layout.exact, self.unary, self.magnitude, messages, *self._wide))


def chunks(work: Floats, per_call: int) -> list[tuple[int, int]]:
    """Ranges of nodes with about ``per_call`` units of work each."""
    if not len(work):
        return []
    part = (np.cumsum(work) // per_call).astype(np.int64)
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(work)]
    return list(itertools.pairwise(cuts))


def quads(layout: Layout, dtype: Any) -> npt.NDArray[Any]:
    """Four costs beside each half-edge; a missing second label repeats the first."""
    exact = layout.exact
    halves = len(exact.neighbour)
    node = repeated(exact.half_ptr)
    quads = np.empty((halves, 4))
    for a in range(2):
        own = np.minimum(a, exact.labels[node].astype(np.int64) - 1).astype(np.uint64)
        for b in range(2):
            other = np.minimum(b, exact.labels[exact.neighbour].astype(np.int64) - 1).astype(np.uint64)
            where = exact.origin + exact.maps[exact.own_map + own] * exact.own_step
            where = where + exact.maps[exact.other_map + other] * exact.other_step
            quads[:, 2 * a + b] = exact.base[where] * exact.factor
    quads[~np.isfinite(quads)] = layout.stand_in
    return quads.astype(dtype)
