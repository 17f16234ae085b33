"""Cost tables: dense, classed and lazy; exactness, laziness, sharing, and oracles that misbehave."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from berthage import ClassedTable, DenseTable, InvalidProblemError, LazyTable, PluginError, ProblemBuilder, evaluate
from berthage.problem import priced
from berthage.testing import ArrayOracle


def values() -> Any:
    return np.array([[4.0, 2.0, math.inf], [1.0, 0.0, 7.0]])


def test_the_three_kinds_of_one_matrix_agree() -> None:
    dense = DenseTable(values())
    classed = ClassedTable(dense, [1, 0, 1], [2, 2, 0, 1])
    lazy = LazyTable(ArrayOracle(values()))
    rows, cols = np.array([0, 1, 1]), np.array([2, 0, 1])
    assert dense.lookup(rows, cols).tolist() == lazy.lookup(rows, cols).tolist() == [math.inf, 1, 0]
    assert classed.shape == (3, 4)
    assert classed.to_dense().tolist() == values()[np.ix_([1, 0, 1], [2, 2, 0, 1])].tolist()
    assert [t.kind for t in (dense, classed, lazy)] == ["dense", "classed", "lazy"]
    assert classed.transpose().to_dense().tolist() == classed.to_dense().T.tolist()


def test_a_lazy_table_prices_only_what_is_asked_and_once() -> None:
    lazy = LazyTable(ArrayOracle(values(), slack=2.0))
    assert lazy.calls == 0
    assert lazy.lower_bound() == -2.0
    assert lazy.bounds([0, 1], [0, 2]).tolist() == [2.0, 5.0]
    assert lazy.shape == (2, 3)
    assert lazy.calls == 0, "bounds are free"
    assert lazy.lookup([0, 0, 1], [0, 0, 2]).tolist() == [4.0, 4.0, 7.0]
    assert lazy.calls == 2
    assert lazy.bounds([0], [0]).tolist() == [4.0], "what is known is its own bound"
    assert lazy.transpose().lookup(2, 1) == 7.0
    assert lazy.take(np.array([1]), None).lookup(0, 2) == 7.0
    assert lazy.calls == 2, "views share what is known"
    lazy.take(np.array([1, 0]), np.array([1])).to_dense()
    assert lazy.calls == 4
    assert lazy.to_dense().tolist() == values().tolist()
    assert lazy.calls == 6


def test_evaluating_prices_one_entry_per_lazy_edge() -> None:
    lazy = LazyTable(ArrayOracle(np.zeros((50, 60))))
    b = ProblemBuilder()
    b.add_variable("a", 50)
    b.add_variable("b", 60)
    b.add_pairwise("a", "b", lazy)
    problem = b.build()
    problem.stats()
    assert len(problem.digest) == 64
    assert lazy.calls == 0
    evaluate(problem, [7, 8])
    assert lazy.calls == 1


class Broken(ArrayOracle):
    """An oracle that prices every entry as told."""

    def __init__(self, price: Callable[[Any], Any]) -> None:
        super().__init__(np.ones((2, 2)), slack=1.0)
        self._price = price

    def price(self, rows: Any, cols: Any) -> Any:
        return self._price(super().price(rows, cols))


@pytest.mark.parametrize(
    ("price", "message"),
    [
        (lambda prices: prices * math.nan, "NaN"),
        (lambda prices: prices * -math.inf, "-inf"),
        (lambda prices: prices - 5, "below its own lower bound"),
        (lambda prices: prices[:-1], "prices for"),
    ],
)
def test_an_oracle_that_breaks_its_word_is_a_plugin_error(price: Callable[[Any], Any], message: str) -> None:
    table = LazyTable(Broken(price))
    with pytest.raises(PluginError, match=message):
        table.lookup([0, 1], [0, 1])


def test_integers_beyond_floats_keep_a_residual_through_every_view() -> None:
    exact = [[2**60 + 1, 2**53 + 1], [5, 2**62 - 1]]
    dense = DenseTable(exact)
    tables = [
        (dense, exact),
        (dense.transpose(), [list(row) for row in zip(*exact, strict=True)]),
        (dense.take(np.array([1, 0]), np.array([1])), [[exact[1][1]], [exact[0][1]]]),
        (ClassedTable(dense, [1, 0], [0, 1]), [exact[1], exact[0]]),
    ]
    for table, expected in tables:
        rows, cols = table.shape
        found, residual = table.exact(np.arange(rows)[:, None], np.arange(cols)[None, :])
        assert residual is not None
        for r in range(rows):
            for c in range(cols):
                assert int(found[r, c]) + int(residual[r, c]) == expected[r][c]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DenseTable([[1, 2], [3]]), "rectangular|matrix"),
        (lambda: DenseTable([1, 2]), "matrix"),
        (lambda: DenseTable(np.zeros((2, 2, 2))), "matrix"),
        (lambda: DenseTable(np.zeros((0, 2))), "matrix"),
        (lambda: DenseTable([[math.nan]]), "NaN"),
        (lambda: DenseTable([[-math.inf]]), "-inf"),
        (lambda: DenseTable([["a"]]), "number"),
        (lambda: DenseTable([[3**100]]), "rescale"),
        (lambda: DenseTable([[10**400]]), "rescale"),
        (lambda: DenseTable([[1 + 2j]]), "number"),
        (lambda: ClassedTable(DenseTable([[1]]), [0, 1], [0]), "row"),
        (lambda: ClassedTable(DenseTable([[1]]), [0], [-1]), "column"),
        (lambda: ClassedTable(DenseTable([[1]]), [], [0]), "row"),
        (lambda: ClassedTable(DenseTable([[1]]), [[0]], [0]), "row"),
    ],
)
def test_tables_that_are_none_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        make()


def test_whole_numbers_are_recognised() -> None:
    assert DenseTable([[1.0, math.inf]]).is_integral
    assert not DenseTable([[1.5]]).is_integral
    assert ClassedTable(DenseTable([[1.5, 2]]), [0], [1]).is_integral is False
    assert LazyTable(ArrayOracle([[3.0]])).is_integral
    assert not LazyTable(ArrayOracle([[3.5]])).is_integral


def test_an_oracle_that_says_whole_and_prices_fractions_is_caught() -> None:
    class Lying:
        shape, key, is_integral = (1, 2), b"lying", True

        def price(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
            return np.full(len(rows), 0.5)

        def lower_bound(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
            return np.zeros(len(rows))

    with pytest.raises(PluginError, match="whole"):
        LazyTable(Lying()).to_dense()


def test_a_problem_is_priced_in_full_where_somebody_needs_every_entry() -> None:
    lazy = LazyTable(ArrayOracle(values()))
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 3)
    b.add_variable("c", 4)
    b.add_pairwise("a", "b", lazy)
    b.add_pairwise("a", "c", ClassedTable(lazy, [1, 0], [2, 2, 0, 1]))
    problem = b.build()
    full = priced(problem)
    first, second = full.tables
    assert isinstance(second, ClassedTable)
    assert second.table is first
    assert first.to_dense().tolist() == values().tolist()
    assert evaluate(full, [1, 2, 0]).objective == evaluate(problem, [1, 2, 0]).objective
    assert priced(full) is full


def test_an_oracle_may_know_that_a_pair_is_forbidden_without_pricing_it() -> None:
    class Knowing(ArrayOracle):
        def lower_bound(self, rows: Any, cols: Any) -> Any:
            return self.price(rows, cols)

    lazy = LazyTable(Knowing(values()))
    assert lazy.bounds(0, [0, 2]).tolist() == [4.0, math.inf]
    assert lazy.lookup(0, [0, 2]).tolist() == [4.0, math.inf]
