"""Removing columns by reduced cost never removes an optimum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder, Reason, SolveContext, SolveParams, evaluate, solve
from berthage.linear import linear_program
from berthage_ilp.fixing import fix_dear


def random_problem(seed: int, *, forbidden: float = 0.0, budget: bool = False) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder(f"random {seed}")
    for i in range(5):
        builder.add_variable(f"v{i}", 3, rng.integers(0, 30, 3))
    for u, v in itertools.combinations(range(5), 2):
        if rng.random() < 0.6:
            costs = rng.integers(0, 12, (3, 3)).astype(float)
            costs[rng.random((3, 3)) < forbidden] = np.inf
            builder.add_pairwise(u, v, costs)
    if budget:
        builder.add_budget("room", {v: rng.integers(0, 9, 3) for v in range(5)}, upper=18)
    return builder.build()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("forbidden", "budget"), [(0.0, False), (0.2, False), (0.1, True)])
def test_optima_survive(seed: int, forbidden: float, budget: bool) -> None:
    problem = random_problem(seed, forbidden=forbidden, budget=budget)
    context = SolveContext(problem, SolveParams())
    stats: dict[str, int | float | str | bool] = {}
    program = linear_program(problem)
    fixed = fix_dear(program, context, stats)
    costs = {x: evaluate(problem, x) for x in itertools.product(range(3), repeat=5)}
    feasible = {x: e.objective for x, e in costs.items() if e.feasible}
    if not feasible:
        return
    optimum = min(feasible.values())
    assert context.best_bound <= optimum
    for x, objective in feasible.items():
        if objective == optimum:
            column = program.encode(np.array(x, dtype=np.int32))
            assert column is not None
            assert (column <= fixed.upper).all()


def test_message_passing_closes_the_gap_on_a_tree() -> None:
    rng = np.random.default_rng(3)
    builder = ProblemBuilder("chain")
    for i in range(8):
        builder.add_variable(f"v{i}", 4, rng.random(4))
    for u, v in itertools.pairwise(range(8)):
        builder.add_pairwise(u, v, rng.random((4, 4)))
    problem = builder.build()
    context = SolveContext(problem, SolveParams())
    stats: dict[str, int | float | str | bool] = {}
    fixed = fix_dear(linear_program(problem), context, stats)
    assert context.best_objective == pytest.approx(context.best_bound, abs=1e-6)
    assert (fixed.upper[fixed.integer] == 0).sum() == stats["fixed_labels"] > 8


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_the_same_with_and_without(seed: int) -> None:
    problem = random_problem(100 + seed, forbidden=0.15, budget=True)
    on, off = (solve(problem, "ilp", options={"fixing": word}, presolve=False) for word in ("on", "off"))
    assert on.termination.reason is off.termination.reason
    assert on.objective == off.objective
    assert on.termination.reason in (Reason.OPTIMAL, Reason.INFEASIBLE)
