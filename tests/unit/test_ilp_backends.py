"""What the engines answer is decoded from their own words, and what core asks reaches them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from berthage import Limit, OptionError, PlacementProblem, ProblemBuilder, Reason, SolveContext, SolveParams, solve
from berthage.linear import LinearProgram, linear_program
from berthage.testing import hard_problem
from berthage_ilp.backend import Backend, BackendSettings, BackendStatus, Monitor, StopRequested
from berthage_ilp.program import Cut, with_cuts
from berthage_ilp.pulp_cbc import PulpCbc, written_error
from berthage_ilp.pulp_highs import PulpHighs
from berthage_ilp.pyomo_highs import PyomoHighs

BACKENDS: list[Callable[[], Backend]] = [PulpHighs, PulpCbc, PyomoHighs]


def small() -> PlacementProblem:
    builder = ProblemBuilder("small")
    builder.add_variable("a", 3, [4, 2, 9])
    builder.add_variable("b", 2, [1, 6])
    builder.add_pairwise("a", "b", [[0, 1], [8, 0], [0, 0]])
    return builder.build()


def ask(backend: Backend, program: LinearProgram, problem: PlacementProblem, **settings: Any) -> Any:
    context = SolveContext(problem, SolveParams(time_limit=settings.get("time_limit")))
    monitor = Monitor(context, lambda x: program.decode(x).assignment, program.bound_of, lambda: False)
    return backend.solve(program, BackendSettings(**{"time_limit": 60.0, **settings}), monitor)


@pytest.mark.parametrize("make", BACKENDS)
def test_optimum_values_and_bound(make: Callable[[], Backend]) -> None:
    problem = small()
    program = linear_program(problem)
    result = ask(make(), program, problem)
    assert result.status is BackendStatus.OPTIMAL
    assert program.decode(result.values).assignment.tolist() == [0, 0]
    assert result.bound == pytest.approx(float(program.cost @ result.values) + program.offset, abs=1e-6)


@pytest.mark.parametrize("make", BACKENDS)
def test_infeasible_is_a_status_without_values(make: Callable[[], Backend]) -> None:
    problem = small()
    program = linear_program(problem)
    impossible = with_cuts(program, [Cut(np.arange(3), 0.0)])
    result = ask(make(), impossible, problem)
    assert result.status is BackendStatus.INFEASIBLE
    assert result.values is None


@pytest.mark.parametrize("make", BACKENDS)
def test_a_start_is_taken(make: Callable[[], Backend]) -> None:
    problem = small()
    program = linear_program(problem)
    start = program.encode(np.array([2, 1], dtype=np.int32))
    assert start is not None
    result = ask(make(), program, problem, start=(np.arange(len(start)), start))
    assert program.decode(result.values).assignment.tolist() == [0, 0]


@pytest.mark.parametrize("make", BACKENDS)
def test_a_program_without_costs(make: Callable[[], Backend]) -> None:
    builder = ProblemBuilder("free")
    builder.add_variable("a", 2)
    builder.add_budget("one", {"a": [1, 3]}, lower=2)
    problem = builder.build()
    program = linear_program(problem)
    result = ask(make(), program, problem)
    assert result.status is BackendStatus.OPTIMAL
    assert program.decode(result.values).assignment.tolist() == [1]


@pytest.mark.parametrize("make", BACKENDS)
def test_time_limit_is_told_from_an_optimum(make: Callable[[], Backend]) -> None:
    problem = hard_problem(variables=24)
    program = linear_program(problem)
    try:
        result = ask(make(), program, problem, time_limit=0.5)
    except StopRequested:  # a busy machine: the time was up before the model was built
        return
    assert result.status in (BackendStatus.TIME, BackendStatus.INTERRUPTED)
    assert result.bound < float(program.cost.sum())


def test_cbc_bound_allows_for_the_digits_of_its_file() -> None:
    assert written_error(1e6) == pytest.approx(1e-6)
    problem = small()
    program = linear_program(problem)
    result = ask(PulpCbc(), program, problem)
    assert result.bound < float(program.cost @ result.values) + program.offset + 1e-12


@pytest.mark.parametrize(("name", "options"), [("ilp-pulp", {}), ("ilp-pulp", {"backend": "cbc"}), ("ilp-pyomo", {})])
def test_a_stopped_solve_keeps_limit_incumbent_and_bound(name: str, options: dict[str, str]) -> None:
    problem = hard_problem(variables=24)
    begin = time.perf_counter()
    result = solve(problem, name, options=options, time_limit=1.5, presolve=False, warm_start=[0] * 24)
    assert time.perf_counter() - begin < 6.0
    assert (result.termination.reason, result.termination.limit) == (Reason.FEASIBLE, Limit.TIME)
    assert result.assignment is not None
    assert result.objective is not None
    assert result.bound < result.objective


def test_gap_stops_early_and_holds() -> None:
    result = solve(hard_problem(variables=8), "ilp", gap=0.5, presolve=False)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.relative_gap <= 0.5


def test_gap_is_relative_to_the_whole_objective() -> None:
    builder = ProblemBuilder("offset")
    builder.add_constant(-1000)
    for i in range(6):
        builder.add_variable(f"v{i}", 2, [0, 1])
    for i in range(5):
        builder.add_pairwise(i, i + 1, [[9, 1], [1, 9]])
    for options in ({}, {"backend": "cbc"}):
        result = solve(builder.build(), "ilp", options=options, gap=1e-4, presolve=False)
        assert result.relative_gap <= 1e-4
        assert result.objective == -1000 + 3 + 5


def test_cutoff_below_the_optimum_is_infeasible() -> None:
    result = solve(small(), "ilp", cutoff=4, presolve=False)
    assert result.termination.reason is Reason.INFEASIBLE
    assert "4" in result.termination.detail
    assert solve(small(), "ilp", cutoff=5, presolve=False).objective == 5


def test_seed_and_iteration_limit_reach_the_engine() -> None:
    problem = hard_problem(variables=12)
    limited = solve(problem, "ilp", iteration_limit=1, seed=3, presolve=False)
    assert limited.termination.limit is Limit.ITERATIONS
    assert math.isfinite(limited.bound)
    assert limited.seed == 3


def test_unknown_backend_is_refused() -> None:
    with pytest.raises(OptionError, match="highs"):
        solve(small(), "ilp", options={"backend": "gurobi"})


def test_missing_cbc_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berthage_ilp.pulp_cbc.cbc_path", lambda: None)
    with pytest.raises(OptionError, match="backend=highs"):
        solve(small(), "ilp", options={"backend": "cbc"}, presolve=False)


def test_hooks_import_no_engine() -> None:
    import subprocess

    code = (
        "import sys, berthage_ilp.hooks as h; h.berthage_solvers();"
        "print([m for m in ('pulp', 'pyomo', 'highspy', 'scipy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"


def test_pyomo_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    from berthage import load_registry

    registry = load_registry()
    info = registry.solver("ilp-pyomo")
    assert registry.solver("ilp").name == "ilp-pulp"
    assert "pyomo" in info.requires
    assert "pyomo" not in registry.solver("ilp").requires
    assert "plugins/ilp[pyomo]" in info.install
