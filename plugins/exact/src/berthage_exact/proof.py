"""From the end of message passing to a proof: network, root consistency, elimination, search."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from berthage import Limit, SolveContext
from berthage_trws import Relaxation

from .consistency import prepare, refresh
from .elimination import eliminate, find_order
from .network import Network, build_network, network_size
from .options import ExactOptions
from .ready import warm_kernels
from .state import FORBIDDEN, TOP, State, make_state
from .target import Target
from .tree import Ending, TreeSearch

MEBIBYTE = 1 << 20

AT_ONCE = 1 << 24
"""Table entries up to which elimination is tried before any search: a fraction of a second."""

SHRINK = 0.7
"""The network is built anew when less than this share of its labels is left, so that its tables lie close together."""


@dataclass(eq=False, slots=True)
class Proof:
    """Where the search ended.

    Attributes:
        bound: A lower bound in the problem's units; inf when nothing (within the cutoff) is feasible.
        limit: What stopped it, or None.
        detail: More of that.
        stats: For the result.
    """

    bound: float = -math.inf
    limit: Limit | None = None
    detail: str = ""
    stats: dict[str, int | float | str | bool] = field(default_factory=dict)


def prove(relaxed: Relaxation, context: SolveContext, options: ExactOptions) -> Proof:
    """Search for better assignments than the context's best until there is none."""
    with context.phase("compile", charged=False):
        warm_kernels()
    return _Prover(relaxed, context, options).run()


class _Prover:
    def __init__(self, relaxed: Relaxation, context: SolveContext, options: ExactOptions) -> None:
        self.relaxed, self.context, self.options = relaxed, context, options
        self.target = Target(context, relaxed.problem.is_integral)
        self.memory = options.memory * MEBIBYTE
        self.keep = np.isfinite(relaxed.problem.unary)
        self.proof = Proof(stats={"nodes": 0})

    def run(self) -> Proof:
        while True:
            if network_size(self.relaxed.problem, self.keep) > self.memory:
                self.proof.limit = Limit.MEMORY
                self.proof.detail = f"tables would take more than {self.options.memory} MiB; raise the option memory"
                return self.proof
            again = self._once()
            if not again:
                return self.proof

    def _once(self) -> bool:
        """Build the network and search it. True when it should be built anew."""
        network = build_network(self.relaxed, self.keep, self.target.upper())
        state = make_state(network.net, network.unary, 1 << 59)
        if not self._root(network, state):
            return self._finish(network, state)
        left = int(state.x[-1 - len(network.net.ptr) + 1 : -1].sum())
        self._note(network, state, left)
        if left < SHRINK * len(network.unary):
            self._restrict(network, state)
            return True
        if self.options.eliminate and not len(network.net.limit):
            found = self._eliminate(network, state)
            if found is not None:
                return found
        search = TreeSearch(network, state, self.context, self.target, self.memory)
        limit = self.context.params.iteration_limit
        ending = search.run(None if limit is None else limit - int(self.proof.stats["nodes"]))
        self.proof.stats["nodes"] = int(self.proof.stats["nodes"]) + search.nodes
        self.proof.stats["open_bytes"] = search.peak
        if ending is Ending.SEARCHED:
            return self._finish(network, state)
        self._raise(network, search.bound())
        if ending is Ending.FINER:
            self._restrict(network, state)
            return True
        self.proof.limit = search.limit
        return False

    def _root(self, network: Network, state: State) -> bool:
        fits = bool(prepare(network.net, state, network.rates, network.messages))
        state.ctl[TOP] = self.target.units(network)
        return fits and bool(refresh(network.net, state))

    def _finish(self, network: Network, state: State) -> bool:
        """Everything is searched: the bound is what was aimed at."""
        self._raise(network, int(state.ctl[TOP]))
        if self.context.best_objective is None:
            self.proof.bound = math.inf
        return False

    def _raise(self, network: Network, units: int) -> None:
        self.proof.bound = max(self.proof.bound, network.cost(units))
        self.context.bound(self.proof.bound)

    def _note(self, network: Network, state: State, left: int) -> None:
        self._raise(network, int(state.x[-1]))
        self.proof.stats["root_bound"] = self.proof.bound
        self.proof.stats["labels"] = left
        self.proof.stats["rows"] = len(network.net.limit)

    def _restrict(self, network: Network, state: State) -> None:
        """Keep only the labels that are left at the root."""
        net = network.net
        n = len(net.ptr) - 1
        sizes = state.x[-1 - n : -1]
        stays = state.where < np.repeat(sizes, np.diff(net.ptr))
        flat = np.flatnonzero(self.keep)
        self.keep = np.zeros(len(self.keep), np.bool_)
        self.keep[flat[stays]] = True

    def _eliminate(self, network: Network, state: State) -> bool | None:
        """Solve by elimination where tables stay small. None when they do not."""
        order = find_order(network.net, state, min(AT_ONCE, self.memory // 32))
        if order is None or order.total > AT_ONCE:
            return None
        found = eliminate(network.net, state, order, lambda: self.context.stop_reason() is not None)
        if found is None:
            return None  # the search will say why
        self.proof.stats["largest_table"] = order.largest
        units, labels = found
        if units >= FORBIDDEN:
            return self._finish(network, state)
        self.context.incumbent(network.label[network.net.ptr[:-1] + labels])
        self._raise(network, min(int(state.x[-1]) + units, int(state.ctl[TOP])))
        if self.target.wants_finer(network):
            self._restrict(network, state)
            return True
        return False
