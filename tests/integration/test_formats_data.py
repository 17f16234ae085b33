"""The published problem files, read and re-evaluated against what is known about them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from berthage import PlacementProblem, evaluate, read_problem
from berthage_formats.iopddl import IopddlFormat
from berthage_formats.uai import UaiFormat

GIB = 2**30
SLOW = pytest.mark.slow


def contest_file(shared_data: Path, letter: str) -> Path:
    return shared_data / "iopddl" / f"asplos-2025-iopddl-{letter}.json.gz"


# -- IOPDDL -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["B", "G", "P", "A", *(pytest.param(letter, marks=SLOW) for letter in "KSU")])
def test_stored_plans_cost_what_is_published_to_the_last_digit(shared_data: Path, letter: str) -> None:
    known = json.loads((shared_data / "iopddl" / "reference.json").read_text())[letter]
    problem = read_problem(contest_file(shared_data, letter))
    plan = IopddlFormat().read_solution(shared_data / "iopddl" / f"plan-{letter}.json.gz", problem)
    found = evaluate(problem, plan)
    assert found.feasible
    assert isinstance(found.objective, int)
    assert found.objective == known["plan_cost"]
    assert found.budget_use[0].used == known["plan_peak"]
    assert problem.interval_budgets[0].limit == known["limit"]


def test_the_example_of_the_contest(shared_data: Path) -> None:
    problem = read_problem(shared_data / "iopddl" / "example.json")
    assert evaluate(problem, [0, 0, 2, 1, 0]).objective == 445


def test_crops_and_their_optimal_plans(shared_data: Path) -> None:
    index = json.loads((shared_data / "crops" / "index.json").read_text())
    assert len(index) == 17
    for name, known in index.items():
        problem = read_problem(shared_data / "crops" / f"{name}.json")
        found = evaluate(problem, known["plan"])
        assert (problem.num_variables, problem.num_edges) == (known["nodes"], known["edges"]), name
        assert (found.objective, found.budget_use[0].used) == (known["optimum"], known["peak"]), name
        assert found.feasible == (known["peak"] <= known["usage_limit"]), name


def test_tables_are_shared(shared_data: Path) -> None:
    problem = read_problem(contest_file(shared_data, "B"))
    assert len(problem.tables) < problem.num_edges / 2
    contents = [(t.shape, t.to_dense().tobytes()) for t in problem.tables]
    assert len(set(contents)) == len(contents)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell a process's peak memory")
def test_the_largest_file_loads_and_evaluates_in_time_and_memory(shared_data: Path) -> None:
    program = """
