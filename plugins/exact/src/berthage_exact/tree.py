"""Best-first branch and bound that dives: the open node of least bound is searched depth first for a while.

What a dive leaves open goes back to the queue, so that the least bound in the queue is a bound on everything
(D. Allouche, S. de Givry, G. Katsirelos, T. Schiex, M. Zytnicki, *Anytime hybrid best-first search with tree
decomposition for weighted CSP*, 2015). Nothing depends on a clock, save when to stop.
"""

from __future__ import annotations

import heapq
from enum import Enum

import numpy as np

from berthage import Limit, SolveContext

from .consistency import refresh
from .explore import CROWDED, DONE, ENOUGH, LEAF, explore
from .network import Network
from .state import BOUND, DECISIONS, LEVELS, NODES, TOP, TRAIL, Ints, State
from .target import Target

WORK_PER_CALL = 1 << 24
"""Costs looked at in one call of the kernel, so that a clock or Ctrl-C is heeded within tens of milliseconds."""

MOST_FAILS = 1 << 14
FEW, MANY = 0.05, 0.1
"""A dive may fail so often at most; it may fail twice (half) as often as before when more (less) than these shares of
all nodes were visited only to take up open nodes again (the figures of the paper)."""

NODE_BYTES = 200
"""Memory of an open node beside its decisions."""


class Ending(Enum):
    """How a search ended."""

    SEARCHED = "everything is searched"
    FINER = "the best assignment is so much better that the numbers should be finer"
    STOPPED = "told to stop"


class TreeSearch:
    """The search of one network."""

    def __init__(self, network: Network, state: State, context: SolveContext, target: Target, memory: int) -> None:
        self.network, self.state, self.context, self.target = network, state, context, target
        self.limit: Limit | None = None
        self.peak = 0
        self._memory = memory
        self._queue: list[tuple[int, int, int, Ints]] = []
        self._bytes = 0
        self._pushed = 0
        self._taken = 0
        self._root_top = int(state.ctl[TOP])
        self._hint = np.full(len(network.net.ptr) - 1, -1, np.int64)

    @property
    def nodes(self) -> int:
        """Nodes visited."""
        return int(self.state.ctl[NODES])

    def run(self, node_limit: int | None) -> Ending:
        """Search until everything is searched or it is told to stop; the root is consistent and committed."""
        network, fails = self.network, 1
        self._push(int(self.state.x[-1]), np.zeros(0, np.int64))
        while self._queue:
            if self._aim() is False:
                break
            bound, _, _, decisions = heapq.heappop(self._queue)
            self._bytes -= NODE_BYTES + decisions.nbytes
            if bound >= self.state.ctl[TOP]:
                break  # and so is every other
            self.context.bound(network.cost(bound))
            if self._stopped(node_limit):
                self._push(bound, decisions)
                return Ending.STOPPED
            self.state.ctl[BOUND] = bound
            self._taken += 1
            ending = self._dive(decisions, fails, node_limit)
            if ending is not None:
                return ending
            if self._taken > MANY * self.nodes:
                fails = min(2 * fails, MOST_FAILS)
            elif self._taken < FEW * self.nodes:
                fails = max(fails // 2, 1)
        self.context.bound(network.cost(int(self.state.ctl[TOP])))
        return Ending.SEARCHED

    def bound(self) -> int:
        """The least bound among all that is open, in units."""
        return min([int(self.state.ctl[TOP]), *(item[0] for item in self._queue[:1])])

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _dive(self, decisions: Ints, fails: int, node_limit: int | None) -> Ending | None:
        network, fresh = self.network, True
        while True:
            allowed = fails if self._bytes < self._memory else 1 << 62
            code = explore(network.net, self.state, decisions, fresh, self._hint, WORK_PER_CALL, allowed)
            fresh = False
            if code == DONE:
                return None
            if code == LEAF:
                better = self._leaf()
                if better and self.target.wants_finer(network):
                    self._flush(pending=False)
                    return Ending.FINER
                if self.bound() >= self.state.ctl[TOP] and not self.state.ctl[LEVELS]:
                    return None
            elif code == ENOUGH:
                self._flush(pending=True)
                return None
            elif code == CROWDED:
                longer = np.zeros(2 * len(self.state.trail_at), np.int64)
                more = longer.copy()
                count = int(self.state.ctl[TRAIL])
                longer[:count], more[:count] = self.state.trail_at[:count], self.state.trail_was[:count]
                self.state = self.state._replace(trail_at=longer, trail_was=more)
            if self._stopped(node_limit):
                self._flush(pending=code != LEAF)
                return Ending.STOPPED

    def _leaf(self) -> bool:
        """Offer the assignment that was reached; whether it is the best so far."""
        net, state = self.network.net, self.state
        chosen = state.labels[net.ptr[:-1]]
        before = self.context.best_objective
        self.context.incumbent(self.network.label[net.ptr[:-1] + chosen])
        if self.context.best_objective == before:
            return False
        self._hint = chosen.copy()
        state.ctl[TOP] = min(int(state.ctl[TOP]), self.target.units(self.network))
        return True

    def _flush(self, pending: bool) -> None:
        """Put all that is open below the node in hand into the queue."""
        state = self.state
        decided = state.decided
        if pending:
            self._push(int(state.ctl[BOUND]), decided[: int(state.ctl[DECISIONS])].copy())
        for level in range(int(state.ctl[LEVELS])):
            length, flat, bound = (int(state.open[row, level]) for row in (1, 2, 3))
            if bound < state.ctl[TOP]:
                self._push(bound, np.append(decided[:length], -1 - flat))
        state.ctl[LEVELS] = 0

    def _push(self, bound: int, decisions: Ints) -> None:
        self._pushed += 1
        self._bytes += NODE_BYTES + decisions.nbytes
        self.peak = max(self.peak, self._bytes)
        heapq.heappush(self._queue, (bound, -len(decisions), self._pushed, decisions))

    def _aim(self) -> bool:
        """After a better assignment, make the root consistent with it. False when nothing is left."""
        state = self.state
        top = int(state.ctl[TOP])
        if top >= self._root_top:
            return True
        self._root_top = top
        return bool(refresh(self.network.net, state))

    def _stopped(self, node_limit: int | None) -> bool:
        self.limit = self.context.stop_reason()
        if self.limit is None and node_limit is not None and self.nodes >= node_limit:
            self.limit = Limit.ITERATIONS
        return self.limit is not None
