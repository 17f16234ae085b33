"""``berthage search``: peak memory, demands from a file, groups of one's own, and what is said when they clash."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")

from click.testing import CliRunner, Result

from berthage import load_registry
from berthage.cli.app import app
from berthage_torch import Constraints

Run = Callable[..., Result]
SMALL = ("search", "--model", "mlp", "--size", "batch=8192", "--size", "bias=False", "--mesh", "dp=4")
MIB = 2**20


@pytest.fixture(scope="module")
def run() -> Run:
    registry = load_registry()

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], obj=registry)

    return invoke


def document(done: Result) -> Any:
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_the_peak_is_told_and_kept_below_a_limit(run: Run) -> None:
    free = run(*SMALL, "--json", "-")
    memory = document(free)["memory"]
    assert f"memory     at most {memory['peak_bytes'] / MIB:.2f} MiB a rank, at {memory['node']}" in free.stderr
    assert sum(memory["by_kind"].values()) == memory["peak_bytes"]
    limit = int(memory["peak_bytes"] * 0.95)
    held = document(run(*SMALL, "--json", "-", "--peak-memory", limit))
    assert held["memory"]["peak_bytes"] <= limit
    assert held["objective"] > document(free)["objective"]
    assert held["constraints"]["peak_memory"]["limit"] == limit


def test_units_shares_and_optimizers_are_understood(run: Run) -> None:
    def peak(*more: str) -> Any:
        return document(run(*SMALL, "--json", "-", *more))

    asked = peak("--peak-memory", "2GiB", "--optimizer", "sgd", "--peak-memory-price", "0.5")
    assert asked["constraints"]["peak_memory"] == {"limit": 2 * 2**30, "optimizer": "sgd", "price": 0.5}
    assert asked["memory"]["by_kind"]["optimizer"] == 0
    share = peak("--peak-memory", "0.5", "--optimizer", "12")
    assert share["constraints"]["peak_memory"] == {"limit": 0.5, "optimizer": 12.0, "price": None}
    assert peak("--peak-memory", "none")["constraints"]["peak_memory"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--peak-memory", "much"), "bytes such as 60GiB, or a share"),
        (("--peak-memory", "1GiB", "--optimizer", "lion"), "no optimizer 'lion'"),
        (("--peak-memory", "0"), "not 0"),
        (("--tie-group", "layers.9.*"), "no node or parameter is named 'layers.9.*'"),
    ],
)
def test_what_cannot_be_meant_is_named(run: Run, words: tuple[str, ...], message: str) -> None:
    done = run(*SMALL, *words)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_pin_that_memory_cannot_bear_is_named_with_the_least_that_works(run: Run) -> None:
    words = (*SMALL, "--size", "layers=1", "--memory", "none", "--pin", "*.weight=R", "--json", "-", "--peak-memory")
    clash = run(*words, 110 * MIB)
    assert clash.exit_code == 3
    why = json.loads(clash.stdout)["infeasibility"]
    assert "peak memory" in why["constraints"]
    assert any(name.startswith("pin ") for name in why["constraints"])
    told = re.search(r"'peak memory' (?:that can be met is|can be met with) (\d+)", why["detail"])
    assert told is not None
    assert document(run(*words, told[1]))["memory"]["peak_bytes"] <= int(told[1])
    assert why["least_limit"] <= int(told[1])


def test_demands_come_from_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "demands.json"
    Constraints(inputs={"*": "S(0)"}, pins={"layers.0.up.weight": "S(1)"}).save(path)
    found = document(
        run(*SMALL, "--json", "-", "--constraints", path, "--pin", "layers.1.up.weight=S(0)", "--tie", "none")
    )
    demands = found["constraints"]
    assert demands["inputs"] == {"*": "S(0)"}
    assert demands["pins"] == {"layers.0.up.weight": "S(1)", "layers.1.up.weight": "S(0)"}
    assert demands["parameter_memory"] is None  # nothing of the model's


def test_groups_of_ones_own_are_tied(run: Run) -> None:
    done = run(*SMALL, "--json", "-", "--tie-group", "layers.0.up.weight,layers.1.up.weight")
    assert document(done)["tie"] == [["layers.0.up.weight", "layers.1.up.weight"]]
    untied = document(run(*SMALL, "--json", "-", "--tie", "none"))
    assert document(done)["variables"] == untied["variables"] - 1


def test_what_sizes_do_not_allow_is_told(run: Run) -> None:
    done = run(*SMALL[:3], "--size", "hidden=6", "--mesh", "dp=8", "--json", "-")
    assert any(each["empty"] for each in document(done)["left_out"])
    assert "left out   " in done.stderr
