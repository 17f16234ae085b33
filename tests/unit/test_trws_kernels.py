"""The compiled kernels of ``trws`` against a slow and plain TRW-S in numpy, and against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from berthage import ClassedTable, DenseTable, PlacementProblem, ProblemBuilder
from berthage.testing import brute_force

pytest.importorskip("numba")

from berthage_trws.engine import Engine
from berthage_trws.layout import Layout, compile_layout
from berthage_trws.ordering import node_order
from berthage_trws.pack import find_classes
from berthage_trws.tables import pool_tables

RNG = np.random.default_rng


def random_problem(
    seed: int, labels: list[int], edges: int, *, forbid: float = 0.0, copies: int = 1, classes: bool = False
) -> PlacementProblem:
    rng = RNG(seed)
    builder = ProblemBuilder(f"random-{seed}")
    for i, count in enumerate(labels):
        cost = rng.normal(size=count) * 3
        cost[rng.random(count) < forbid] = np.inf
        cost[rng.integers(count)] = rng.normal()
        builder.add_variable(f"v{i}", count, cost, multiplicity=int(rng.integers(1, copies + 1)))
    pairs = [(i, j) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    for position in rng.permutation(len(pairs)).tolist():
        u, v = pairs[position]
        if edges == 0:
            break
        pairs[position] = (v, u)
        edges -= 1
        values = rng.normal(size=(labels[u], labels[v])) * 4
        values[rng.random(values.shape) < forbid] = np.inf
        table: DenseTable | ClassedTable = DenseTable(values)
        if classes:
            table = ClassedTable(table, rng.integers(0, labels[u], labels[u]), rng.integers(0, labels[v], labels[v]))
        builder.add_pairwise(u, v, table, multiplicity=int(rng.integers(1, copies + 1)))
    return builder.build()


def compiled(problem: PlacementProblem, single: bool = False, ordering: str = "natural") -> Layout:
    layout = compile_layout(problem, node_order(problem, ordering), single)
    assert isinstance(layout, Layout)
    return layout


def plain_bounds(problem: PlacementProblem, stand_in: float, sweeps: int) -> list[float]:
    """TRW-S as in the paper: natural order, one array per message, no trick at all."""
    n = problem.num_variables
    keep = [np.flatnonzero(np.isfinite(problem.unary_of(v))) for v in range(n)]
    theta = [problem.unary_of(v)[keep[v]] * problem.multiplicity[v] for v in range(n)]
    links: list[list[tuple[int, int, np.ndarray]]] = [[] for _ in range(n)]  # neighbour, edge, cost[own, other]
    for e in range(problem.num_edges):
        u, v = int(problem.edge_u[e]), int(problem.edge_v[e])
        cost = problem.tables[problem.edge_table[e]].to_dense() * problem.edge_multiplicity[e]
        cost = np.where(np.isfinite(cost), cost, stand_in)[np.ix_(keep[u], keep[v])]
        links[u].append((v, e, cost))
        links[v].append((u, e, cost.T))
    into = {(v, e): np.zeros(len(keep[v])) for v in range(n) for _, e, _ in links[v]}
    bounds = []
    for _ in range(sweeps):
        for order in (range(n), range(n - 1, -1, -1)):
            bound = 0.0
            for i in order:
                ahead = [link for link in links[i] if (link[0] > i) == (order.step > 0)]
                gamma = 1 / max(len(ahead), len(links[i]) - len(ahead), 1)
                hat = theta[i] + sum((into[i, e] for _, e, _ in links[i]), np.zeros(len(keep[i])))
                bound += hat.min()
                hat = hat - hat.min()
                for j, e, cost in ahead:
                    message = ((gamma * hat - into[i, e])[:, None] + cost).min(axis=0)
                    bound += message.min()
                    into[j, e] = message - message.min()
        bounds.append(float(bound))
    return bounds


CASES = {
    "small": {"labels": [3, 4, 2, 5], "edges": 5},
    "binary": {"labels": [2] * 8, "edges": 14},
    "binary and single": {"labels": [2, 1, 2, 1, 2, 2], "edges": 9},
    "panels and remainders": {"labels": [1, 7, 8, 9, 16, 17, 33], "edges": 12},
    "multiplicities": {"labels": [3, 9, 4, 10], "edges": 6, "copies": 5},
    "forbidden": {"labels": [6, 9, 12, 5, 8], "edges": 7, "forbid": 0.2},
    "classes": {"labels": [20, 17, 9, 12], "edges": 5, "classes": True},
    "large tables with equal rows": {"labels": [70, 60, 65], "edges": 3, "classes": True, "forbid": 0.1},
    "no edges": {"labels": [3, 1, 2], "edges": 0},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("single", [False, True], ids=["f64", "f32"])
def test_sweeps_give_the_bounds_of_plain_trws(case: dict[str, object], single: bool) -> None:
    for seed in range(4):
        problem = random_problem(seed, **case)  # type: ignore[arg-type]
        layout = compiled(problem, single)
        engine = Engine(layout, lambda: False)
        ours = [engine.sweep() for _ in range(6)]
        # relative to the size of the terms that cancel: the stand-in is the largest
        tolerance = (2e-6 if single else 1e-13) * layout.stand_in
        assert ours == pytest.approx(plain_bounds(problem, layout.stand_in, 6), abs=tolerance)


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if name not in ("binary", "no edges")])
def test_packing_merges_and_masks_exactly(case: dict[str, object]) -> None:
    """The cost that rounding reads for every pair of kept labels is the problem's."""
    problem = random_problem(7, **case)  # type: ignore[arg-type]
    layout = compiled(problem, ordering="bfs")
    rng = RNG(0)
    ptr = layout.exact.label_ptr.astype(int)
    engine = Engine(layout, lambda: False)
    for _ in range(50):
        state = np.array([rng.integers(ptr[i + 1] - ptr[i]) for i in range(layout.nodes)], np.uint64)
        x = layout.to_variables(state)
        cost = sum(problem.unary_of(v)[x[v]] * problem.multiplicity[v] for v in range(problem.num_variables))
        for e in range(problem.num_edges):
            table = problem.tables[problem.edge_table[e]]
            cost += float(table.lookup(x[problem.edge_u[e]], x[problem.edge_v[e]])) * problem.edge_multiplicity[e]
        assert engine.energy(state) == pytest.approx(cost, rel=1e-12, abs=1e-12)
        assert np.array_equal(layout.to_nodes(x), state)


