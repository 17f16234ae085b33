"""`evaluate` against an evaluator that shares nothing with it, and against the vectorised oracle."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berthage import LazyTable, PlacementProblem, evaluate, lower_relations
from berthage.testing import brute_force, reference_evaluate
from berthage.testing.oracle import all_assignments, price_all
from berthage.testing.strategies import Costs, assignments, infeasible_problems, problems


@st.composite
def problems_with_assignments(draw: st.DrawFn, **kinds: object) -> tuple[PlacementProblem, list[int]]:
    problem = draw(problems(**kinds))  # type: ignore[arg-type]
    return problem, draw(assignments(problem))


@given(problems_with_assignments())
def test_evaluate_agrees_with_exact_sums(pair: tuple[PlacementProblem, list[int]]) -> None:
    problem, chosen = pair
    ours, theirs = evaluate(problem, chosen), reference_evaluate(problem, chosen)
    assert ours.feasible == theirs.feasible
    broken = {v.name for v in ours.violations if v.kind in ("relation", "budget")}
    assert broken == theirs.violated
    assert math.isinf(ours.objective) == theirs.forbidden
    if theirs.cost is None:
        return
    if problem.is_integral:
        assert type(ours.objective) is int
        assert ours.objective == theirs.cost
    else:
        assert math.isclose(ours.objective, theirs.objective, rel_tol=1e-12, abs_tol=1e-9)


@given(problems_with_assignments(costs=(Costs.INTEGER, Costs.EIGHTHS)))
def test_the_breakdown_adds_up_to_the_objective(pair: tuple[PlacementProblem, list[int]]) -> None:
    problem, chosen = pair
    found = evaluate(problem, chosen)
    terms = [*found.unary, *found.pairwise, *found.penalties.values(), problem.constant]
    assert math.fsum(float(t) for t in terms) == found.objective
    assert len(found.budget_use) == len(problem.linear_budgets) + len(problem.interval_budgets)


@given(problems(max_states=150))
def test_the_oracle_prices_like_evaluate(problem: PlacementProblem) -> None:
    everything = all_assignments(problem)
    costs, feasible = price_all(problem, everything)
    for row, cost, alive in zip(everything, costs, feasible, strict=True):
        found = evaluate(problem, row)
        assert found.feasible == alive
        if alive and problem.is_integral:
            assert int(cost) == found.objective
        elif alive:
            assert math.isclose(cost, found.objective, rel_tol=1e-9, abs_tol=1e-9)


@given(infeasible_problems())
def test_planted_contradictions_are_infeasible(problem: PlacementProblem) -> None:
    assert not brute_force(problem).feasible


@given(problems_with_assignments())
def test_lowered_relations_mean_the_same(pair: tuple[PlacementProblem, list[int]]) -> None:
    problem, chosen = pair
    lowered = lower_relations(problem)
    assert not lowered.has_relations
    before, after = evaluate(problem, chosen), evaluate(lowered, chosen)
    assert before.feasible == after.feasible
    if before.feasible:
        assert before.objective == after.objective


@given(problems_with_assignments())
def test_lazy_tables_price_no_more_than_asked(pair: tuple[PlacementProblem, list[int]]) -> None:
    problem, chosen = pair
    lazy = [t for t in problem.tables if isinstance(t, LazyTable)]
    before = [t.calls for t in lazy]
    evaluate(problem, chosen)
    uses = [int((problem.edge_table == i).sum()) for i, t in enumerate(problem.tables) if isinstance(t, LazyTable)]
    for table, was, most in zip(lazy, before, uses, strict=True):
        assert table.calls - was <= most
    again = [t.calls for t in lazy]
    evaluate(problem, chosen)
    assert [t.calls for t in lazy] == again, "prices are remembered"


@given(problems(max_states=100))
def test_tables_answer_alike_however_they_are_asked(problem: PlacementProblem) -> None:
    for table in problem.tables:
        rows, cols = table.shape
        dense = table.to_dense()
        assert dense.shape == (rows, cols)
        assert not dense.flags.writeable
        assert np.array_equal(table.lookup(np.arange(rows)[:, None], np.arange(cols)[None, :]), dense)
        assert table.lower_bound() <= dense.min()
        assert np.array_equal(table.transpose().to_dense(), dense.T)
        some_rows, some_cols = np.arange(rows)[::-1][:2], np.arange(cols)[::2]
        assert np.array_equal(table.take(some_rows, some_cols).to_dense(), dense[np.ix_(some_rows, some_cols)])
        assert np.array_equal(table.take(None, some_cols).transpose().to_dense(), dense[:, some_cols].T)
