"""GAP files, sharding instances, telling formats apart, and damaged compression."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from berthage import InvalidProblemError, PlacementProblem, evaluate, read_problem
from berthage.registry import load_registry
from berthage_formats.gap import GapFormat
from berthage_formats.placements import coordinates
from berthage_formats.sharding import ShardingFormat
from berthage_formats.streams import read_bytes

GAP = """ 2 3
 5 1 4
 2 6 3
 3 2 1
 2 2 2
 4 3
"""


# -- GAP ----------------------------------------------------------------------------------------------------


def test_a_generalised_assignment_problem(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_text(GAP)
    problem = GapFormat().read(path)
    assert problem.variable_names == ("job0", "job1", "job2")
    assert problem.label_name(0, 1) == "agent1"
    good = evaluate(problem, [1, 0, 0])
    assert (good.objective, good.feasible) == (2 + 1 + 4, True)
    assert [use.used for use in good.budget_use] == [2 + 1, 2]
    bad = evaluate(problem, [0, 0, 1])
    assert [violation.name for violation in bad.violations] == ["capacity of agent0"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1: expected the number of agents, at least 1, the file ends"),
        ("0 3\n", "line 1: expected the number of agents, at least 1, found '0'"),
        (GAP.replace("4 3\n", "4\n"), "line 7: expected 16 numbers in all"),
        (GAP + "9", "line 7: expected 16 numbers in all"),
        (GAP.replace("6", "six"), "line 3: expected a number, found 'six'"),
        (GAP.replace("6", "nan"), "line 3: expected a number below 2^53, found 'nan'"),
        ("1000000000000 1000000000000\n", "line 2: expected 2000000000001000000000002 numbers in all"),
    ],
)
def test_a_broken_gap_file_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "small"
    path.write_text(text)
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        GapFormat().read(path)


# -- sharding -----------------------------------------------------------------------------------------------


def instance() -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Four variables: a and b tied by placement, c's producer partly unrecorded, d paired loosely with c."""
    arrays = {
        "n_choices": np.array([2, 2, 2, 3], np.int32),
        "mult": np.array([1, 1, 3, 1], np.int32),
        "choice_ptr": np.array([0, 2, 4, 6, 9]),
        "label_idx": np.array([0, 1, 0, 1, 0, 1, 0, 1, 1], np.int32),
        "unary": np.array([1.0, 2.0, 3.0, np.inf, 0.5, 0.25, 0.0, 7.0, 8.0]),
        "user_ok": np.array([1, 1, 1, 1, 1, 1, 0, 1, 1], bool),
        "edge_src": np.array([0], np.int32),
        "edge_dst": np.array([2], np.int32),
        "edge_mat": np.array([0], np.int32),
        "mat_rows": np.array([2], np.int32),
        "mat_cols": np.array([2], np.int32),
        "mat_ptr": np.array([0, 4]),
        "mat_cost": np.array([10.0, 20.0, 30.0, np.inf]),
        "hard_a": np.array([0, 2], np.int32),
        "hard_b": np.array([1, 3], np.int32),
        "hard_kind": np.array([0, 1], np.int8),
        "hard_ptr": np.array([0, 4, 10]),
        "hard_ok": np.array([1, 0, 0, 1, 1, 1, 1, 0, 1, 1], bool),
        "mem_var": np.array([0, 0, 1], np.int32),
        "mem_choice": np.array([0, 1, 0], np.int32),
        "mem_coef": np.array([0.5, 0.25, 1.0]),
        "mem_bounds": np.array([0.0, 1.25]),
        "unc_edge": np.array([0], np.int32),
        "unc_src": np.array([1], np.int32),
        "unc_count": np.array([2], np.int32),
    }
    names = {
        "name": "tiny",
        "mesh": [4, 2],
        "labels": ["RR->RR", "S0R->S0R"],
        "hard_kinds": ["flow_tie", "grad_input"],
        "vars": [{"name": name} for name in "abcd"],
    }
    return arrays, names


def write_instance(folder: Path, arrays: dict[str, np.ndarray], names: Any) -> Path:
    np.savez_compressed(folder / "tiny.npz", **arrays)
    (folder / "tiny.json").write_text(json.dumps(names))
    return folder / "tiny.npz"


def read_instance(folder: Path, **options: Any) -> PlacementProblem:
    return ShardingFormat().read(write_instance(folder, *instance()), **options)


def test_a_sharding_instance(tmp_path: Path) -> None:
    problem = read_instance(tmp_path)
    assert (problem.name, problem.variable_names) == ("tiny", ("a", "b", "c", "d"))
    # c's table is paid once from a, its recorded producer, and twice from b, its real one.
    assert evaluate(problem, [0, 0, 1, 1]).objective == 1 + 3 + 3 * 0.25 + 7 + 20 + 2 * 20
    assert problem.constraint_names == (
        "user choice of d",
        "flow_tie 0: a ~ b",
        "grad_input 1: c ~ d",
        "memory",
    )
    broken = evaluate(problem, [1, 0, 1, 0])
    assert {v.name for v in broken.violations} == {
        "user choice of d",
        "flow_tie 0: a ~ b",
        "grad_input 1: c ~ d",
        "a -- c",
    }
    over = evaluate(problem, [0, 0, 0, 1])
    assert [v.name for v in over.violations] == ["memory"]
    assert not read_instance(tmp_path, memory=False).has_budgets


