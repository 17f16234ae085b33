"""Damaged files: always a problem or an error of ours, whatever happened to the bytes, and never for long."""

from __future__ import annotations

import gzip
import io
import json
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from berthage import BerthageError, PlacementProblem
from berthage_formats.cfn import CfnFormat
from berthage_formats.gap import GapFormat
from berthage_formats.iopddl import IopddlFormat
from berthage_formats.sharding import ShardingFormat
from berthage_formats.uai import UaiFormat
from berthage_formats.wcsp import WcspFormat

IOPDDL = json.dumps(
    {
        "problem": {
            "name": "f",
            "nodes": {"intervals": [[0, 4], [2, 6]], "costs": [[1, 2], [3]], "usages": [[5, 1], [2]]},
            "edges": {"nodes": [[0, 1], [1, 0]], "costs": [[10, 20], [10**18, 7]]},
            "usage_limit": 6,
        }
    }
).encode()
UAI = b"MARKOV\n2\n2 3\n3\n0\n1 0\n2 0 1\n1\n 0.5\n2\n 0.25 1\n6\n 0.1 0.2 0\n 1 2 3\n"
WCSP = b"net 2 3 4 100\n2 3\n0 5 0\n1 1 1 1\n2 7\n-2 0 1 3 2\n0 1 100\n1 2 8\n2 0 1 0 -1\n"
CFN = json.dumps(
    {
        "problem": {"name": "small", "mustbe": "<100.00"},
        "variables": {"v": ["a", "b", "c"], "w": 2},
        "functions": {
            "u": {"scope": ["w"], "costs": [0.25, "inf"]},
            "d": {"scope": ["v", "w"], "costs": [4.2, 3.67, -12.1, 7.1, -3.1, 100.0]},
            "e": {"scope": [0, 1], "costs": "s"},
            "s": {"scope": ["v", "w"], "defaultcost": 0.5, "costs": ["a", 0, 5, "c", 1, "-7.25"]},
        },
    }
).encode()
GAP = b" 2 3\n 5 1 4\n 2 6 3\n 3 2 1\n 2 2 2\n 4 3\n"
TEXTS: dict[str, tuple[Any, bytes, list[dict[str, Any]]]] = {
    "iopddl": (IopddlFormat(), IOPDDL, [{}]),
    "uai": (UaiFormat(), UAI, [{}, {"values": "cost"}, {"zero": "5"}]),
    "wcsp": (WcspFormat(), WCSP, [{}]),
    "cfn": (CfnFormat(), CFN, [{}]),
    "gap": (GapFormat(), GAP, [{}]),
}
NUMBERS = [
    b"0", b"-1", b"1", b"3", b"1000000000000", b"99999999999999999999999", b"-9223372036854775808", b"1e308",
    b"1e999", b"-1e999", b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"0.5", b"1e-400", b"true", b"null", b'"x"',
    b"[]", b"{}", b"[" * 3000, b"9" * 5000, b"\x00", b"\xff", b"",
]  # fmt: skip
SECONDS = 5.0