def test_equal_rows_and_columns_share_a_class() -> None:
    rng = RNG(1)
    small = rng.normal(size=(5, 4))
    rows, columns = rng.integers(0, 5, 30), rng.integers(0, 4, 40)
    table = np.ascontiguousarray(small[np.ix_(rows, columns)])
    mine, other = np.empty(30, np.int64), np.empty(40, np.int64)
    counts = find_classes(table.view(np.uint64), mine, other)
    assert counts == (len(np.unique(rows)), len(np.unique(columns)))
    assert all((mine[a] == mine[b]) == (rows[a] == rows[b]) for a in range(30) for b in range(30))
    assert all((other[a] == other[b]) == (columns[a] == columns[b]) for a in range(40) for b in range(40))


def test_tables_that_repeat_rows_are_stored_once() -> None:
    rng = RNG(2)
    small = rng.normal(size=(6, 5))
    rows, columns = rng.integers(0, 6, 64), rng.integers(0, 5, 64)
    pool = pool_tables([DenseTable(small[np.ix_(rows, columns)]), DenseTable(rng.normal(size=(64, 64)))])
    assert len(pool.base) == 6 * 5 + 64 * 64
    assert pool.row_of_label[1] is None
    first = pool.base[:30].reshape(6, 5)
    row, column = pool.row_of_label[0], pool.column_of_label[0]
    assert row is not None
    assert column is not None
    assert np.array_equal(first[np.ix_(row, column)], small[np.ix_(rows, columns)])


