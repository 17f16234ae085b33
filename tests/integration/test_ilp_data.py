"""The integer programming solvers on real problem files: known optima, all proved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from berthage import PlacementProblem, Reason, read_problem, solve

CROPS = (
    "crop-B-5-s7", "crop-B-12-s9", "crop-B-40-s1", "crop-B-120-s1", "crop-G-5-s7", "crop-G-12-s6", "crop-G-40-s1",
    "crop-G-120-s1", "crop-K-6-s5", "crop-K-30-s0", "crop-K-150-s3", "crop-S-6-s15", "crop-S-30-s1", "crop-S-120-s7",
    "crop-P-12-s2", "crop-P-60-s0", "crop-P-300-s0",
)  # fmt: skip
LARGE_CROPS = ("crop-B-120-s1", "crop-K-150-s3")
MAP = (
    ("cpd_1aho/1aho.cfn.gz", -33.72992),
    ("cap131/cap131.wcsp.xz", 7934385),
    ("GEOM40_6/GEOM40_6.wcsp.xz", 0),
    ("gap_c0515_1/c0515_1", 261),
    ("gap_c05100/c05100", 1931),
)
SHARDING = (
    ("mlp2_8x8", 2317.750602016334),
    ("llama2l_8x8", 14078.906077553684),
    ("llama2l_8x8_mem0.25", 13728.956646),
    ("llama1b_8x8", 70703.09868683433),
    ("llama1l_4x4x4", 10460.631461178873),
)


def assert_proved(problem: PlacementProblem, solver: str, optimum: float, **options: str) -> None:
    result = solve(problem, solver, options=options)
    assert result.termination.reason is Reason.OPTIMAL, result.termination
    assert result.objective == pytest.approx(optimum, rel=1e-9, abs=1e-9)
    assert result.relative_gap <= 1e-9


def crop(shared_data: Path, name: str) -> tuple[PlacementProblem, int]:
    index = json.loads((shared_data / "crops" / "index.json").read_text())
    return read_problem(shared_data / "crops" / f"{name}.json", format="iopddl"), index[name]["optimum"]


@pytest.mark.parametrize("solver", ["ilp-pulp", "ilp-pyomo"])
@pytest.mark.parametrize("name", [name for name in CROPS if name not in LARGE_CROPS])
def test_crop(shared_data: Path, name: str, solver: str) -> None:
    problem, optimum = crop(shared_data, name)
    assert_proved(problem, solver, optimum)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["ilp-pulp", "ilp-pyomo"])
@pytest.mark.parametrize("name", LARGE_CROPS)
def test_large_crop(shared_data: Path, name: str, solver: str) -> None:
    problem, optimum = crop(shared_data, name)
    assert_proved(problem, solver, optimum)


@pytest.mark.slow
@pytest.mark.parametrize("name", CROPS)
def test_crop_with_cbc(shared_data: Path, name: str) -> None:
    problem, optimum = crop(shared_data, name)
    assert_proved(problem, "ilp-pulp", optimum, backend="cbc")


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["ilp", "ilp-pyomo"])
@pytest.mark.parametrize(("name", "optimum"), [("G", 217039), ("B", 532843)])
def test_contest_problem_within_a_minute(shared_data: Path, name: str, optimum: int, solver: str) -> None:
    problem = read_problem(shared_data / "iopddl" / f"asplos-2025-iopddl-{name}.json.gz", format="iopddl")
    result = solve(problem, solver, time_limit=60.0)
    assert (result.termination.reason, result.objective, result.bound) == (Reason.OPTIMAL, optimum, optimum)


@pytest.mark.parametrize("solver", ["ilp-pulp", "ilp-pyomo"])
def test_contest_example(shared_data: Path, solver: str) -> None:
    result = solve(read_problem(shared_data / "iopddl" / "example.json", format="iopddl"), solver)
    assert (result.termination.reason, result.objective) == (Reason.OPTIMAL, 445)
    assert result.require().tolist() == [0, 0, 2, 1, 0]


@pytest.mark.parametrize(("name", "optimum"), MAP)
def test_map_instance(shared_data: Path, name: str, optimum: float) -> None:
    path = shared_data / "map" / name
    problem = read_problem(path, format="gap") if name.startswith("gap") else read_problem(path)
    assert_proved(problem, "ilp", optimum)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "optimum"), MAP)
def test_map_instance_without_presolve(shared_data: Path, name: str, optimum: float) -> None:
    path = shared_data / "map" / name
    problem = read_problem(path, format="gap") if name.startswith("gap") else read_problem(path)
    result = solve(problem, "ilp", presolve=False, time_limit=120.0)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "optimum"), SHARDING)
def test_sharding_instance(shared_data: Path, name: str, optimum: float) -> None:
    problem = read_problem(shared_data / "sharding" / f"{name}.json", format="sharding")
    result = solve(problem, "ilp")
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(optimum, rel=1e-9)
