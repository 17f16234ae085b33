"""Checks of what a solver answers: known answers, brute force, and changes whose effect is known."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from berthage import Capability, LazyTable, PlacementProblem, ProblemBuilder, Reason
from berthage.testing.kit.checks import Check, check
from berthage.testing.kit.solver_kit import SolverKit
from berthage.testing.known import KnownAnswer, known_answers
from berthage.testing.lazy import ArrayOracle
from berthage.testing.oracle import brute_force
from berthage.testing.strategies import Costs, Feature, infeasible_problems, problems, trees
from berthage.testing.transforms import Transformed, permuted, relabelled, scaled, shifted, turned
from berthage.testing.verify import verify_feasible

__all__ = ["ANSWER_CHECKS"]

_TAME = (Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT)


@check(cases=known_answers)
def known_answer(kit: SolverKit, case: KnownAnswer) -> None:
    """A problem whose answer is known by hand."""
    kit.skip_unless_taken(case.problem)
    result = kit.solve(case.problem)
    kit.judge(case.problem, brute_force(case.problem), result)
    if kit.exact and case.assignment is not None:
        assert result.require().tolist() == list(case.assignment)


@check(given=lambda kit: problems(features=kit.features, costs=_TAME), share=2.0)
def agrees_with_brute_force(kit: SolverKit, problem: PlacementProblem) -> None:
    """On problems of every kind: valid always, right if exact."""
    kit.judge(problem, brute_force(problem), kit.solve(problem))


@check(given=lambda kit: trees())
def solves_trees(kit: SolverKit, problem: PlacementProblem) -> None:
    """On trees without constraints, where relaxations are tight."""
    kit.judge(problem, brute_force(problem), kit.solve(problem))


@check(given=lambda kit: infeasible_problems(features=kit.features))
def infeasible_is_named(kit: SolverKit, problem: PlacementProblem) -> None:
    """A problem that nothing satisfies never gets an assignment, and infeasible comes with a reason."""
    kit.judge(problem, brute_force(problem), kit.solve(problem))


@check(given=lambda kit: problems(features=kit.features, costs=(Costs.BIG,), max_variables=4), share=0.5)
def takes_integers_beyond_floats(kit: SolverKit, problem: PlacementProblem) -> None:
    """Integer costs beyond 2^53: objectives are exact, bounds are valid within the tolerance."""
    truth = brute_force(problem)
    result = kit.solve(problem)
    if result.termination.reason is Reason.NUMERICAL_ERROR:
        return  # an honest answer where float arithmetic cannot tell the labels apart
    kit.judge(problem, truth, result)


@check(
    needs=(Capability.SOFT_BUDGETS,),
    given=lambda kit: problems(
        features=kit.features & {Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS, Feature.SOFT_BUDGETS},
        costs=(Costs.FLAT, Costs.INTEGER),
        min_variables=2,
    ),
)
def prices_soft_budgets(kit: SolverKit, problem: PlacementProblem) -> None:
    """Soft budgets may be exceeded at their price; the price is part of the objective."""
    kit.judge(problem, brute_force(problem), kit.solve(problem))


@check(given=lambda kit: problems(features=kit.features, costs=(Costs.INTEGER, Costs.EIGHTHS)), share=0.5)
def presolve_changes_nothing(kit: SolverKit, problem: PlacementProblem) -> None:
    """With and without the installed reductions the answer is valid; equal if exact."""
    truth = brute_force(problem)
    for presolve in (False, True):
        kit.judge(problem, truth, kit.solve(problem, presolve=presolve))


@st.composite
def _changed(draw: st.DrawFn, kit: SolverKit) -> tuple[PlacementProblem, Transformed]:
    problem = draw(problems(features=kit.features, costs=(Costs.INTEGER, Costs.EIGHTHS)))
    match draw(st.sampled_from(["scale", "shift", "turn", "permute", "relabel"])):
        case "scale":
            return problem, scaled(problem, draw(st.sampled_from([2, 3, 64])))
        case "shift":
            return problem, shifted(problem, draw(st.sampled_from([-5, 1, 1000])))
        case "turn":
            return problem, turned(problem)
        case "permute":
            return problem, permuted(problem, draw(st.permutations(range(problem.num_variables))))
        case _:
            orders = [draw(st.permutations(range(int(k)))) for k in problem.num_labels]
            return problem, relabelled(problem, orders)


@check(given=lambda kit: _changed(kit))
def changes_act_as_they_should(kit: SolverKit, pair: tuple[PlacementProblem, Transformed]) -> None:
    """Scaling, shifting, turning edges, permuting variables and labels change the answer as they should."""
    problem, changed = pair
    truth = brute_force(problem)
    result = kit.solve(changed.problem)
    moved = brute_force(changed.problem)
    assert moved.feasible == truth.feasible
    if truth.feasible:
        assert np.isclose(moved.objective, changed.objective(truth.objective), rtol=1e-9, atol=1e-9)
    kit.judge(changed.problem, moved, result)


@check()
def enormous_costs_are_survived(kit: SolverKit) -> None:
    """A cost of 1e308 is a cost like any other: the right answer, or an answer that admits defeat."""
    b = ProblemBuilder("enormous")
    b.add_variable("a", 2, [1e308, 1.0])
    b.add_variable("b", 2, [0.0, 1.0])
    b.add_pairwise("a", "b", [[0.0, 0.0], [3.0, 0.5]])
    problem = b.build()
    result = kit.solve(problem)
    allowed = {Reason.OPTIMAL, Reason.FEASIBLE, Reason.NO_SOLUTION_FOUND, Reason.NUMERICAL_ERROR}
    allowed.add(Reason.NOT_INTEGRAL)
    assert result.termination.reason in allowed, f"1e308 is finite, yet: {result.termination}"
    assert result.bound <= 2.5 * (1 + kit.tolerance)
    if result.assignment is not None:
        verify_feasible(problem, result)
    if result.termination.reason is Reason.OPTIMAL:
        assert result.objective == 2.5


@check(needs=(Capability.LAZY_TABLES,))
def lazy_tables_are_not_priced_whole(kit: SolverKit) -> None:
    """Where cheap bounds rule out nearly every pair, most entries of a lazy table are never priced."""
    size = 60
    table = LazyTable(ArrayOracle(np.random.default_rng(0).random((size, size)), slack=1.0))
    b = ProblemBuilder("lazy")
    b.add_variable("a", size, [10.0 * label for label in range(size)])
    b.add_variable("b", size, [10.0 * label for label in range(size)])
    b.add_pairwise("a", "b", table)
    result = kit.solve(b.build())
    assert table.calls <= size * size // 2, f"{table.calls} of {size * size} entries were priced"
    if kit.exact:
        assert result.require().tolist() == [0, 0]


ANSWER_CHECKS: tuple[Check, ...] = (
    known_answer,
    agrees_with_brute_force,
    solves_trees,
    infeasible_is_named,
    takes_integers_beyond_floats,
    prices_soft_budgets,
    presolve_changes_nothing,
    changes_act_as_they_should,
    enormous_costs_are_survived,
    lazy_tables_are_not_priced_whole,
)