def mutate(data: bytes, draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    """A few random changes: bytes flipped, cut, doubled, and numbers swapped for awkward ones."""
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            return data
        at = draw(st.integers(0, len(data) - 1))
        way = draw(st.sampled_from(["flip", "cut", "drop", "double", "number", "number", "insert"]))
        if way == "flip":
            data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
        elif way == "cut":
            data = data[:at]
        elif way == "drop":
            data = data[:at] + data[at + draw(st.integers(1, 20)) :]
        elif way == "double":
            data = data[:at] + data[at : at + draw(st.integers(1, 20))] * 2 + data[at:]
        elif way == "insert":
            data = data[:at] + draw(st.sampled_from(NUMBERS)) + data[at:]
        else:
            digits = [i for i, byte in enumerate(data) if chr(byte) in "0123456789"]
            if digits:
                first = last = digits[at % len(digits)]
                while last < len(data) and chr(data[last]) in "0123456789.":
                    last += 1
                data = data[:first] + draw(st.sampled_from(NUMBERS)) + data[last:]
    return data


def sound(problem: PlacementProblem) -> bool:
    """No NaN and no -inf anywhere, and a digest can be taken of it."""
    tables = [table.to_dense() for table in problem.tables]
    return all(bool((costs > -np.inf).all()) for costs in [problem.unary, *tables]) and bool(problem.digest)


def read_or_refuse(read: Callable[[], PlacementProblem]) -> None:
    begin = time.perf_counter()
    problem, message = None, ""
    try:
        problem = read()
    except BerthageError as error:
        message = str(error)
    assert message.strip() if problem is None else sound(problem)
    assert time.perf_counter() - begin < SECONDS


@pytest.mark.parametrize("name", sorted(TEXTS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_a_mutated_file_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    form, valid, options = TEXTS[name]
    path = tmp_path / "file"
    path.write_bytes(mutate(valid, data.draw))
    read_or_refuse(lambda: form.read(path, max_cells=1 << 20, **data.draw(st.sampled_from(options))))


@pytest.mark.parametrize("name", sorted(TEXTS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_a_mutated_compressed_file_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    form, valid, _ = TEXTS[name]
    path = tmp_path / "file"
    path.write_bytes(mutate(gzip.compress(valid, mtime=0), data.draw))
    read_or_refuse(lambda: form.read(path, max_cells=1 << 20))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_huge_count_in_any_place_is_refused_before_it_is_allocated(tmp_path: Path, name: str) -> None:
    form, valid, _ = TEXTS[name]
    path = tmp_path / "file"
    digits = [i for i, byte in enumerate(valid) if chr(byte).isdigit()]
    for at in digits:
        path.write_bytes(valid[:at] + b"1000000000000" + valid[at + 1 :])
        read_or_refuse(lambda: form.read(path))


def archive() -> tuple[bytes, bytes]:
    """A valid sharding instance: the archive and the names."""
    arrays: dict[str, Any] = {
        "n_choices": [2, 2], "mult": [1, 3], "choice_ptr": [0, 2, 4], "label_idx": [0, 1, 0, 1],
        "unary": [1.0, 2.0, 3.0, np.inf], "user_ok": [True, True, True, False], "edge_src": [0], "edge_dst": [1],
        "edge_mat": [0], "mat_rows": [2], "mat_cols": [2], "mat_ptr": [0, 4], "mat_cost": [10.0, 20.0, 30.0, np.inf],
        "hard_a": [0], "hard_b": [1], "hard_kind": [0], "hard_ptr": [0, 4], "hard_ok": [True, False, False, True],
        "mem_var": [0], "mem_choice": [0], "mem_coef": [0.5], "mem_bounds": [0.0, 1.25],
        "unc_edge": [0], "unc_src": [0], "unc_count": [2],
    }  # fmt: skip
    stream = io.BytesIO()
    np.savez(stream, **{name: np.array(values) for name, values in arrays.items()})
    names = {
        "mesh": [4, 2],
        "labels": ["RR->RR", "S0R->S0R"],
        "hard_kinds": ["tie"],
        "vars": [{"name": "a"}, {"name": "b"}],
    }
    return stream.getvalue(), json.dumps(names).encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(data=st.data())
def test_a_mutated_sharding_instance_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    numbers, names = archive()
    way = data.draw(st.sampled_from(["names", "archive", "member"]))
    if way == "names":
        names = mutate(names, data.draw)
    elif way == "archive":
        numbers = mutate(numbers, data.draw)
    else:
        with zipfile.ZipFile(io.BytesIO(numbers)) as old:
            members = {name: old.read(name) for name in old.namelist()}
        chosen = data.draw(st.sampled_from(sorted(members)))
        members[chosen] = mutate(members[chosen], data.draw)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as new:
            for name, content in members.items():
                new.writestr(name, content)
        numbers = stream.getvalue()
    (tmp_path / "f.npz").write_bytes(numbers)
    (tmp_path / "f.json").write_bytes(names)
    read_or_refuse(lambda: ShardingFormat().read(tmp_path / "f.npz", max_cells=1 << 20))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_unchanged_files_are_valid(tmp_path: Path, name: str) -> None:
    form, valid, options = TEXTS[name]
    (tmp_path / "file").write_bytes(valid)
    assert all(sound(form.read(tmp_path / "file", **chosen)) for chosen in options)
    numbers, names = archive()
    (tmp_path / "f.npz").write_bytes(numbers)
    (tmp_path / "f.json").write_bytes(names)
    assert sound(ShardingFormat().read(tmp_path / "f.npz"))
