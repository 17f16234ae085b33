"""Derivations are pure, keep costs, and map back; so do the transformations of the kit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from berthage import InvalidProblemError, PlacementProblem, evaluate
from berthage.testing import brute_force
from berthage.testing.kit.conduct import fingerprint
from berthage.testing.strategies import Costs, Feature, assignments, problems
from berthage.testing.transforms import permuted, relabelled, scaled, shifted, turned

EXACT = (Costs.INTEGER, Costs.EIGHTHS)


@st.composite
def restrictions(draw: st.DrawFn) -> tuple[PlacementProblem, dict[int | str, list[int]], list[int]]:
    problem = draw(problems(min_variables=1))
    kept: dict[int | str, list[int]] = {}
    for v in draw(st.lists(st.integers(0, problem.num_variables - 1), unique=True)):
        some = st.lists(st.integers(0, int(problem.num_labels[v]) - 1), min_size=1, unique=True)
        key = problem.variable_names[v] if draw(st.booleans()) else v
        kept[key] = draw(some)
    return problem, kept, draw(assignments(problem))


@given(restrictions())
def test_restricting_keeps_costs_and_lifts_back(
    case: tuple[PlacementProblem, dict[int | str, list[int]], list[int]],
) -> None:
    problem, kept, chosen = case
    before = fingerprint(problem)
    derived = problem.restrict(kept)
    assert fingerprint(problem) == before
    by_index = {problem.variable_index(k) if isinstance(k, str) else k: ls for k, ls in kept.items()}
    survives = all(chosen[v] in labels for v, labels in by_index.items())
    projected = derived.project(chosen)
    assert (projected is not None) == survives
    if projected is None:
        return
    assert derived.lift(projected).tolist() == chosen
    old, new = evaluate(problem, chosen), evaluate(derived.problem, projected)
    assert old.objective == new.objective
    assert [v.name for v in old.violations] == [v.name for v in new.violations]
    names = [problem.label_name(v, label) for v, label in enumerate(chosen)]
    assert [derived.problem.label_name(v, int(label)) for v, label in enumerate(projected)] == names


@given(restrictions())
def test_a_mask_restricts_like_a_mapping(
    case: tuple[PlacementProblem, dict[int | str, list[int]], list[int]],
) -> None:
    problem, kept, _ = case
    mask = np.ones(len(problem.unary), dtype=bool)
    for key, labels in kept.items():
        v = problem.variable_index(key) if isinstance(key, str) else key
        mask[problem.label_ptr[v] : problem.label_ptr[v + 1]] = False
        mask[problem.label_ptr[v] + np.array(labels)] = True
    assert problem.restrict(mask).problem == problem.restrict(kept).problem


@st.composite
def projections(draw: st.DrawFn) -> tuple[PlacementProblem, list[int], list[int]]:
    problem = draw(problems(min_variables=1))
    variables = draw(st.lists(st.integers(0, problem.num_variables - 1), unique=True))
    return problem, variables, draw(assignments(problem))


@given(projections())
def test_projecting_keeps_what_touches_only_the_kept(
    case: tuple[PlacementProblem, list[int], list[int]],
) -> None:
    problem, variables, chosen = case
    derived = problem.project(variables)
    part = derived.problem
    assert part.variable_names == tuple(problem.variable_names[v] for v in variables)
    projected = derived.project(chosen)
    assert projected is not None
    assert projected.tolist() == [chosen[v] for v in variables]
    assert derived.lift(projected, base=chosen).tolist() == chosen
    if len(variables) < problem.num_variables:
        with pytest.raises(InvalidProblemError, match="base"):
            derived.lift(projected)
    whole, inside = evaluate(problem, chosen), evaluate(part, projected)
    kept = set(variables)
    assert inside.unary.tolist() == [whole.unary[v] for v in variables]
    edges = [
        float(whole.pairwise[e])
        for e in range(problem.num_edges)
        if {int(problem.edge_u[e]), int(problem.edge_v[e])} <= kept
    ]
    assert inside.pairwise.tolist() == edges
    assert set(part.constraint_names) <= set(problem.constraint_names)


@given(problems(features={Feature.RELATIONS, Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS}), st.data())
def test_removed_constraints_are_gone_everywhere(problem: PlacementProblem, data: st.DataObject) -> None:
    names = problem.constraint_names
    assume(names)
    gone = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    derived = problem.without(*gone)
    left = derived.problem
    assert left.constraint_names == tuple(name for name in names if name not in gone)
    chosen = data.draw(assignments(problem))
    violated = {v.name for v in evaluate(problem, chosen).violations if v.kind in ("relation", "budget")}
    still = {v.name for v in evaluate(left, chosen).violations if v.kind in ("relation", "budget")}
    assert still == violated - set(gone)
    assert evaluate(left, chosen).objective == evaluate(problem, chosen).objective
    with pytest.raises(InvalidProblemError, match="no constraint"):
        left.without(gone[0])


@given(problems(), st.data())
def test_without_budgets_drops_exactly_the_budgets(problem: PlacementProblem, data: st.DataObject) -> None:
    left = problem.without_budgets().problem
    assert not left.has_budgets
    assert left.relations.names == problem.relations.names
    chosen = data.draw(assignments(problem))
    penalties = evaluate(problem, chosen).penalties
    if not penalties:
        assert evaluate(left, chosen).objective == evaluate(problem, chosen).objective


@given(problems(costs=EXACT, max_states=300), st.data())
def test_changes_move_the_optimum_as_they_should(problem: PlacementProblem, data: st.DataObject) -> None:
    truth = brute_force(problem)
    order = data.draw(st.permutations(range(problem.num_variables)))
    orders = [data.draw(st.permutations(range(int(k)))) for k in problem.num_labels]
    for changed in (
        scaled(problem, 3),
        shifted(problem, -11),
        turned(problem),
        permuted(problem, order),
        relabelled(problem, orders),
    ):
        found = brute_force(changed.problem)
        assert found.feasible_count == truth.feasible_count
        if truth.feasible:
            assert found.objective == changed.objective(truth.objective)
            theirs = sorted(changed.back(row).tolist() for row in found.assignments)
            assert theirs == sorted(truth.assignments.tolist())


@given(problems(), st.data())
def test_permuting_is_projecting_on_all_variables(problem: PlacementProblem, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(problem.num_variables)))
    ours, core = permuted(problem, order).problem, problem.project(order).problem
    chosen = data.draw(assignments(ours))
    assert evaluate(ours, chosen).objective == evaluate(core, chosen).objective
    assert evaluate(ours, chosen).feasible == evaluate(core, chosen).feasible
