"""Budgets in ``trws``: rows, multipliers and repair, against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder, Reason, evaluate, solve
from berthage.testing import brute_force

pytest.importorskip("numba")

from berthage_trws.budgets import Budgets, compile_budgets
from berthage_trws.engine import Engine
from berthage_trws.lagrange import Dual
from berthage_trws.layout import Layout, compile_layout


def problem_with_intervals(seed: int, *, price: float | None = None, tight: float = 0.5) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder(f"intervals-{seed}")
    n = 7
    for i in range(n):
        cost = rng.integers(0, 20, 3).astype(float)
        if i == 2:
            cost[1] = np.inf
        builder.add_variable(f"v{i}", 3, cost)
        if i:
            builder.add_pairwise(int(rng.integers(i)), i, rng.integers(0, 9, (3, 3)))
    rows = []
    for i in [*range(n), 0, 3]:
        start = int(rng.integers(0, 12))
        rows.append((i, start, start + int(rng.integers(0, 6)), rng.integers(0, 10, 3)))
    total = sum(int(weights.max()) for _, start, stop, weights in rows if stop > start)
    builder.add_interval_budget("memory", rows, limit=int(total * tight / 3), price=price)
    builder.add_budget("count", {i: [0, 1, 2] for i in range(n)}, lower=4, upper=9, price=price)
    return builder.build()


def compiled(problem: PlacementProblem) -> tuple[Layout, Budgets]:
    layout = compile_layout(problem, np.arange(problem.num_variables), False)
    assert isinstance(layout, Layout)
    return layout, compile_budgets(problem, layout)


def random_states(layout: Layout, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = layout.graph.labels.astype(int)
    return [np.array([rng.integers(size) for size in sizes], np.uint64) for _ in range(count)]


def test_rows_give_the_peak_use_of_interval_budgets() -> None:
    for seed in range(10):
        problem = problem_with_intervals(seed)
        layout, budgets = compiled(problem)
        for state in random_states(layout, 20):
            truth = {use.name: use.used for use in evaluate(problem, layout.to_variables(state)).budget_use}
            use = budgets.use(state)
            for b, name in enumerate(budgets.names):
                mine = use[int(budgets.rows.budget_ptr[b]) : int(budgets.rows.budget_ptr[b + 1])]
                assert mine.max(initial=0) == truth[name]


def test_only_instants_that_can_bind_become_rows() -> None:
    builder = ProblemBuilder("nested")
    for name in "abc":
        builder.add_variable(name, 2)
    rows = [("a", 0, 10, [1, 2]), ("b", 2, 8, [1, 2]), ("c", 4, 6, [1, 2])]
    builder.add_interval_budget("memory", rows, limit=5)
    _, budgets = compiled(builder.build())
    assert budgets.instant.tolist() == [4]  # where all three are live


@pytest.mark.parametrize("price", [None, 3.0])
def test_bounds_with_any_multipliers_stay_below_the_optimum(price: float | None) -> None:
    rng = np.random.default_rng(1)
    for seed in range(6):
        problem = problem_with_intervals(seed, price=price)
        truth = brute_force(problem).objective
        layout, budgets = compiled(problem)
        engine = Engine(layout, lambda: False)
        for _ in range(10):
            size = rng.choice([0.0, 1.0, 30.0], budgets.count) * rng.random(budgets.count)
            dual = Dual(budgets, size, np.roll(size, 1))
            dual.project()
            added, magnitude = budgets.unary(dual.rates())
            added = np.pad(added, (0, len(layout.unary) - len(added)))
            magnitude = np.pad(magnitude, (0, len(layout.unary) - len(magnitude)))
            engine.set_unary(layout.unary + added, np.abs(layout.unary) + magnitude)
            engine.sweep()
            offset, slack = dual.offset()
            assert engine.bound() + offset - slack <= truth
            if price is not None:
                for b in range(2):
                    mine = slice(int(budgets.rows.budget_ptr[b]), int(budgets.rows.budget_ptr[b + 1]))
                    for side in (dual.upper, dual.lower):
                        assert (side[mine] / budgets.rows.size[mine]).sum() <= price


@pytest.mark.parametrize("price", [None, 1.5, 40.0])
def test_small_problems_are_solved_close_to_the_optimum(price: float | None) -> None:
    close = 0
    for seed in range(12):
        problem = problem_with_intervals(seed, price=price)
        truth = brute_force(problem).objective
        result = solve(problem, "trws", presolve=False)
        assert result.bound <= truth + 1e-9
        if result.objective is None:
            assert truth == np.inf or result.termination.reason is Reason.NO_SOLUTION_FOUND
            close += truth == np.inf
            continue
        assert result.evaluation is not None
        assert result.evaluation.feasible
        assert result.objective >= truth
        close += result.objective <= truth * 1.02
    assert close >= 10


def test_a_knapsack_ends_within_its_integrality_gap() -> None:
    rng = np.random.default_rng(2)
    builder = ProblemBuilder("knapsack")
    weights, values = rng.integers(10, 60, 30), rng.integers(10, 60, 30)
    for i in range(30):
        builder.add_variable(f"item{i}", ["leave", "take"], [int(values[i]), 0])
    builder.add_budget("load", {i: [0, int(weights[i])] for i in range(30)}, upper=int(weights.sum() // 3))
    problem = builder.build()
    result = solve(problem, "trws")
    best = np.full(int(weights.sum() // 3) + 1, 0)
    for weight, value in zip(weights.tolist(), values.tolist(), strict=True):
        best[weight:] = np.maximum(best[weight:], best[:-weight] + value)
    optimum = int(values.sum() - best[-1])
    assert result.bound <= optimum <= result.objective
    assert result.objective <= optimum + 5
    assert result.bound >= optimum - 60  # one item's value: what the relaxation can lose


def test_a_coupled_budget_is_priced_into_the_bound() -> None:
    rng = np.random.default_rng(4)
    builder = ProblemBuilder("chain under a budget")
    for i in range(40):
        builder.add_variable(f"v{i}", 4, rng.random(4) * 10)
        if i:
            builder.add_pairwise(i - 1, i, rng.random((4, 4)) * 5)
    weights = {i: rng.integers(0, 100, 4) for i in range(40)}
    free = solve(builder.build(), "trws")
    used = sum(int(weights[i][x]) for i, x in enumerate(free.require().tolist()))
    builder.add_budget("load", weights, upper=used // 2)
    result = solve(builder.build(), "trws", presolve=False)
    assert free.objective is not None
    assert result.bound > free.objective + 1
    assert result.relative_gap < 0.03
    assert result.stats["priced_rows"] == 1


def test_the_answer_under_budgets_is_the_same_every_time() -> None:
    problem = problem_with_intervals(3)
    results = [solve(problem, "trws", presolve=False) for _ in range(2)]
    assert results[0].bound == results[1].bound
    assert results[0].stats == results[1].stats
    assert results[0].require().tolist() == results[1].require().tolist()
