"""What ``trws`` promises beyond the conformance kit: proofs, limits, precision, determinism, light listing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from berthage import Limit, OptionError, PlacementProblem, ProblemBuilder, Reason, SolveResult, solve
from berthage.testing import brute_force

pytest.importorskip("numba")


def run(problem: PlacementProblem, **more: object) -> SolveResult:
    return solve(problem, "trws", presolve=False, **more)  # type: ignore[arg-type]


def grid(size: int, labels: int, seed: int = 0, strength: float = 1.0) -> PlacementProblem:
    rng = np.random.default_rng(seed)
    builder = ProblemBuilder(f"grid-{size}")
    for i in range(size * size):
        builder.add_variable(f"v{i}", labels, rng.normal(size=labels))
    for i in range(size * size):
        if i % size + 1 < size:
            builder.add_pairwise(i, i + 1, rng.normal(size=(labels, labels)) * strength)
        if i + size < size * size:
            builder.add_pairwise(i, i + size, rng.normal(size=(labels, labels)) * strength)
    return builder.build()


def test_a_tree_is_proved_optimal_within_two_sweeps() -> None:
    rng = np.random.default_rng(3)
    builder = ProblemBuilder("tree")
    for i in range(200):
        builder.add_variable(f"v{i}", 5, rng.normal(size=5))
        if i:
            builder.add_pairwise(int(rng.integers(i)), i, rng.normal(size=(5, 5)))
    result = run(builder.build())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_weakly_coupled_grids_are_proved(dtype: str) -> None:
    problem = grid(3, 4, strength=0.5)
    result = run(problem, options={"dtype": dtype})
    assert result.objective == pytest.approx(brute_force(problem, limit=300_000).objective, rel=1e-12)
    assert result.bound <= result.objective
    assert result.relative_gap <= 1e-6
    assert result.stats["dtype"] == {"f64": "float64", "f32": "float32"}[dtype]


def test_a_loose_relaxation_ends_as_converged_with_its_gap() -> None:
    result = run(grid(12, 3, strength=3.0))
    assert result.termination.reason is Reason.FEASIBLE
    assert result.termination.limit is Limit.CONVERGED
    assert result.objective is not None
    assert 0 < result.relative_gap < 0.5


def test_the_gap_asked_for_ends_the_search_early() -> None:
    problem = grid(12, 3, strength=1.0)
    loose, tight = run(problem, gap=0.2), run(problem)
    assert loose.termination.reason is Reason.OPTIMAL
    assert loose.relative_gap <= 0.2
    assert loose.stats["sweeps"] < tight.stats["sweeps"]


def test_iteration_limit_counts_sweeps() -> None:
    result = run(grid(12, 3, strength=3.0), iteration_limit=7)
    assert result.termination.limit is Limit.ITERATIONS
    assert result.stats["sweeps"] == 7
    assert np.isfinite(result.bound)


def test_no_sweep_at_all_still_gives_a_valid_bound() -> None:
    problem = grid(3, 3)
    result = run(problem, iteration_limit=0)
    assert -np.inf < result.bound <= brute_force(problem).objective


def test_time_limit_is_kept_on_a_problem_of_many_cells() -> None:
    rng = np.random.default_rng(0)
    builder = ProblemBuilder("wide")
    table = builder.add_table(rng.normal(size=(700, 700)))
    for i in range(60):
        builder.add_variable(f"v{i}", 700, rng.normal(size=700))
        for j in range(max(0, i - 5), i):
            builder.add_pairwise(j, i, table)
    result = run(builder.build(), time_limit=0.5)
    assert result.timings["total"].wall - result.timings["compile"].wall < 1.5
    assert result.termination.limit in (Limit.TIME, None)
    assert result.assignment is not None


def test_a_warm_start_is_kept_when_nothing_better_is_found() -> None:
    problem = grid(6, 3, strength=2.0)
    best = run(problem).require()
    again = run(problem, warm_start=best, iteration_limit=0)
    assert again.require().tolist() == best.tolist()


def test_an_infeasible_warm_start_does_no_harm() -> None:
    builder = ProblemBuilder("forbidden start")
    a, b = builder.add_variable("a", 3, [1, 0, 2]), builder.add_variable("b", 3, [0, 1, np.inf])
    builder.forbid_pairs(a, b, [(1, 0)])
    result = run(builder.build(), warm_start=[1, 2])
    assert result.objective == 1


@pytest.mark.parametrize("ordering", ["natural", "bfs"])
@pytest.mark.parametrize("polish", ["pairs", "single", "off"])
def test_every_option_gives_a_valid_answer(ordering: str, polish: str) -> None:
    problem = grid(3, 3, seed=4, strength=2.0)
    options = {"ordering": ordering, "polish": polish, "rounding_every": 3, "window": 20, "max_sweeps": 60}
    result = run(problem, options=options)
    truth = brute_force(problem).objective
    assert result.bound <= truth + 1e-12
    assert result.objective is not None
    assert result.objective >= truth - 1e-12


def test_wrong_options_are_refused() -> None:
    for options in ({"dtype": "f16"}, {"window": 0}, {"no_such": 1}):
        with pytest.raises(OptionError):
            run(grid(2, 2), options=options)


def test_same_seed_same_answer() -> None:
    problem = grid(10, 4, strength=2.0)
    first, second = run(problem), run(problem)
    assert first.require().tolist() == second.require().tolist()
    assert (first.objective, first.bound) == (second.objective, second.bound)
    assert first.stats == second.stats


def test_parallel_and_reversed_edges_bound_like_their_sum() -> None:
    rng = np.random.default_rng(8)
    one, many = ProblemBuilder("one"), ProblemBuilder("many")
    parts = rng.normal(size=(3, 4, 3, 3))
    for builder in (one, many):
        for name in "abcd":
            builder.add_variable(name, 3, np.arange(3.0))
    for e, (u, v) in enumerate([(0, 1), (1, 2), (2, 3), (3, 0)]):
        one.add_pairwise(u, v, 2 * parts[0, e] + parts[1, e] + parts[2, e])
        many.add_pairwise(u, v, parts[0, e], multiplicity=2)
        many.add_pairwise(v, u, parts[1, e].T)
        many.add_pairwise(u, v, parts[2, e])
    results = [run(builder.build()) for builder in (one, many)]
    assert results[0].objective == pytest.approx(results[1].objective)
    assert results[0].bound == pytest.approx(results[1].bound)


def test_a_conflict_of_pairs_is_found_infeasible() -> None:
    builder = ProblemBuilder("odd cycle of one colour too few")
    for name in "abc":
        builder.add_variable(name, 2)
    differ = np.where(np.eye(2, dtype=bool), np.inf, 0.0)
    builder.add_pairwise(0, 1, differ)
    builder.add_pairwise(1, 2, differ)
    same = np.where(np.eye(2, dtype=bool), 0.0, np.inf)
    builder.add_pairwise(0, 2, differ)
    result = run(builder.build())
    assert result.assignment is None  # the relaxation cannot prove it: half of each label satisfies every edge
    assert result.termination.reason in (Reason.NO_SOLUTION_FOUND, Reason.INFEASIBLE)
    builder.add_pairwise(0, 2, same)
    assert run(builder.build()).termination.reason is Reason.INFEASIBLE


def test_a_cutoff_below_the_bound_is_infeasible() -> None:
    problem = grid(3, 3, strength=0.5)
    best = brute_force(problem).objective
    result = run(problem, cutoff=best - 0.01)
    assert result.termination.reason is Reason.INFEASIBLE
    assert run(problem, cutoff=best + 0.01).objective == pytest.approx(best)


def test_compiling_is_reported_apart() -> None:
    timings = run(grid(2, 2)).timings
    assert {"compile", "build", "solve"} <= set(timings)


def test_naming_the_solver_imports_no_numba() -> None:
    code = (
        "import sys; from berthage import load_registry; r = load_registry(); r.solver('trws');"
        "import berthage_trws; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    from berthage_trws.jit import kernel

    real = numba.njit

    def without_cache(*args: object, **settings: object) -> object:
        if settings.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **settings)

    monkeypatch.setattr(numba, "njit", without_cache)
    assert kernel(lambda x: x + 1)(2) == 3


def test_warmup_makes_kernels_ready() -> None:
    from berthage_trws import warmup
    from berthage_trws.sweep import sweep

    warmup()
    ready = len(sweep.signatures)
    run(grid(3, 3))
    assert len(sweep.signatures) == ready >= 1
