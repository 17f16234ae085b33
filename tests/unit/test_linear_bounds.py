"""Bounds from duals, costs of very different size, scaling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder
from berthage.linear import cost_levels, dual_bound, linear_program, objective_factor
from berthage.testing import brute_force


def chain(seed: int, size: float = 1.0, digits: int | None = None) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    b = ProblemBuilder()

    def costs(*shape: int) -> np.ndarray:
        drawn = rng.normal(size=shape) * size
        return drawn if digits is None else np.round(drawn, digits)

    for v in range(5):
        b.add_variable(f"v{v}", 3, costs(3), multiplicity=1 + v % 2)
    for u, v in [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3), (1, 3)]:
        b.add_pairwise(u, v, costs(3, 3))
    return b.build()


@pytest.mark.parametrize("seed", range(25))
def test_any_duals_give_a_valid_bound(seed: int) -> None:
    problem = chain(seed)
    program = linear_program(problem)
    optimum = brute_force(problem).objective
    assert optimum is not None
    rng = np.random.default_rng(seed)
    bounds = [dual_bound(program, scale * rng.normal(size=program.num_rows)) for scale in (0, 0.01, 1, 1e6)]
    assert all(bound <= optimum for bound in bounds)
    assert math.isfinite(bounds[0])


def test_duals_that_are_not_numbers_give_no_more_than_the_trivial_bound() -> None:
    program = linear_program(chain(1))
    trivial = dual_bound(program, np.zeros(program.num_rows))
    assert dual_bound(program, np.full(program.num_rows, np.nan)) == trivial
    assert dual_bound(program, np.full(program.num_rows, np.inf)) == trivial


def test_the_bound_of_a_tree_is_exact_up_to_the_rounding_it_allows_for() -> None:
    b = ProblemBuilder()
    for name, costs in (("a", [0.1, 0.2]), ("b", [0.7, 0.3])):
        b.add_variable(name, 2, costs)
    program = linear_program(b.build())
    bound = dual_bound(program, np.zeros(program.num_rows))
    assert bound <= 0.1 + 0.3
    assert bound == pytest.approx(0.4, abs=1e-14)


def test_integers_lose_nothing() -> None:
    b = ProblemBuilder()
    for v in range(50):
        b.add_variable(f"v{v}", 2, [10**9 + v, 10**9])
    program = linear_program(b.build())
    assert not program.cost_error.any()
    assert dual_bound(program, np.zeros(program.num_rows)) == pytest.approx(50 * 10**9, abs=1e-3)
    assert program.bound_of(0.0) == 50 * 10**9


def test_ordinary_costs_are_one_level() -> None:
    assert cost_levels(linear_program(chain(3, 1e4))) == (math.inf,)
    assert objective_factor(linear_program(chain(3, 1e4))) == 1.0


def test_a_huge_cost_is_a_level_of_its_own() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3, [1, 2, 1e308])
    b.add_variable("b", 3, [1e-3, 1e120, 5])
    levels = cost_levels(linear_program(b.build()))
    assert len(levels) == 3
    assert 5 < levels[0] < 1e120 <= levels[1] * 4
    assert levels[2] == math.inf
    part = linear_program(b.build()).without_costs_above(levels[0])
    assert part.upper.tolist() == [1, 1, 0, 1, 0, 1]
    assert part.cost.max() < 10


def test_sums_of_huge_costs_stay_finite() -> None:
    b = ProblemBuilder()
    for v in range(4):
        b.add_variable(f"v{v}", 2, [1e308, 1.5e308], multiplicity=3)
    b.add_pairwise(0, 1, [[1e308, -1e308], [0, 1.7e308]])
    program = linear_program(b.build())
    assert program.scale < 1.0
    assert np.isfinite(program.cost).all()
    assert np.isfinite(program.offset)


@pytest.mark.parametrize("size", [1e-14, 1e-6, 1.0, 1e12])
def test_scaling_brings_costs_into_the_reach_of_tolerances(size: float) -> None:
    program = linear_program(chain(4, size))
    scaled = program.cost * objective_factor(program)
    assert 0.1 <= np.median(scaled[scaled > 0]) <= 2.0**18
    assert scaled.max() <= 2.0**30
