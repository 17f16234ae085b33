"""The parts of ``trws-lazy``: entries priced in place, messages on unpacked tables, candidates, sums of lazy tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from berthage import ClassedTable, DenseTable, LazyTable, PlacementProblem, ProblemBuilder
from berthage.problem import priced
from berthage.testing import ArrayOracle

pytest.importorskip("numba")

from berthage_trws.engine import Engine
from berthage_trws.layout import Layout, compile_layout
from berthage_trws.lazy.candidates import best_labels, flat_labels
from berthage_trws.lazy.engine import LazyEngine
from berthage_trws.lazy.pool import LazyPool, lazy_pool
from berthage_trws.lazy.sums import add_lazily
from berthage_trws.parallel import merge_parallel

RNG = np.random.default_rng(5)
VALUES = np.where(RNG.random((17, 19)) < 0.1, np.inf, RNG.random((17, 19)) * 9)


def problem() -> PlacementProblem:
    """Three variables; one lazy table used directly, transposed between other labels and through classes."""
    table = LazyTable(ArrayOracle(VALUES, slack=2.0))
    b = ProblemBuilder()
    b.add_variable("a", 17, np.where(np.arange(17) == 4, np.inf, np.arange(17.0)))
    b.add_variable("b", 19, np.arange(19.0)[::-1])
    b.add_variable("c", 30, np.arange(30.0) % 7)
    b.add_pairwise("a", "b", table, multiplicity=3)
    b.add_pairwise("c", "b", ClassedTable(table, np.arange(30) % 17, np.arange(19)))
    return b.build()


def compiled(given: PlacementProblem, *, packed: bool = True) -> tuple[Layout, LazyPool]:
    used, slot = np.unique(given.edge_table, return_inverse=True)
    weight = np.bincount(slot, given.edge_multiplicity).astype(np.float64)
    pool = lazy_pool([given.tables[t] for t in used], weight)
    layout = compile_layout(given, np.arange(given.num_variables), False, pool.pool, packed)
    assert isinstance(layout, Layout)
    return layout, pool


def calls(given: PlacementProblem) -> int:
    table = given.tables[0]
    assert isinstance(table, LazyTable)
    return table.calls


def test_one_lazy_table_is_pooled_once_with_its_bounds() -> None:
    given = problem()
    _, pool = compiled(given)
    assert len(pool.pool.base) == VALUES.size
    assert pool.open.sum() == VALUES.size
    assert pool.weight.tolist() == [3.0, 1.0]
    assert (pool.pool.base.reshape(VALUES.shape) < VALUES).all()
    assert calls(given) == 0


def test_what_is_known_beforehand_is_not_open() -> None:
    given = problem()
    given.tables[0].lookup(2, np.array([3, 4]))
    _, pool = compiled(given)
    assert np.flatnonzero(~pool.open).tolist() == [2 * 19 + 3, 2 * 19 + 4]


def test_entries_without_a_bound_are_priced_at_once() -> None:
    class Silent(ArrayOracle):
        def lower_bound(self, rows: Any, cols: Any) -> Any:
            return np.full(len(rows), -np.inf)

    b = ProblemBuilder()
    b.add_variable("a", 17)
    b.add_variable("b", 19)
    b.add_pairwise("a", "b", LazyTable(Silent(VALUES)))
    _, pool = compiled(b.build())
    assert not pool.open.any()
    assert pool.pool.base.tolist() == VALUES.ravel().tolist()


def test_pricing_rewrites_the_packed_tables_as_if_they_were_packed_anew() -> None:
    given = problem()
    layout, pool = compiled(given)
    engine = LazyEngine(layout, lambda: False, pool)
    state = np.array([1, 0, 0], np.uint64)
    energy = engine.energy(state)
    labels = layout.to_variables(state)
    assert energy == pytest.approx(
        sum(given.unary_of(v)[labels[v]] for v in range(3))
        + 3 * VALUES[labels[0], labels[1]]
        + VALUES[labels[2] % 17, labels[1]]
    )
    assert calls(given) == 2
    engine.price_relevant(np.inf)
    assert calls(given) == VALUES.size
    assert not pool.open.any()
    full = compile_layout(priced(given), np.arange(3), False, replace(pool.pool))
    assert isinstance(full, Layout)
    again = layout.cells.copy()
    again[again >= layout.stand_in] = engine.layout.stand_in
    fresh = full.cells.copy()
    fresh[fresh >= full.stand_in] = engine.layout.stand_in
    assert again.tolist() == fresh.tolist()


def test_a_look_prices_the_pairs_that_the_minima_rest_on_and_few_others() -> None:
    given = problem()
    layout, pool = compiled(given)
    engine = LazyEngine(layout, lambda: False, pool)
    while True:
        Engine.sweep(engine)
        if not engine.refine(0.0):
            break
    assert 0 < calls(given) < VALUES.size // 4
    eager = compile_layout(priced(given), np.arange(3), False)
    assert isinstance(eager, Layout)
    reference = Engine(eager, lambda: False)
    for _ in range(60):
        Engine.sweep(engine)
        reference.sweep()
    assert engine.bound() == pytest.approx(reference.bound(), rel=1e-9)


def test_nothing_that_an_assignment_within_the_best_could_use_stays_unpriced() -> None:
    given = problem()
    layout, pool = compiled(given)
    engine = LazyEngine(layout, lambda: False, pool)
    for _ in range(20):
        engine.sweep()
    best = 1.2 * engine.value
    engine.price_relevant(best)
    full = priced(given)
    unpriced = pool.open.reshape(VALUES.shape)
    for a in range(17):
        for b in range(19):
            edge = full.unary_of(0)[a] + full.unary_of(1)[b] + 3 * VALUES[a, b]
            rest = min(full.unary_of(2)[c] + VALUES[c % 17, b] for c in range(30))
            assert not (unpriced[a, b] and edge + rest <= best)


def test_a_pass_over_unpacked_tables_is_a_sweep() -> None:
    given = problem()
    packed, pool = compiled(given)
    loose, _ = compiled(given, packed=False)
    assert len(loose.cells) == 0
    one, other = LazyEngine(packed, lambda: False, pool), LazyEngine(loose, lambda: False, pool)
    Engine.sweep(one)
    other.pass_messages()
    assert one.bound() == pytest.approx(other.bound(), rel=1e-12)
    assert one.slacks().tolist() == pytest.approx(other.slacks().tolist(), abs=1e-9)


def test_messages_travel_between_all_labels_and_candidates() -> None:
    given = problem()
    whole, pool = compiled(given)
    full = LazyEngine(whole, lambda: False, pool)
    Engine.sweep(full)
    keep = best_labels(whole, full.slacks(), 5)
    assert [int(keep[whole.exact.label_ptr[i] : whole.exact.label_ptr[i + 1]].sum()) for i in range(3)] == [5, 5, 5]
    mask = np.zeros(len(given.unary), np.bool_)
    mask[flat_labels(whole, given.label_ptr)[keep]] = True
    few = compile_layout(replace(given, unary=np.where(mask, given.unary, np.inf)), np.arange(3), False, pool.pool)
    assert isinstance(few, Layout)
    small = LazyEngine(few, lambda: False, pool)
    small.take_messages(full)
    assert small.slacks().tolist() == pytest.approx(full.slacks()[keep].tolist(), abs=1e-9)
    before = full.messages().copy()
    full.take_messages(small)
    assert full.messages().tolist() == before.tolist()


def test_parallel_lazy_edges_are_added_up_without_pricing_them() -> None:
    lazy, other = LazyTable(ArrayOracle(VALUES)), DenseTable(np.arange(4.0).reshape(2, 2))
    b = ProblemBuilder()
    b.add_variable("a", 17)
    b.add_variable("b", 19)
    b.add_pairwise("a", "b", lazy, multiplicity=2)
    b.add_pairwise("b", "a", ClassedTable(other, np.arange(19) % 2, np.arange(17) % 2))
    given = b.build()
    merged = merge_parallel(given, add_lazily)
    assert (merged.num_edges, lazy.calls) == (1, 0)
    table = merged.tables[merged.edge_table[0]]
    assert isinstance(table, ClassedTable)
    assert isinstance(table.table, LazyTable)
    expected = 2 * VALUES + other.values[np.arange(19)[:, None] % 2, np.arange(17)[None] % 2].T
    found = table.to_dense()
    assert (found if merged.edge_u[0] == 0 else found.T).tolist() == expected.tolist()
    assert add_lazily([(other, 1), (other, 2)]) is None
