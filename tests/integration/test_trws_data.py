"""``trws`` on the real problem files: bounds no lower than those of four other implementations, proofs, budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from berthage import PlacementProblem, Reason, SolveResult, read_problem, solve

pytest.importorskip("numba")
pytest.importorskip("berthage_formats")
pytest.importorskip("berthage_presolve")

# file below data/map, options of the reader, bound at which TRW-S ends, whether it is the optimum
MAP: dict[str, tuple[str, dict[str, str], float, bool]] = {
    "pdb1i24": ("pdb1i24/pdb1i24.uai.xz", {}, 439.39317, True),
    "pdb1jmx": ("pdb1jmx/pdb1jmx.uai.xz", {}, 1144.298, False),
    "cpd_1aho": ("cpd_1aho/1aho.cfn.gz", {}, -33.72992, True),
    "cap131": ("cap131/cap131.wcsp.xz", {}, 7934385, True),
    "grid20x20": ("grid20x20.f10/grid20x20.f10.uai", {}, -3736.726, False),
    "DBN": ("DBN_rus_20_40_0_1/rus_20_40_0_1.uai.xz", {"evidence": "rus_20_40_0_1.uai.evid"}, -1828.566, False),
    "ImageAlignment_12": ("ImageAlignment_12/ImageAlignment_12.uai.xz", {}, 1005.468, True),
    "mpopt_gm_000": ("mpopt_gm_000/gm_000.uai.xz", {"values": "cost"}, 10719, True),
    "wcsp_13": ("wcsp_13/wcsp_13.uai.xz", {}, 0.396, False),
    "wcsp_16": ("wcsp_16/wcsp_16.uai.xz", {}, 37.974233, True),
    "CELAR7-SUB0": ("CELAR7-SUB0/CELAR7-SUB0.wcsp.xz", {}, 10003.36, False),
    "celar6sub0": ("celar6sub0/celar6sub0.wcsp.xz", {}, 0, False),
    "deer": ("deer_0034.K10/deer_rescaled_0034.K10.F100.model.uai.xz", {}, -24188.1, False),
}
BEST_KNOWN = {
    "pdb1i24": 439.393174,
    "pdb1jmx": 1154.608359,
    "cpd_1aho": -33.72992,
    "cap131": 7934385,
    "DBN": -1420.207053,
    "ImageAlignment_12": 1005.468476,
    "mpopt_gm_000": 10719,
    "wcsp_13": 0.489001,
    "wcsp_16": 37.974233,
    "CELAR7-SUB0": 10310,
    "celar6sub0": 159,
}


def known(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def read(shared_data: Path, name: str) -> PlacementProblem:
    file, options, _, _ = MAP[name]
    path = known(shared_data / "map" / file)
    if "evidence" in options:
        options = {"evidence": str(path.parent / options["evidence"])}
    return read_problem(path, **options)


def check(result: SolveResult, name: str, limit: float, tight: bool) -> None:
    assert result.bound >= limit - 1e-6 * abs(limit)
    if name in BEST_KNOWN:  # proved optima: the bound may not pass them, and nothing may be cheaper
        optimum = BEST_KNOWN[name]
        assert result.bound <= optimum + 1e-6 * abs(optimum)
        assert result.objective is None or result.objective >= optimum - 1e-6 * abs(optimum)
    if tight:
        assert result.termination.reason is Reason.OPTIMAL
        assert result.objective == pytest.approx(BEST_KNOWN[name], rel=1e-6)


@pytest.mark.parametrize("name", [n for n in MAP if n not in ("deer", "mpopt_gm_000")])
def test_bounds_reach_the_known_limits(shared_data: Path, name: str) -> None:
    _, _, limit, tight = MAP[name]
    problem = read(shared_data, name)
    check(solve(problem, "trws"), name, limit, tight)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MAP))
@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_bounds_reach_the_known_limits_without_presolve(shared_data: Path, name: str, dtype: str) -> None:
    _, _, limit, tight = MAP[name]
    problem = read(shared_data, name)
    result = solve(problem, "trws", presolve=False, options={"dtype": dtype})
    if dtype == "f64":
        check(result, name, limit, tight)
    else:  # single precision stops where its noise begins
        check(result, name, limit - 2e-4 * abs(limit), False)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", ["mlp2_8x8", "llama2l_8x8", "llama1b_8x8"])
def test_sharding_problems_are_proved(shared_data: Path, name: str, dtype: str) -> None:
    problem = read_problem(known(shared_data / "sharding" / f"{name}.npz"))
    result = solve(problem, "trws", options={"dtype": dtype}, gap=1e-6)
    stored = {"mlp2_8x8": 2317.750602, "llama2l_8x8": 14078.906078, "llama1b_8x8": 70703.098687}
    assert result.termination.reason is Reason.OPTIMAL
    assert result.relative_gap <= 1e-6
    assert result.objective == pytest.approx(stored[name], rel=1e-8)


def test_sharding_problem_in_three_dimensions_is_proved(shared_data: Path) -> None:
    problem = read_problem(known(shared_data / "sharding" / "llama1l_4x4x4.npz"))
    result = solve(problem, "trws")
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(10460.631461, rel=1e-9)


def test_a_memory_budget_that_binds_costs_little(shared_data: Path) -> None:
    problem = read_problem(known(shared_data / "sharding" / "llama2l_8x8_mem0.25.npz"))
    result = solve(problem, "trws")
    assert result.objective == pytest.approx(13728.956646, rel=1e-4)
    assert result.bound >= 13727.0  # the multiplier's share of the 13.2 that the budget costs
    assert result.bound <= 13728.956647


@pytest.mark.parametrize(("name", "cost"), [("B", 134699), ("G", 111306)])
def test_contest_problems_without_budgets_are_proved(shared_data: Path, name: str, cost: int) -> None:
    problem = read_problem(known(shared_data / "iopddl" / f"asplos-2025-iopddl-{name}.json.gz"))
    result = solve(problem.without_budgets().problem, "trws")
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == cost


@pytest.mark.parametrize(("file", "optimum"), [("gap_c0515_1/c0515_1", 261), ("gap_c05100/c05100", 1931)])
def test_generalised_assignment_within_two_percent(shared_data: Path, file: str, optimum: int) -> None:
    problem = read_problem(known(shared_data / "map" / file))
    result = solve(problem, "trws")
    assert result.bound <= optimum <= result.objective <= optimum * 1.02
    assert result.bound >= optimum * 0.97
