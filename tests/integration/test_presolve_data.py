"""The reductions of the plugin `presolve` on published problems: exact, quick, and small results."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from berthage import PlacementProblem, evaluate, read_problem

presolve = pytest.importorskip("berthage_presolve.presolve")
engine = pytest.importorskip("berthage_presolve.engine")
pytest.importorskip("berthage_formats")

ALL = presolve.Presolve.rules


def contest(shared_data: Path, letter: str) -> PlacementProblem:
    return read_problem(shared_data / "iopddl" / f"asplos-2025-iopddl-{letter}.json.gz")


def plan(shared_data: Path, letter: str) -> np.ndarray:
    import gzip

    with gzip.open(shared_data / "iopddl" / f"plan-{letter}.json.gz") as file:
        stored = json.load(file)
    return np.array(stored if isinstance(stored, list) else next(iter(stored.values())), dtype=np.int32)


@pytest.mark.parametrize("letter", ["A", "B", "G"])
def test_stored_plans_survive_the_way_there_and_back(shared_data: Path, letter: str) -> None:
    problem, stored = contest(shared_data, letter), plan(shared_data, letter)
    cost = evaluate(problem, stored)
    assert cost.feasible
    reduced = engine.reduce_problem(problem, ALL)
    projected = reduced.project(stored)
    assert projected is not None
    parts = [evaluate(part, labels) for part, labels in zip(reduced.parts, projected, strict=True)]
    lifted = evaluate(problem, reduced.lift(projected))
    assert all(part.feasible for part in parts)
    assert lifted.feasible
    # a dominated label in the plan may have been replaced by a better one, never by a worse one
    assert sum(part.objective for part in parts) == lifted.objective <= cost.objective
    assert reduced.bound_error == 0


def test_contest_a_is_reduced_in_seconds_to_a_few_hundred_variables(shared_data: Path) -> None:
    presolve.warmup()
    problem = contest(shared_data, "A")
    start = time.process_time()
    reduced = engine.reduce_problem(problem, ALL)
    spent = time.process_time() - start
    (part,) = reduced.parts
    assert problem.num_variables == 34932
    assert part.num_variables < 1000
    assert part.num_edges < 2000
    assert spent < 5.0


def test_contest_b_one_below_the_least_peak_is_infeasible(shared_data: Path) -> None:
    problem = contest(shared_data, "B")
    (budget,) = problem.interval_budgets
    tight = replace(problem, interval_budgets=(replace(budget, limit=13084115),))
    found = engine.reduce_problem(tight, ALL).infeasibility
    assert found is not None
    assert found.instant is not None
    live = np.flatnonzero((budget.start <= found.instant) & (found.instant < budget.stop))
    assert set(found.live) <= {problem.variable_names[v] for v in budget.variables[live].tolist()}
    assert found.live
    assert found.least_limit == 13084116


def test_a_sharding_problem_merges_and_shrinks(shared_data: Path) -> None:
    problem = read_problem(shared_data / "sharding" / "llama1b_8x8.npz")
    assert (problem.num_variables, len(problem.tables)) == (732, 151)
    merged = engine.reduce_problem(problem, ("arc-consistency", "merge-ties"))
    (part,) = merged.parts
    # hundreds of edges go on sharing their tables
    assert part.num_variables <= 600
    assert len(part.tables) <= 160 < part.num_edges
    reduced = engine.reduce_problem(problem, ALL)
    assert sum(left.num_variables for left in reduced.parts) <= 250
    assert reduced.bound_error < 1e-6


def test_crops_keep_their_optimum(shared_data: Path) -> None:
    index = json.loads((shared_data / "crops" / "index.json").read_text(encoding="utf-8"))
    assert len(index) == 17
    for name, entry in index.items():
        problem = read_problem(shared_data / "crops" / f"{name}.json")
        best = np.array(entry["plan"], dtype=np.int32)
        reduced = engine.reduce_problem(problem, ALL)
        assert reduced.infeasibility is None, name
        projected = reduced.project(best)
        assert projected is not None, name
        parts = [evaluate(part, labels) for part, labels in zip(reduced.parts, projected, strict=True)]
        assert all(part.feasible for part in parts), name
        assert sum(part.objective for part in parts) == entry["optimum"], name
        assert evaluate(problem, reduced.lift(projected)).objective == entry["optimum"], name
