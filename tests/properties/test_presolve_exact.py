"""The reductions of the plugin `presolve`, each alone and all together, against brute force on drawn problems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berthage import PlacementProblem, ProblemBuilder, evaluate
from berthage.testing import brute_force
from berthage.testing.strategies import Costs, Feature, problems

presolve = pytest.importorskip("berthage_presolve.presolve")
engine = pytest.importorskip("berthage_presolve.engine")

ALL = presolve.Presolve.rules
RULES = [ALL, *((name,) for name in ALL), ("merge-ties", "eliminate"), ("single-labels", "components")]
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def exactly(problem: PlacementProblem, rules: tuple[str, ...]) -> None:
    """Same optimum; lifting keeps costs; projecting an optimum gives an optimum."""
    truth = brute_force(problem)
    reduced = engine.reduce_problem(problem, rules)
    if reduced.infeasibility is not None:
        assert not truth.feasible, reduced.infeasibility
        known = {*problem.constraint_names, *problem.variable_names}
        assert set(reduced.infeasibility.constraints) <= known
        assert set(reduced.infeasibility.live) <= set(problem.variable_names)
        return
    parts = [brute_force(part) for part in reduced.parts]
    assert all(part.feasible for part in parts) == truth.feasible
    if not truth.feasible:
        return
    slack = reduced.bound_error + 1e-12 * max(1.0, abs(truth.objective))
    assert sum(part.objective for part in parts) == pytest.approx(truth.objective, abs=slack, rel=0)
    for pick in (0, -1):
        chosen = [part.assignments[pick] for part in parts]
        lifted = evaluate(problem, reduced.lift(chosen))
        assert lifted.feasible, lifted.violations
        assert lifted.objective == pytest.approx(truth.objective, abs=slack, rel=0)
    if problem.is_integral:
        assert reduced.bound_error == 0
        assert sum(part.objective for part in parts) == truth.objective
    projected = reduced.project(truth.assignments[-1])
    assert projected is not None
    checked = [evaluate(part, labels) for part, labels in zip(reduced.parts, projected, strict=True)]
    assert all(part.feasible for part in checked)
    assert sum(part.objective for part in checked) == pytest.approx(truth.objective, abs=slack, rel=0)


@pytest.mark.parametrize("rules", RULES, ids="+".join)
def test_reductions_are_exact(rules: tuple[str, ...]) -> None:
    @SLOW
    @given(problem=problems(max_states=600))
    def check(problem: PlacementProblem) -> None:
        exactly(problem, rules)

    check()


@SLOW
@given(
    problem=problems(
        features=[Feature.INFINITIES, Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS, Feature.SOFT_BUDGETS],
        costs=[Costs.FLAT, Costs.INTEGER],
        min_variables=3,
        max_states=600,
    )
)
def test_budgets_with_ties_of_cost_are_exact(problem: PlacementProblem) -> None:
    exactly(problem, ALL)


@st.composite
def tied(draw: st.DrawFn) -> PlacementProblem:
    """Chains and cycles of ties, maps onto fewer labels and sparse pair relations, with edges across and a budget."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    b = ProblemBuilder("tied")
    count = draw(st.integers(3, 7))
    sizes = rng.integers(2, 4, count)
    for i in range(count):
        b.add_variable(f"v{i}", int(sizes[i]), rng.integers(0, 9, sizes[i]))
    for i in range(draw(st.integers(2, 6))):
        u, v = (int(x) for x in rng.choice(count, 2, replace=False))
        if draw(st.booleans()):
            b.tie(u, v, rng.integers(-1, sizes[v], sizes[u]).tolist(), name=f"tie {i}")
        else:
            b.allow_pairs(u, v, rng.random((sizes[u], sizes[v])) < 0.45, name=f"pairs {i}")
    for _ in range(draw(st.integers(0, 8))):
        u, v = (int(x) for x in rng.choice(count, 2, replace=False))
        b.add_pairwise(u, v, rng.integers(0, 9, (sizes[u], sizes[v])), multiplicity=int(rng.integers(1, 4)))
    if draw(st.booleans()):
        rows = [
            (int(v), int(t), int(t + 2), rng.integers(0, 5, sizes[v]).tolist())
            for t, v in enumerate(rng.permutation(count))
        ]
        b.add_interval_budget("memory", rows, limit=draw(st.integers(2, 9)))
    return b.build()


@SLOW
@given(problem=tied())
def test_ties_and_sparse_relations_are_exact(problem: PlacementProblem) -> None:
    exactly(problem, ALL)


@SLOW
@given(problem=problems(max_states=600), seed=st.integers(0, 2**16))
def test_every_assignment_of_the_parts_lifts_to_one_of_its_cost(problem: PlacementProblem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    reduced = engine.reduce_problem(problem, ALL)
    if reduced.infeasibility is not None:
        return
    chosen = [rng.integers(0, part.num_labels).astype(np.int32) for part in reduced.parts]
    evaluations = [evaluate(part, labels) for part, labels in zip(reduced.parts, chosen, strict=True)]
    total = math.fsum(evaluation.objective for evaluation in evaluations)
    lifted = evaluate(problem, reduced.lift(chosen))
    if all(evaluation.feasible for evaluation in evaluations):
        assert lifted.feasible
        assert lifted.objective == pytest.approx(total, abs=reduced.bound_error + 1e-12 * max(1.0, abs(total)), rel=0)


@SLOW
@given(problem=problems(max_states=600))
def test_reducing_again_and_reducing_twice_say_the_same(problem: PlacementProblem) -> None:
    first, second = engine.reduce_problem(problem, ALL), engine.reduce_problem(problem, ALL)
    assert [part.digest for part in first.parts] == [part.digest for part in second.parts]
    assert first.report == second.report
