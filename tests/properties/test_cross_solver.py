"""Solvers against each other and against brute force, on the same drawn problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berthage import (
    Capability,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    Registry,
    SolveResult,
    SolverInfo,
    evaluate,
    load_registry,
    solve,
    write_problem,
)
from berthage.testing import brute_force, known_answers, verify_bound, verify_feasible
from berthage.testing.kit.processes import run_child
from berthage.testing.strategies import Costs, Feature, infeasible_problems, problems

TAME = (Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT)
BUDGETS = {Capability.LINEAR_BUDGETS, Capability.INTERVAL_BUDGETS, Capability.SOFT_BUDGETS}


def _usable(registry: Registry) -> list[SolverInfo]:
    return [info for info in registry.solvers if not registry.unavailable_reason(info) and info.capabilities >= BUDGETS]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def _answers(registry: Registry, problem: PlacementProblem, presolve: bool) -> dict[str, SolveResult]:
    found = {
        info.name: solve(problem, info.name, presolve=presolve, time_limit=20, registry=registry)
        for info in _usable(registry)
    }
    if not found:
        pytest.skip("no solver that takes budgets is installed")
    return found


def _agree(registry: Registry, problem: PlacementProblem, presolve: bool) -> None:
    truth = brute_force(problem)
    answers = _answers(registry, problem, presolve)
    slack = 1e-6 * max(1.0, abs(truth.objective)) if truth.feasible else 0.0
    for name, result in answers.items():
        verify_bound(result, truth.objective)
        if result.assignment is not None:
            verify_feasible(problem, result)
            assert result.objective is not None
            assert result.objective >= truth.objective - slack, f"{name} is better than the best"
        if Capability.EXACT in registry.solver(name).capabilities:
            wanted = Reason.OPTIMAL if truth.feasible else Reason.INFEASIBLE
            assert result.termination.reason is wanted, f"{name}: {result.termination}"
    objectives = [r.objective for r in answers.values() if r.objective is not None]
    for name, result in answers.items():
        for objective in objectives:
            assert result.bound <= float(objective) + slack, f"the bound of {name} exceeds another's objective"


@settings(max_examples=15)
@given(problem=problems(costs=TAME, max_states=600), presolve=st.booleans())
def test_solvers_and_brute_force_agree(registry: Registry, problem: PlacementProblem, presolve: bool) -> None:
    _agree(registry, problem, presolve)


@settings(max_examples=10)
@given(
    problem=problems(
        costs=(Costs.INTEGER,),
        features={Feature.LINEAR_BUDGETS, Feature.INTERVAL_BUDGETS, Feature.SOFT_BUDGETS, Feature.RELATIONS},
        min_variables=3,
        max_states=600,
    )
)
def test_solvers_agree_where_constraints_bind(registry: Registry, problem: PlacementProblem) -> None:
    _agree(registry, problem, presolve=False)


@settings(max_examples=8)
@given(
    problem=problems(costs=TAME, max_states=300),
    presolve=st.booleans(),
    gap=st.sampled_from([0.0, 1e-3, 0.5]),
    steps=st.sampled_from([-1, 0, 1]),
)
def test_no_solver_denies_at_a_cutoff_what_another_finds(
    registry: Registry, problem: PlacementProblem, presolve: bool, gap: float, steps: int
) -> None:
    truth = brute_force(problem)
    if not truth.feasible:
        return
    optimum = min(evaluate(problem, x).objective for x in truth.assignments)
    cutoff = optimum + steps
    for info in _usable(registry):
        result = solve(problem, info.name, cutoff=cutoff, gap=gap, presolve=presolve, time_limit=20, registry=registry)
        if result.termination.reason is Reason.INFEASIBLE:
            assert optimum > cutoff, f"{info.name} denies {optimum!r}"
        if result.objective is not None:
            verify_feasible(problem, result)
            assert result.objective <= cutoff, info.name
        verify_bound(result, optimum)


@settings(max_examples=8)
@given(problem=infeasible_problems())
def test_all_say_infeasible(registry: Registry, problem: PlacementProblem) -> None:
    for name, result in _answers(registry, problem, presolve=True).items():
        assert result.assignment is None, name
        if Capability.EXACT in registry.solver(name).capabilities:
            assert result.termination.reason is Reason.INFEASIBLE, name


@pytest.mark.parametrize("case", known_answers(), ids=lambda case: case.name)
def test_every_bound_is_below_every_objective(registry: Registry, case: object) -> None:
    _agree(registry, case.problem, presolve=True)  # type: ignore[attr-defined]


def test_a_solution_of_one_is_a_warm_start_of_another(registry: Registry) -> None:
    case = next(case for case in known_answers() if case.name == "interval-budget")
    for info in _usable(registry):
        result = solve(case.problem, info.name, warm_start=case.assignment, time_limit=20, registry=registry)
        assert result.objective == case.objective, info.name
        assert evaluate(case.problem, result.require()).feasible


def test_presolve_gives_the_same_answer_in_every_process(tmp_path: Path) -> None:
    files = []
    for case in known_answers():
        if not any(table.kind == "lazy" for table in case.problem.tables):
            files.append(str(tmp_path / f"{case.name}.berthage"))
            write_problem(case.problem, files[-1])
    name = next(iter(_usable(load_registry()))).name
    request = {"solver": name, "options": {}, "time_limit": 20, "presolve": True, "files": files}
    answers = [
        run_child("solve", {**request, "threads": threads}, hash_seed=seed) for seed, threads in ((3, 1), (4, 2))
    ]
    assert len(answers[0]) == len(files)
    assert answers[0] == answers[1]


def test_what_rounding_lets_pass_is_an_assignment_like_any_other(registry: Registry) -> None:
    """The cheapest assignment misses its limits by less than `evaluate` forgives: nobody may overlook it."""
    b = ProblemBuilder()
    b.add_variable("a", 2, [-30.0, 0.0])
    b.add_variable("b", 2, [-1.0, 0.0])
    b.add_budget("sum", {"a": [5.0, 4.0], "b": [3.5, 6.25]}, lower=8.500000001, upper=11.5)
    b.add_interval_budget("peak", [("a", 0, 2, [2.5, 1.0]), ("b", 1, 3, [1.0, 0.5])], limit=3.499999999)
    _agree(registry, b.build(), presolve=False)
    assert brute_force(b.build()).assignments.tolist() == [[0, 0]]
