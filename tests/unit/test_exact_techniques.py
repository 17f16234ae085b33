"""Each technique of ``exact`` by itself, against all assignments of small problems."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from berthage import PlacementProblem, ProblemBuilder, SolveContext, SolveParams, evaluate, lower_relations
from berthage.testing import brute_force
from berthage.testing.oracle import all_assignments
from berthage.testing.strategies import Costs, Feature, problems

pytest.importorskip("numba")

from berthage_exact.consistency import prepare, refresh
from berthage_exact.elimination import eliminate, find_order
from berthage_exact.network import Network, build_network
from berthage_exact.state import FORBIDDEN, TOP, State, make_state, places
from berthage_exact.target import Target
from berthage_exact.tree import Ending, TreeSearch
from berthage_trws import Relaxation

TAME = (Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT)
PAIRWISE = {Feature.INFINITIES, Feature.MULTIPLICITIES, Feature.CLASSED_TABLES}
BUDGETED = PAIRWISE | {Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS}
SOON = settings(max_examples=40, deadline=None)


def relaxed(problem: PlacementProblem, rng: np.random.Generator) -> Relaxation:
    """Messages drawn at random: whatever they are, the network must be equivalent."""
    sizes = [int(problem.num_labels[ends].sum()) for ends in (problem.edge_u, problem.edge_v)]
    to_u, to_v = (rng.normal(scale=3.0, size=size) for size in sizes)
    return Relaxation(problem, -math.inf, False, False, "", None, 0, to_u, to_v, None)


def network_of(problem: PlacementProblem, seed: int = 0, upper: float = math.inf) -> Network:
    rng = np.random.default_rng(seed)
    return build_network(relaxed(problem, rng), np.isfinite(problem.unary), upper)


def started(network: Network, top: int = 1 << 58) -> tuple[State, bool]:
    state = make_state(network.net, network.unary, 1 << 59)
    fits = bool(prepare(network.net, state, network.rates, network.messages))
    state.ctl[TOP] = top
    return state, fits and bool(refresh(network.net, state))


def places_of(network: Network, problem: PlacementProblem, assignment: Any) -> list[int] | None:
    """Labels of the network for an assignment; None when one was left out."""
    net, found = network.net, []
    for i, label in enumerate(np.asarray(assignment).tolist()):
        mine = network.label[net.ptr[i] : net.ptr[i + 1]].tolist()
        if label not in mine:
            return None
        found.append(mine.index(label))
    return found


def total(network: Network, x: Any, labels: list[int]) -> int:
    """Cost of an assignment in units, read from the arrays of a state; `FORBIDDEN` and more when forbidden."""
    net = network.net
    cost = int(x[-1]) + sum(int(x[net.ptr[i] + a]) for i, a in enumerate(labels))
    for e in range(len(net.u)):
        a, b = labels[net.u[e]], labels[net.v[e]]
        cell = int(net.cells[net.cell[e] + a * net.step_u[e] + b * net.step_v[e]])
        cost += cell - int(x[net.out_u[e] + a]) - int(x[net.out_v[e] + b]) if cell < FORBIDDEN else FORBIDDEN
    return cost


def lowered(problem: PlacementProblem) -> PlacementProblem:
    problem = lower_relations(problem)
    assume(problem.num_variables > 0)
    ptr = problem.label_ptr
    assume(all(np.isfinite(problem.unary[a:b]).any() for a, b in pairwise(ptr)))
    return problem


@SOON
@given(problems(features=PAIRWISE, costs=TAME, max_states=300))
def test_whole_numbers_understate_a_cost_and_hardly(drawn: PlacementProblem) -> None:
    problem = lowered(drawn)
    network = network_of(problem)
    x = np.zeros(places(network.net), np.int64)
    x[: len(network.unary)] = network.unary
    for assignment in all_assignments(problem):
        found = evaluate(problem, assignment)
        labels = places_of(network, problem, assignment)
        if not found.feasible or labels is None:
            assert labels is None or total(network, x, labels) >= FORBIDDEN
            continue
        bound = network.cost(total(network, x, labels))
        assert bound <= found.objective
        scale = max(1.0, float(np.abs(problem.unary[np.isfinite(problem.unary)]).max(initial=0.0)))
        assert found.objective - bound <= network.terms / network.scale + 1e-9 * scale * network.terms


@SOON
@given(problems(features=PAIRWISE, costs=TAME, max_states=300), st.integers(0, 9))
def test_moving_costs_changes_no_assignment(drawn: PlacementProblem, seed: int) -> None:
    problem = lowered(drawn)
    network = network_of(problem, seed)
    before = np.zeros(places(network.net), np.int64)
    before[: len(network.unary)] = network.unary
    state, fits = started(network)
    net = network.net
    sizes = np.diff(net.ptr) * 0 + state.x[len(state.x) - len(net.ptr) : -1]
    alive = state.where < np.repeat(sizes, np.diff(net.ptr))
    for assignment in all_assignments(problem):
        labels = places_of(network, problem, assignment)
        if labels is None:
            continue
        cost = total(network, before, labels)
        stays = fits and all(alive[net.ptr[i] + a] for i, a in enumerate(labels))
        assert stays or cost >= FORBIDDEN
        if stays and cost < FORBIDDEN:
            assert total(network, state.x, labels) == cost
    if fits:
        assert (state.x[: net.ptr[-1]][alive] >= 0).all(), "consistent costs are not negative"


@SOON
@given(problems(features=PAIRWISE, costs=TAME, max_states=300), st.integers(0, 9))
def test_fixing_keeps_everything_below_the_target(drawn: PlacementProblem, seed: int) -> None:
    problem = lowered(drawn)
    truth = brute_force(problem)
    assume(truth.feasible)
    upper = float(truth.objective) + 0.1
    network = network_of(problem, seed, upper)
    state, fits = started(network, network.units(upper))
    assert fits, "the optimum costs less than the target"
    assert network.cost(int(state.x[-1])) <= truth.objective + 1e-9 * max(1.0, abs(truth.objective))
    for assignment in all_assignments(problem):
        if evaluate(problem, assignment).objective != truth.objective:
            continue
        best = places_of(network, problem, assignment)
        assert best is not None
        for i, a in enumerate(best):
            assert a in state.labels[network.net.ptr[i] :][: state.x[len(state.x) - len(network.net.ptr) + i]]


@SOON
@given(problems(features=BUDGETED, costs=TAME, max_states=300), st.integers(0, 9))
def test_multipliers_raise_no_feasible_assignment(drawn: PlacementProblem, seed: int) -> None:
    problem = lowered(drawn)
    truth = brute_force(problem)
    rng = np.random.default_rng(seed)
    network = build_network(relaxed(problem, rng), np.isfinite(problem.unary), math.inf)
    network.rates[:] = (rng.random(len(network.rates)) * np.minimum(network.net.most, 1 << 40)).astype(np.int64)
    before = np.zeros(places(network.net), np.int64)
    before[: len(network.unary)] = network.unary
    state, fits = started(network)
    assert fits or not truth.feasible
    for assignment in all_assignments(problem) if fits else ():
        labels = places_of(network, problem, assignment)
        if labels is not None and evaluate(problem, assignment).feasible:
            assert total(network, state.x, labels) <= total(network, before, labels)


@SOON
@given(problems(features=PAIRWISE, costs=TAME, max_states=300), st.integers(0, 9))
def test_elimination_finds_the_least_cost(drawn: PlacementProblem, seed: int) -> None:
    problem = lowered(drawn)
    truth = brute_force(problem)
    network = network_of(problem, seed)
    state, fits = started(network)
    if not fits:
        assert not truth.feasible
        return
    order = find_order(network.net, state, 1 << 20)
    assert order is not None
    assert sorted(order.variables) == list(range(problem.num_variables))
    found = eliminate(network.net, state, order, lambda: False)
    assert found is not None
    units, labels = found
    assert (units < FORBIDDEN) == truth.feasible
    if truth.feasible:
        chosen = network.label[network.net.ptr[:-1] + labels]
        assert evaluate(problem, chosen).objective == pytest.approx(truth.objective, rel=1e-9, abs=1e-9)
        assert network.cost(int(state.x[-1]) + units) == pytest.approx(truth.objective, rel=1e-9, abs=1e-9)


def frustrated(variables: int = 9, labels: int = 3, seed: int = 5) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder("frustrated")
    for i in range(variables):
        builder.add_variable(f"v{i}", labels, rng.integers(0, 5, labels))
    for i in range(variables):
        for j in range(i):
            builder.add_pairwise(j, i, rng.integers(0, 30, (labels, labels)))
    return builder.build()


def searched(problem: PlacementProblem, memory: int, *, short_trail: bool = False) -> tuple[TreeSearch, SolveContext]:
    context = SolveContext(problem, SolveParams())
    network = network_of(problem)
    state, fits = started(network)
    assert fits
    if short_trail:
        few = np.zeros(2 * len(state.x) + 9, np.int64)
        state = state._replace(trail_at=few, trail_was=few.copy())
    search = TreeSearch(network, state, context, Target(context, problem.is_integral), memory)
    assert search.run(None) in (Ending.SEARCHED, Ending.FINER)
    return search, context


@pytest.mark.parametrize("memory", [0, 1 << 20])
@pytest.mark.parametrize("short_trail", [False, True])
def test_the_search_is_exact_with_and_without_room_for_open_nodes(memory: int, short_trail: bool) -> None:
    problem = frustrated()
    search, context = searched(problem, memory, short_trail=short_trail)
    assert context.best_objective == brute_force(problem).objective
    assert search.nodes > 10, "the problem was meant to need a search"
    assert search.peak <= 2000 if memory == 0 else search.peak > 0


def test_a_search_that_is_cut_short_has_the_bound_of_what_is_open() -> None:
    problem = frustrated(10)
    context = SolveContext(problem, SolveParams())
    network = network_of(problem)
    state, _ = started(network)
    search = TreeSearch(network, state, context, Target(context, True), 1 << 20)
    assert search.run(3) is Ending.STOPPED
    assert network.cost(search.bound()) <= brute_force(problem).objective


def test_a_wide_network_is_not_eliminated() -> None:
    network = network_of(frustrated(12, 4))
    state, _ = started(network)
    assert find_order(network.net, state, 1 << 12) is None
