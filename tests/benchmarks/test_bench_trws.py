"""Speed of the TRW-S kernels in Gcell/s (2 · cells · sweeps / s, one core) beside numpy doing one message at a time.

The targets hold on a quiet core of a recent x86-64 server; ``BERTHAGE_BENCH_STRICT=1`` turns them into assertions.
What is always asserted is that the kernels beat their peer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder

pytest.importorskip("numba")

from berthage_trws.engine import Engine
from berthage_trws.layout import Layout, compile_layout

pytestmark = pytest.mark.bench

CASES = {
    # name: labels, nodes, tables, seconds of measurement, target f64, target f32
    "16 labels, in cache": (16, 400, 40, 3.0, 5.0),
    "32 labels, in cache": (32, 200, 20, 3.0, 5.0),
    "64 labels, in cache": (64, 100, 6, 3.0, 5.0),
    "81 labels, in cache": (81, 100, 4, 3.0, 5.0),
    "500 labels, far beyond cache": (500, 41, 160, 1.4, 2.0),
    "2 labels": (2, 20000, 160000, 0.3, 0.3),
}


def grid_like(labels: int, nodes: int, tables: int) -> PlacementProblem:
    rng = np.random.default_rng(0)
    builder = ProblemBuilder("bench")
    builder.add_variables([f"v{i}" for i in range(nodes)], [labels] * nodes, rng.random(nodes * labels))
    ends = [(i, i + step) for i in range(nodes) for step in (1, 2, 7, 20) if i + step < nodes]
    shared = [builder.add_table(rng.random((labels, labels))) for _ in range(min(tables, len(ends)))]
    u, v = np.array(ends).T
    builder.add_edges(u, v, np.array([shared[e % len(shared)] for e in range(len(ends))]))
    return builder.build()


def numpy_sweep(problem: PlacementProblem) -> Callable[[], None]:
    """The named peer: TRW-S with one numpy expression a message."""
    n, edges = problem.num_variables, problem.num_edges
    theta = [problem.unary_of(v) for v in range(n)]
    costs = [table.to_dense() for table in problem.tables]
    links: list[list[tuple[int, int, np.ndarray]]] = [[] for _ in range(n)]
    for e in range(edges):
        a, b, cost = int(problem.edge_u[e]), int(problem.edge_v[e]), costs[problem.edge_table[e]]
        links[a].append((b, 2 * e, cost))
        links[b].append((a, 2 * e + 1, np.ascontiguousarray(cost.T)))
    messages = np.zeros((2 * edges, len(theta[0])))

    def sweep() -> None:
        for order in (range(n), range(n - 1, -1, -1)):
            for i in order:
                hat = theta[i] + sum(messages[e ^ 1] for _, e, _ in links[i])
                ahead = [link for link in links[i] if (link[0] > i) == (order.step > 0)]
                hat = hat / max(len(ahead), len(links[i]) - len(ahead), 1)
                for _, e, cost in ahead:
                    message = ((hat - messages[e ^ 1])[:, None] + cost).min(axis=0)
                    messages[e] = message - message.min()

    return sweep


def rate(sweep: Callable[[], object], cells: float, seconds: float) -> float:
    """Best Gcell/s of three runs of about ``seconds`` CPU seconds each."""
    sweep()
    start = time.process_time()
    sweep()
    once = max(time.process_time() - start, 1e-6)
    count = max(1, int(seconds / once))
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        for _ in range(count):
            sweep()
        best = min(best, (time.process_time() - start) / count)
    return 2 * cells / best / 1e9


@pytest.mark.parametrize("name", list(CASES))
def test_gigacells_per_second(name: str) -> None:
    labels, nodes, tables, double_target, single_target = CASES[name]
    problem = grid_like(labels, nodes, tables)
    cells = float(problem.num_edges) * labels * labels
    peer = rate(numpy_sweep(problem), cells, 0.3)
    for single, target in ((False, double_target), (True, single_target)):
        layout = compile_layout(problem, np.arange(nodes), single)
        assert isinstance(layout, Layout)
        ours = rate(Engine(layout, lambda: False).sweep, cells, 0.5)
        print(
            f"\n{name:30s} {'f32' if single else 'f64'}  {ours:6.2f} Gcell/s  (target {target})   "
            f"numpy per edge {peer:.3f} Gcell/s   ratio {ours / peer:.1f}"
        )
        assert ours > peer
        if os.environ.get("BERTHAGE_BENCH_STRICT"):
            assert ours >= target
