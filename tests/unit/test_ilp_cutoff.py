"""A cutoff together with a gap, and a cutoff exactly at the optimum: never "infeasible" where something counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder, Reason, SolveResult, evaluate, solve
from berthage.testing import brute_force

ENGINES = [("ilp-pulp", {}), ("ilp-pulp", {"backend": "cbc"}), ("ilp-pyomo", {})]
IDS = ["pulp-highs", "pulp-cbc", "pyomo-highs"]


@pytest.fixture(params=ENGINES, ids=IDS)
def engine(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    found: tuple[str, dict[str, str]] = request.param
    return found


def run(problem: PlacementProblem, engine: tuple[str, dict[str, str]], **params: float) -> SolveResult:
    return solve(problem, engine[0], options=engine[1], presolve=False, **params)


def clique(seed: int, *, whole: bool, scale: float = 1.0) -> PlacementProblem:
    """Five variables, every two of them joined: the linear relaxation is far from the optimum."""
    rng = np.random.default_rng(seed)

    def costs(*shape: int) -> np.ndarray:
        return rng.integers(0, 100, shape) if whole else scale * rng.random(shape)

    builder = ProblemBuilder("clique")
    variables = [builder.add_variable(f"v{i}", 3, costs(3)) for i in range(5)]
    for i, j in itertools.combinations(range(5), 2):
        builder.add_pairwise(variables[i], variables[j], costs(3, 3))
    return builder.build()


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.5, 100.0])
@pytest.mark.parametrize("seed", [31, 32, 33])
def test_a_gap_does_not_hide_what_meets_the_cutoff(engine: tuple[str, dict[str, str]], seed: int, gap: float) -> None:
    problem = clique(seed, whole=True)
    optimum = brute_force(problem).objective
    for above in (0, 5, 20):
        result = run(problem, engine, cutoff=optimum + above, gap=gap)
        assert result.termination.reason is Reason.OPTIMAL
        assert result.objective is not None
        assert optimum <= result.objective <= optimum + above
        assert result.bound <= optimum
    below = run(problem, engine, cutoff=optimum - 1, gap=gap)
    assert (below.termination.reason, below.assignment) == (Reason.INFEASIBLE, None)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
@pytest.mark.parametrize("seed", range(4))
def test_a_fractional_cutoff_at_the_optimum_is_met(engine: tuple[str, dict[str, str]], seed: int, scale: float) -> None:
    problem = clique(seed, whole=False, scale=scale)
    optimum = evaluate(problem, brute_force(problem).assignments[0]).objective
    result = run(problem, engine, cutoff=optimum)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == optimum
    assert run(problem, engine, cutoff=optimum * (1 - 1e-3)).termination.reason is Reason.INFEASIBLE


def test_costs_that_an_engine_cannot_tell_apart_are_told_apart_by_the_cutoff(
    engine: tuple[str, dict[str, str]],
) -> None:
    step = 2.0**-40
    builder = ProblemBuilder("near ties")
    builder.add_variable("a", 5, [1.0 + 3 * step, 1.0 + step, 1.0, 1.0 + 2 * step, 2.0])
    builder.add_variable("b", 2, [1.0, 1.5])
    builder.add_pairwise("a", "b", [[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]])
    problem = builder.build()
    result = run(problem, engine, cutoff=2.5)
    assert (result.termination.reason, result.objective) == (Reason.OPTIMAL, 2.5)
    missed = run(problem, engine, cutoff=math.nextafter(2.5, 0.0))
    assert missed.assignment is None
    assert missed.termination.reason in (Reason.INFEASIBLE, Reason.NO_SOLUTION_FOUND)
