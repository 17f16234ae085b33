"""Budget rows: exact integers, bearable coefficients, and only instants that can bind."""

from __future__ import annotations

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder
from berthage.linear import LinearProgram, linear_program, maximal_instants


def budget_rows(program: LinearProgram) -> np.ndarray:
    return np.flatnonzero(program.row_budget >= 0)


def row_entries(program: LinearProgram, row: int) -> tuple[np.ndarray, np.ndarray]:
    span = slice(program.row_ptr[row], program.row_ptr[row + 1])
    return program.col_index[span], program.value[span]


def test_maximal_instants() -> None:
    #        0 1 2 3 4 5
    # a      -----
    # b        ---
    # c            -----      (the set at 1 holds those at 0; the set at 4 that at 3)
    # d              -----
    start = np.array([0, 1, 3, 4])
    stop = np.array([3, 3, 6, 7])
    assert maximal_instants(start, stop).tolist() == [1, 4]


def test_maximal_instants_by_enumeration() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        start = rng.integers(0, 12, 6)
        stop = start + rng.integers(1, 6, 6)
        live = {t: frozenset(np.flatnonzero((start <= t) & (t < stop)).tolist()) for t in range(20)}
        wanted = {s for s in live.values() if s and not any(s < other for other in live.values())}
        found = [live[int(t)] for t in maximal_instants(start, stop)]
        assert set(found) >= wanted
        assert len(found) <= 6


def knapsack(weights: list[list[int]], upper: int) -> PlacementProblem:
    b = ProblemBuilder()
    for v, w in enumerate(weights):
        b.add_variable(f"v{v}", len(w), range(len(w), 0, -1))
    b.add_budget("bytes", dict(enumerate(weights)), upper=upper)
    return b.build()


def test_bytes_are_divided_by_their_gcd_and_what_is_used_anyway_is_taken_off() -> None:
    program = linear_program(knapsack([[4096, 8192, 12288], [8192, 4096, 4096]], 4096 * 4 + 17))
    (row,) = budget_rows(program)
    columns, values = row_entries(program, row)
    assert dict(zip(columns.tolist(), values.tolist(), strict=True)) == {1: 1.0, 2: 2.0, 3: 1.0}
    assert program.row_upper[row] == 2.0  # (4 * 4096 + 17 - 2 * 4096) // 4096


def test_coefficients_stay_below_what_hides_a_violation() -> None:
    weights = [[0, 10**12 + 7 * v, 3 * 10**11 + 1] for v in range(5)]
    program = linear_program(knapsack(weights, 2 * 10**12))
    (row,) = budget_rows(program)
    _, values = row_entries(program, row)
    assert 0.5e5 < values.max() <= 1e5
    top = max(max(w) for w in weights)
    assert program.row_upper[row] / values.max() == pytest.approx(2e12 / top, rel=1e-12)


def test_a_budget_that_cannot_bind_has_no_row() -> None:
    assert not len(budget_rows(linear_program(knapsack([[1, 5], [2, 3]], 8))))
    assert len(budget_rows(linear_program(knapsack([[1, 5], [2, 3]], 7)))) == 1


def test_weights_near_int64_do_not_overflow() -> None:
    program = linear_program(knapsack([[0, 2**62], [2**62, 0], [0, 2**62 + 1]], 2**62 + 5))
    (row,) = budget_rows(program)
    _, values = row_entries(program, row)
    assert (values > 0).all()
    assert program.row_upper[row] / values.max() == pytest.approx(1.0)


def memory(price: int | None = None, limit: int = 10) -> PlacementProblem:
    b = ProblemBuilder()
    items = []
    for v, (start, stop) in enumerate([(0, 3), (1, 4), (2, 6), (5, 8), (7, 9)]):
        b.add_variable(f"v{v}", 3, [9, 4, 0])
        items.append((v, start, stop, [1, 3, 6]))
    b.add_interval_budget("memory", items, limit=limit, price=price)
    return b.build()


def test_rows_only_where_the_limit_can_be_exceeded() -> None:
    program = linear_program(memory(), intervals="dense")
    # Live sets: {0,1,2} at 2, {2,3} at 5, {3,4} at 7: three maximal instants, all of which can exceed 10.
    assert len(budget_rows(program)) == 3
    assert len(budget_rows(linear_program(memory(limit=12), intervals="dense"))) == 1
    assert len(budget_rows(linear_program(memory(limit=18), intervals="dense"))) == 0


def test_running_sums_need_fewer_entries_where_much_is_live() -> None:
    b = ProblemBuilder()
    items = []
    for v in range(300):
        b.add_variable(f"v{v}", 4, range(4))
        items.append((v, v, v + 100, [v + 1, 2, 3, 5]))
    b.add_interval_budget("memory", items, limit=1200)
    problem = b.build()
    dense = linear_program(problem, intervals="dense")
    running = linear_program(problem, intervals="running")
    assert running.num_nonzeros * 10 < dense.num_nonzeros
    assert linear_program(problem).num_nonzeros == dense.num_nonzeros  # small enough for the quicker form


def test_soft_budgets_share_one_overuse_column_with_the_price_of_the_peak() -> None:
    program = linear_program(memory(price=7), intervals="dense")
    extra = np.flatnonzero(program.block < 0)
    assert len(extra) == 1
    x = program.encode(np.array([2, 2, 2, 2, 2], dtype=np.int32))
    assert x is not None
    assert program.objective(x) == 7 * 8  # peak of 18 at the instant 2, limit 10


def test_an_overuse_that_costs_nothing_is_left_out() -> None:
    assert not len(budget_rows(linear_program(memory(price=0))))
