"""The plugin `presolve` as core sees it: registered rules, the chain, the way back inside `solve`."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder, Reason, SolverOutcome, Termination, load_registry, solve
from berthage.testing import brute_force

pytest.importorskip("berthage_presolve")
engine = pytest.importorskip("berthage_presolve.engine")


def by_brute_force(problem: PlacementProblem, *_: object) -> SolverOutcome:
    """A solver that tries everything."""
    truth = brute_force(problem)
    if not truth.feasible:
        return SolverOutcome(Termination(Reason.INFEASIBLE))
    return SolverOutcome(Termination(Reason.OPTIMAL), truth.assignments[0], float(truth.objective))


def two_islands() -> PlacementProblem:
    b = ProblemBuilder("two islands")
    rng = np.random.default_rng(3)
    for island in "ab":
        for i in range(4):
            b.add_variable(f"{island}{i}", 2, rng.integers(0, 9, 2))
        for i in range(4):
            for j in range(i):
                b.add_pairwise(f"{island}{i}", f"{island}{j}", rng.integers(0, 9, (2, 2)))
        weights = {f"{island}{i}": rng.integers(1, 5, 2) for i in range(4)}
        b.add_budget(f"budget {island}", weights, upper=11)
    return b.build()


def test_only_the_combined_reduction_runs_by_default() -> None:
    mine = [info for info in load_registry().reductions if info.target.startswith("berthage_presolve.")]
    assert {info.name for info in mine if info.default} == {"presolve"}
    assert {info.name for info in mine if not info.default} == {*engine.RULES, engine.COMPONENTS}


@pytest.mark.parametrize("presolve", [True, ["components"], ["dominated-labels", "eliminate", "components"], False])
def test_solve_gives_the_same_answer_with_any_reductions(presolve: bool | list[str]) -> None:
    problem = two_islands()
    result = solve(problem, by_brute_force, presolve=presolve)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == result.bound == brute_force(problem).objective
    named = {name for name, _ in result.reductions}
    assert named == ({"presolve"} if presolve is True else set(presolve or []))


def test_components_are_solved_one_by_one() -> None:
    seen: list[tuple[str, ...]] = []

    def watching(problem: PlacementProblem, *rest: object) -> SolverOutcome:
        seen.append(problem.variable_names)
        return by_brute_force(problem, *rest)

    solve(two_islands(), watching, presolve=["components"])
    assert sorted(seen) == [("a0", "a1", "a2", "a3"), ("b0", "b1", "b2", "b3")]


def test_infeasibility_found_before_any_solver_names_the_constraints() -> None:
    b = ProblemBuilder("clash")
    for name in "xyz":
        b.add_variable(name, 3)
    b.allow_pairs("x", "y", np.triu(np.ones((3, 3), dtype=bool), 1), name="x before y")
    b.allow_pairs("y", "z", np.triu(np.ones((3, 3), dtype=bool), 1), name="y before z")
    b.allow_pairs("z", "x", np.triu(np.ones((3, 3), dtype=bool), 1), name="z before x")

    found = engine.reduce_problem(b.build(), ("arc-consistency",)).infeasibility
    assert found is not None
    assert set(found.constraints) == {"x before y", "y before z", "z before x"}
    result = solve(b.build(), by_brute_force)
    assert result.termination.reason is Reason.INFEASIBLE


def test_describing_the_reductions_imports_no_numba() -> None:
    code = (
        "import sys; from berthage import load_registry; "
        "assert any(i.name == 'presolve' for i in load_registry().reductions); print('numba' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