def test_recorded_edges(tmp_path: Path) -> None:
    problem = read_instance(tmp_path, edges="recorded")
    assert problem.num_edges == 1
    assert evaluate(problem, [1, 0, 0, 1]).objective == 2 + 3 + 3 * 0.5 + 7 + 3 * 30
    assert evaluate(read_instance(tmp_path), [1, 0, 0, 1]).objective == 2 + 3 + 3 * 0.5 + 7 + 30 + 2 * 10


def test_repeated_labels_get_numbers_and_strategies_coordinates(tmp_path: Path) -> None:
    problem = read_instance(tmp_path)
    assert tuple(problem.labels(3)) == ("RR->RR", "S0R->S0R", "S0R->S0R #2")
    places = problem.labels(3).coordinates
    assert places is not None
    assert (places[0] != places[1]).tolist() == [True, False]
    assert (places[1] == places[2]).all()


def test_coordinates_differ_where_strategies_do() -> None:
    found = coordinates(["S0R,RS1->S0S1", "S0R,RR->S0R", "<M(2, 3)>R->P[avg]R", "(RR,-)->RR", "->RS10"], 2)
    assert found is not None
    assert (found[0] != found[1]).tolist() == [False, True]
    assert coordinates(["S0R->S0"], 2) is None
    assert coordinates(["what?"], 2) is None
    assert coordinates([], 2) is not None


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda a, n: a.pop("unary"), "expected an array 'unary', but it is missing"),
        (lambda a, n: a.update(unary=np.zeros(3)), "unary: expected 9 entries, found 3"),
        (lambda a, n: a.update(unary=np.array(["x"] * 9)), "unary: expected a vector of numbers"),
        (lambda a, n: a.update(n_choices=np.array([2, 2, 2, 10**12])), "n_choices: expected sizes from 1"),
        (lambda a, n: a.update(choice_ptr=np.array([0, 2, 4, 6, 8])), "choice_ptr: expected the running sum"),
        (
            lambda a, n: a.update(edge_dst=np.array([9])),
            "edge_dst[0]: expected an index from 0 to 3, found 9",
        ),
        (lambda a, n: a.update(edge_dst=np.array([3])), "edge_mat[0]: expected a table of 2 x 3"),
        (lambda a, n: a.update(unc_count=np.array([5])), "unc_count[0]: expected a producer like"),
        (lambda a, n: a.update(mem_choice=np.array([0, 5, 0])), "mem_choice[1]: expected a choice"),
        (lambda a, n: n.pop("labels"), "labels: expected a list, but it is missing"),
        (lambda a, n: n.update(vars=[]), "vars: expected 4 entries"),
        (lambda a, n: n.update(labels=["RR->RR", 3]), "labels[1]: expected a string, found 3"),
        (lambda a, n: n["vars"][2].pop("name"), "vars[2].name: expected a string, but it is missing"),
    ],
)
def test_a_broken_instance_names_the_place(
    tmp_path: Path, change: Callable[[dict[str, np.ndarray], dict[str, Any]], Any], place: str
) -> None:
    arrays, names = instance()
    change(arrays, names)
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        ShardingFormat().read(write_instance(tmp_path, arrays, names))


def test_arrays_of_objects_and_false_sizes_are_never_loaded(tmp_path: Path) -> None:
    arrays, names = instance()
    path = write_instance(tmp_path, {**arrays, "mult": np.array([1, None, 2, 3], dtype=object)}, names)
    with pytest.raises(InvalidProblemError, match=r"mult: expected an \.npy array: arrays of type '\|O'"):
        ShardingFormat().read(path)
    path = write_instance(tmp_path, arrays, names)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members["mult.npy"] = header.getvalue()
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    with pytest.raises(InvalidProblemError, match="the header says 1000000000000000 values"):
        ShardingFormat().read(path)


def test_a_missing_half_is_named(tmp_path: Path) -> None:
    path = write_instance(tmp_path, *instance())
    assert ShardingFormat().read(path.with_suffix(".json")) == ShardingFormat().read(path)
    path.unlink()
    with pytest.raises(InvalidProblemError, match=re.escape("tiny.npz: cannot be read")):
        ShardingFormat().read(path.with_suffix(".json"))


# -- telling formats apart, compression ---------------------------------------------------------------------


def test_formats_are_told_by_name_and_else_by_content(tmp_path: Path) -> None:
    registry = load_registry()
    gap = tmp_path / "c0515_1"
    gap.write_text(GAP)
    packed = tmp_path / "model.bin"
    packed.write_bytes(lzma.compress(b"MARKOV\n1\n1\n0\n"))
    assert registry.format_for(gap).name == "gap"
    assert read_problem(gap).num_variables == 3
    assert registry.format_for(packed).name == "uai"
    for name, found in (
        ("a.uai.xz", "uai"),
        ("a.json.gz", "iopddl"),
        ("a.cfn", "cfn"),
        ("a.wcsp.bz2", "wcsp"),
    ):
        assert registry.format_for(tmp_path / name).name == found


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_damaged_compression_is_an_error_of_the_file(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    rng = np.random.default_rng(0)
    text = rng.integers(0, 256, 5000, dtype=np.uint8).tobytes()
    whole = compress(text)
    path = tmp_path / "f"
    path.write_bytes(whole + whole)
    assert read_bytes(path, 10_000) == text + text
    with pytest.raises(InvalidProblemError, match="max_bytes"):
        read_bytes(path, 9_999)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidProblemError, match="damaged"):
        read_bytes(path, 10_000)
    path.write_bytes(whole[:100] + b"\xff" * 50 + whole[150:])
    with pytest.raises(InvalidProblemError, match="damaged"):
        read_bytes(path, 10_000)
    with pytest.raises(InvalidProblemError, match="cannot be read"):
        read_bytes(tmp_path / "absent", 10)