@pytest.mark.parametrize("name", ["small", "binary", "forbidden", "multiplicities", "binary and single"])
@pytest.mark.parametrize("single", [False, True], ids=["f64", "f32"])
def test_certified_bound_never_exceeds_the_optimum(name: str, single: bool) -> None:
    for seed in range(8):
        problem = random_problem(seed, **CASES[name])  # type: ignore[arg-type]
        truth = brute_force(problem).objective
        engine = Engine(compiled(problem, single), lambda: False)
        rng = RNG(seed)
        for sweep in range(10):
            bound = engine.bound()
            assert bound <= truth  # rounding errors are charged, so no tolerance is needed
            if sweep == 4:  # messages may be anything at all
                target = engine._differences if engine.is_binary else engine._messages
                target[:] = rng.normal(size=len(target)) * 100
                continue
            engine.sweep()


def test_certified_bound_is_tight_on_a_tree_in_single_precision() -> None:
    rng = RNG(5)
    builder = ProblemBuilder("chain")
    for i in range(30):
        builder.add_variable(f"v{i}", 6, rng.normal(size=6) * 1e3)
        if i:
            builder.add_pairwise(i - 1, i, rng.normal(size=(6, 6)) * 1e3)
    problem = builder.build()
    single, double = (Engine(compiled(problem, s), lambda: False) for s in (True, False))
    for engine in (single, double):
        engine.sweep()
    best = double.energy(double.assign(True))
    assert double.bound() == pytest.approx(best, rel=1e-13)
    assert single.bound() == pytest.approx(best, rel=1e-12)
    assert single.sweep() != pytest.approx(best, rel=1e-12)  # the sweep itself is only single


def test_certified_bound_proves_infeasibility_of_a_tree() -> None:
    builder = ProblemBuilder("clash")
    for name in "abc":
        builder.add_variable(name, 3)
    table = np.full((3, 3), np.inf)
    table[0, 1] = 0.0
    builder.add_pairwise(0, 1, table)
    builder.add_pairwise(1, 2, table)
    engine = Engine(compiled(builder.build()), lambda: False)
    assert engine.bound() == np.inf


@pytest.mark.parametrize("scale", [1e308, 1e150, 1e-300])
def test_costs_of_any_size_neither_overflow_nor_vanish(scale: float) -> None:
    for single in (False, True):
        builder = ProblemBuilder("huge")
        for name in "abc":
            builder.add_variable(name, 3, np.array([0.5, 1.0, 0.25]) * scale)
        for u, v in ((0, 1), (1, 2), (0, 2)):
            builder.add_pairwise(u, v, (1 - np.eye(3)) * 0.5 * scale)
        layout = compiled(builder.build(), single)
        engine = Engine(layout, lambda: False)
        for _ in range(10):
            bound = engine.sweep()
            assert bound is not None
            assert np.isfinite(bound)
        assert engine.assign(True).tolist() == [2, 2, 2]
        assert engine.bound() / layout.scale == pytest.approx(0.75 * scale, rel=1e-6)


def test_local_search_reaches_what_single_moves_cannot() -> None:
    builder = ProblemBuilder("together")
    for name in "ab":
        builder.add_variable(name, 2)
    builder.add_pairwise(0, 1, [[1.0, 9.0], [9.0, 0.0]])
    engine = Engine(compiled(builder.build()), lambda: False)
    state = np.zeros(2, np.uint64)
    engine.improve(state, pairs=False)
    assert state.tolist() == [0, 0]
    engine.improve(state, pairs=True)
    assert state.tolist() == [1, 1]


def test_breadth_first_order_visits_neighbours_in_turn() -> None:
    builder = ProblemBuilder("star and pair")
    for i in range(6):
        builder.add_variable(f"v{i}", 2)
    for u, v in ((3, 0), (3, 5), (0, 4), (1, 2)):
        builder.add_pairwise(u, v, np.ones((2, 2)))
    problem = builder.build()
    assert node_order(problem, "bfs").tolist() == [0, 3, 4, 5, 1, 2]
    assert node_order(problem, "natural").tolist() == list(range(6))