import sys, time
from pathlib import Path
from berthage import evaluate, read_problem
from berthage_formats.iopddl import IopddlFormat
begin = time.perf_counter()
problem = read_problem(sys.argv[1])
evaluate(problem, IopddlFormat().read_solution(sys.argv[2], problem))
seconds = time.perf_counter() - begin
# getrusage would tell the peak of the process that started this one, too.
lines = Path("/proc/self/status").read_text().splitlines()
print(seconds, 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]))
"""
    paths = [contest_file(shared_data, "P"), shared_data / "iopddl" / "plan-P.json.gz"]
    done = subprocess.run(
        [sys.executable, "-c", program, *map(os.fspath, paths)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    seconds, memory = map(float, done.stdout.split())
    assert seconds < 10
    assert memory < 1.5 * GIB


@pytest.mark.parametrize("letter", ["B", "G"])
def test_a_contest_file_written_again_is_the_same_problem(shared_data: Path, tmp_path: Path, letter: str) -> None:
    problem = read_problem(contest_file(shared_data, letter))
    IopddlFormat().write(problem, tmp_path / "again.json.gz")
    assert IopddlFormat().read(tmp_path / "again.json.gz") == problem


# -- pairwise minimisation and assignment ---------------------------------------------------------------------

MAP = {
    "grid20x20.f10": ("grid20x20.f10.uai", {}),
    "deer_0034.K10": ("deer_rescaled_0034.K10.F100.model.uai.xz", {"evidence": "auto"}),
    "pdb1i24": ("pdb1i24.uai.xz", {"zero": "1e6"}),
    "pdb1jmx": ("pdb1jmx.uai.xz", {}),
    "ImageAlignment_12": ("ImageAlignment_12.uai.xz", {}),
    "wcsp_13": ("wcsp_13.uai.xz", {}),
    "wcsp_16": ("wcsp_16.uai.xz", {}),
    "DBN_rus_20_40_0_1": ("rus_20_40_0_1.uai.xz", {"evidence": "auto"}),
    "celar6sub0": ("celar6sub0.wcsp.xz", {}),
    "CELAR7-SUB0": ("CELAR7-SUB0.wcsp.xz", {}),
    "GEOM40_6": ("GEOM40_6.wcsp.xz", {}),
    "cap131": ("cap131.wcsp.xz", {}),
    "cpd_1aho": ("1aho.cfn.gz", {}),
    "mpopt_gm_000": ("gm_000.uai.xz", {"values": "cost"}),
    "gap_c0515_1": ("c0515_1", {}),
    "gap_c05100": ("c05100", {}),
    "gap_d05100": ("d05100", {}),
}


def map_problem(shared_data: Path, name: str) -> PlacementProblem:
    file, options = MAP[name]
    return read_problem(shared_data / "map" / name / file, **options)


def map_index(shared_data: Path) -> dict[str, dict[str, str]]:
    header, *rows = (line.split("\t") for line in (shared_data / "map" / "INDEX.tsv").read_text().splitlines())
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


@pytest.mark.parametrize("name", sorted(MAP))
def test_sizes_are_those_of_the_index(shared_data: Path, name: str) -> None:
    known = map_index(shared_data)[name]
    problem = map_problem(shared_data, name)
    free = np.ones(problem.num_variables, dtype=bool)
    free[[relation.u for relation in problem.relations]] = False  # evidence
    pairs = {
        (min(u, v), max(u, v))
        for u, v in zip(problem.edge_u.tolist(), problem.edge_v.tolist(), strict=True)
        if free[u] and free[v]
    }
    sizes = problem.num_labels.tolist()
    assert (int(free.sum()), max(sizes)) == (int(known["n_vars"]), int(known["max_labels"]))
    assert len(pairs) == int(known["n_edges"])
    assert sum(sizes[u] * sizes[v] for u, v in pairs) == int(known["table_cells"])
    assert len(problem.linear_budgets) == (5 if name.startswith("gap") else 0)


def test_every_instance_of_the_index_is_read(shared_data: Path) -> None:
    assert sorted(map_index(shared_data)) == sorted(MAP)


def test_bounds_of_the_costs_enclose_the_known_optima(shared_data: Path) -> None:
    index = map_index(shared_data)
    for name in ("ImageAlignment_12", "GEOM40_6", "cpd_1aho", "celar6sub0", "CELAR7-SUB0", "cap131", "wcsp_13"):
        problem = map_problem(shared_data, name)
        unary = [problem.unary_of(v) for v in range(problem.num_variables)]
        low = problem.constant + sum(costs.min() for costs in unary)
        low += sum(problem.tables[t].lower_bound() for t in problem.edge_table.tolist())
        greedy = [int(costs.argmin()) for costs in unary]
        best = float(index[name]["best_known"])
        assert low <= best + 1e-6, name
        assert evaluate(problem, greedy).objective >= best - 1e-6, name


def test_written_again_in_another_format_it_means_the_same(shared_data: Path, tmp_path: Path) -> None:
    problem = map_problem(shared_data, "GEOM40_6")
    UaiFormat().write(problem, tmp_path / "geom.uai", values="cost")
    again = UaiFormat().read(tmp_path / "geom.uai", values="cost")
    rng = np.random.default_rng(0)
    for _ in range(20):
        assignment = rng.integers(0, problem.num_labels)
        assert evaluate(again, assignment).objective == evaluate(problem, assignment).objective


# -- sharding -------------------------------------------------------------------------------------------------

INSTANCES = ["mlp2_8x8", "llama2l_8x8", "llama2l_8x8_mem0.25", "llama1b_8x8", "llama1l_4x4x4"]


def independent_loader(shared_data: Path) -> Any:
    """The loader and evaluator that came with the data."""
    spec = importlib.util.spec_from_file_location("sharding_load", shared_data / "sharding" / "load.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Dump


@pytest.mark.parametrize("name", INSTANCES)
def test_stored_assignments_cost_what_was_recorded(shared_data: Path, name: str) -> None:
    path = shared_data / "sharding" / f"{name}.npz"
    arrays = np.load(path)
    names = json.loads(path.with_suffix(".json").read_text())
    checked = 0
    for edges, which in (
        ("recorded", {"x_ilp": "objective_ilp", "x_approx": "objective_approx", "x_best": "objective_best"}),
        ("true", {"x_best_true": "objective_best_true"}),
    ):
        problem = read_problem(path, edges=edges)
        for assignment, objective in which.items():
            if assignment in arrays:
                found = evaluate(problem, arrays[assignment])
                assert found.feasible
                assert found.objective == pytest.approx(names[objective], rel=1e-9)
                checked += 1
    assert checked >= 2


@pytest.mark.parametrize("name", ["mlp2_8x8", "llama2l_8x8_mem0.25", "llama1b_8x8"])
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_other_assignments_cost_what_the_independent_evaluator_says(shared_data: Path, name: str) -> None:
    path = shared_data / "sharding" / f"{name}.npz"
    dump = independent_loader(shared_data)(os.fspath(path))
    arrays = np.load(path)
    problems = {edges: read_problem(path, edges=edges) for edges in ("true", "recorded")}
    rng = np.random.default_rng(1)
    compared, violated = 0, 0
    for _ in range(300):
        assignment = arrays["x_ilp"].copy()
        changed = rng.integers(0, len(assignment), 1)
        assignment[changed] = rng.integers(0, arrays["n_choices"][changed])
        with np.errstate(invalid="ignore"):  # inf - inf, where a pair is forbidden
            priced = {"true": dump.evaluate_true(assignment), "recorded": dump.evaluate(assignment)}
        for edges, expected in priced.items():
            if not np.isfinite(expected[0]):
                continue
            found = evaluate(problems[edges], assignment)
            assert found.objective == pytest.approx(expected[0], rel=1e-12)
            assert found.feasible == (not expected[1])
            assert len(found.violations) == len(expected[1])
            compared += 1
            violated += bool(expected[1])
    assert compared > 20
    assert violated > 5
