"""Compiles (or loads from numba's disk cache) ahead of time, so that a search does not."""

from __future__ import annotations

import numpy as np

from berthage import ProblemBuilder
from berthage_trws import Relaxation

from .consistency import prepare, refresh
from .explore import explore
from .network import build_network
from .state import make_state


def warm_kernels() -> None:
    """Make the kernels of the search ready, by running them on a tiny problem."""
    builder = ProblemBuilder("warm-up")
    for name in ("a", "b"):
        builder.add_variable(name, 2, [0.0, 1.0])
    builder.add_pairwise(0, 1, [[2.0, 0.0], [0.0, 2.0]])
    builder.add_budget("room", {"a": [0, 1], "b": [0, 1]}, upper=1)
    problem = builder.build()
    zero = np.zeros(2)
    relaxed = Relaxation(problem, 0.0, False, False, "", None, 0, zero, zero, None)
    network = build_network(relaxed, np.ones(4, np.bool_), 5.0)
    state = make_state(network.net, network.unary, 1 << 58)
    prepare(network.net, state, network.rates, network.messages)
    refresh(network.net, state)
    explore(network.net, state, np.zeros(0, np.int64), True, np.full(2, -1, np.int64), 1, 1)
