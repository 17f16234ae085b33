"""The restriction to what is near a seed, as a pure function; and seeds from a cold and a warm cache."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from berthage import PlacementProblem, ProblemBuilder, Reason, SolveParams, evaluate, load_registry
from berthage.seeding import Seed, SeedCache, possible_labels, restrict, solve_seeded
from berthage.testing import brute_force
from berthage.testing.strategies import assignments, placed_problems
from berthage_split import Projected, SplitDim, SplitOptions

REGISTRY = load_registry()


@st.composite
def seeded_problems(draw: st.DrawFn) -> tuple[PlacementProblem, Seed]:
    """A problem and a seed of it: any assignment, with some witnesses or centres taken away or moved."""
    problem = draw(placed_problems())
    seed = Seed.at(problem, draw(assignments(problem)))
    labels, centres, centred = seed.labels.copy(), seed.centres.copy(), seed.centred.copy()
    for v in range(problem.num_variables):
        match draw(st.integers(0, 5)):
            case 0:
                labels[v] = -1
            case 1:
                labels[v] = -1
                centres[v] = draw(st.integers(0, 2))  # 2 is a coordinate that no label has
            case 2:
                centred[v] = False
    return problem, Seed(labels, centres, centred)


def dims(seed: Seed) -> int:
    return seed.centres.shape[1]


@given(seeded_problems())
def test_the_ball_is_what_the_definition_says(pair: tuple[PlacementProblem, Seed]) -> None:
    problem, seed = pair
    possible = possible_labels(problem)
    for radius in range(dims(seed) + 1):
        near = restrict(problem, seed, radius)
        kept = np.split(near.derived.labels, near.problem.label_ptr[1:-1])
        for v in range(problem.num_variables):
            place = problem.labels(v).coordinates
            everything = list(range(problem.num_labels[v]))
            if not seed.centred[v] or place is None:
                assert kept[v].tolist() == everything
                continue
            far = [sum(a != b for a, b in zip(row, seed.centres[v], strict=True)) for row in place.tolist()]
            start = int(problem.label_ptr[v])
            at_seed = [k for k in everything if far[k] == 0 or k == seed.labels[v]]
            empty = not any(possible[start + k] for k in at_seed)
            wanted = everything if empty else [k for k in everything if far[k] <= radius or k == seed.labels[v]]
            assert kept[v].tolist() == wanted
            assert (problem.variable_names[v] in near.empty) == empty


@given(seeded_problems())
def test_the_seed_is_always_in_and_enough_radius_leaves_nothing_out(pair: tuple[PlacementProblem, Seed]) -> None:
    problem, seed = pair
    for radius in range(dims(seed) + 2):
        near = restrict(problem, seed, radius)
        kept = np.split(near.derived.labels, near.problem.label_ptr[1:-1])
        for v in np.flatnonzero(seed.labels >= 0).tolist():
            assert seed.labels[v] in kept[v]
        if seed.complete:
            assert near.derived.project(seed.labels) is not None
        if radius >= dims(seed):
            assert near.is_whole
            assert near.problem == problem


@given(seeded_problems())
def test_the_objective_falls_as_the_radius_grows(pair: tuple[PlacementProblem, Seed]) -> None:
    problem, seed = pair
    best = math.inf
    for radius in range(dims(seed) + 1):
        near = restrict(problem, seed, radius)
        found = brute_force(near.problem)
        if found.feasible:
            lifted = near.derived.lift(found.assignments[0])
            assert evaluate(problem, lifted).objective == found.objective  # costs are not changed by the restriction
            assert found.objective <= best
            best = found.objective
        else:
            assert best == math.inf
    assert best == brute_force(problem).objective


@given(placed_problems())
@settings(max_examples=20)
def test_a_search_near_a_seed_claims_of_the_whole_only_what_holds(problem: PlacementProblem) -> None:
    truth = brute_force(problem)
    best = float(truth.objective) if truth.feasible else math.inf
    for radius in (0, 1):
        found = solve_seeded(problem, "ilp", radius=radius, seeder_options={"solver": "ilp"}, registry=REGISTRY)
        result = found.result
        assert result.bound <= best + 1e-6 * max(1.0, abs(best))
        if result.termination.reason.value == "optimal":
            assert result.objective is not None
            assert abs(float(result.objective) - best) <= 1e-6 * max(1.0, abs(best))
        if result.termination.reason.value == "infeasible":
            assert not truth.feasible
        if truth.feasible:  # where nothing feasible is near, the radius grows until something is
            assert result.objective is not None
            assert evaluate(problem, result.require()).objective == result.objective


@given(placed_problems())
@settings(max_examples=20)
def test_a_cold_and_a_warm_cache_give_the_same_answer(problem: PlacementProblem) -> None:
    cache, options = SeedCache(), SplitOptions(solver="ilp")
    cold = SplitDim().compose(Projected(problem), SolveParams(), options, REGISTRY, cache)
    solved = cache.misses
    warm = SplitDim().compose(Projected(problem), SolveParams(), options, REGISTRY, cache)
    without = SplitDim().compose(Projected(problem), SolveParams(), options, REGISTRY)
    assert cache.misses == solved
    for other in (warm, without):
        assert (cold[0] is None) == (other[0] is None)
        assert cold[0] is None or np.array_equal(cold[0], other[0])
        assert [each.objective for each in cold[1]] == [each.objective for each in other[1]]


@given(placed_problems())
@settings(max_examples=20)
def test_every_projection_is_a_relaxation(problem: PlacementProblem) -> None:
    truth = brute_force(problem)
    projected = Projected(problem)
    for dimension in range(len(projected.names)):
        part = projected.problem(dimension)
        relaxed = brute_force(part)
        if truth.feasible:
            assert relaxed.feasible
            assert relaxed.objective <= truth.objective + 1e-9 * max(1.0, abs(float(truth.objective)))


def test_two_dimensions_that_each_alone_mislead() -> None:
    """Each coordinate alone can be 0 at no cost, not both: radius 0 misses what radius 1 finds, and proves nothing."""
    builder = ProblemBuilder("pair")
    builder.add_variable("x", 4, [10.0, 0.0, 0.0, 1.0], coordinates=[[0, 0], [0, 1], [1, 0], [1, 1]])
    problem = builder.build()
    at_seed, near = (
        solve_seeded(problem, "ilp", radius=radius, seeder_options={"solver": "ilp"}, registry=REGISTRY)
        for radius in (0, 1)
    )
    assert at_seed.ball is not None
    assert at_seed.ball.termination.reason is Reason.OPTIMAL
    assert (at_seed.result.objective, at_seed.ball.bound) == (10.0, 10.0)
    assert at_seed.result.termination.reason is Reason.FEASIBLE
    assert (at_seed.result.bound, at_seed.lost_at_most) == (0.0, 10.0)
    assert near.result.objective == 0.0
    assert near.result.termination.reason is Reason.OPTIMAL  # the projections bound the whole at 0
