"""Plans: what they add up to, kept files, refusals, differences."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from berthage import InvalidProblemError, SolveParams
from berthage_torch import Constraints, MixedPrecision, Plan, search
from berthage_torch.commands import words
from berthage_torch.models import zoo
from berthage_torch.plans.settings import policy_of


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(zoo.build("llama3-1b", layers=2), None, "dp=8,tp=8")


@pytest.fixture(scope="module")
def small() -> Plan:
    return search(zoo.build("mlp"), None, "dp=2,tp=2")


def test_nodes_and_moves_add_up_to_the_objective(plan: Plan) -> None:
    total = math.fsum([n.compute_us for n in plan.nodes] + [e.us for e in plan.edges])
    assert total == pytest.approx(plan.objective, rel=1e-9)
    assert plan.compute_us + plan.communication_us == pytest.approx(plan.objective, rel=1e-9)
    assert plan.bound <= plan.objective
    assert plan.relative_gap < 1e-9


def test_every_move_ends_where_its_path_does(plan: Plan) -> None:
    moves = [edge for edge in plan.edges if edge.path]
    assert moves
    assert all(edge.path[-1][2] == edge.after and edge.before != edge.after for edge in moves)
    assert all(edge.us == 0.0 and not edge.path for edge in plan.edges if edge.before == edge.after)


def test_edges_fit_the_nodes_they_join(plan: Plan) -> None:
    nodes = {node.name: node for node in plan.nodes}
    shared = {(e.producer, e.output): e.after for e in plan.edges if not e.consumer}
    for edge in plan.edges:
        start = nodes[edge.producer].outputs[edge.output]
        if edge.consumer:
            assert edge.before == shared.get((edge.producer, edge.output), start)
            assert edge.after == nodes[edge.consumer].inputs[edge.position]
        else:
            assert edge.before == start


def test_a_plan_that_was_kept_is_the_same(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again == plan
    assert again.placement_hash() == plan.placement_hash()
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "plan.json").read_bytes()


def test_a_plan_without_a_bound_is_kept_as_strict_json(small: Plan, tmp_path: Path) -> None:
    unproved = dataclasses.replace(small, bound=-math.inf)
    unproved.save(tmp_path / "plan.json")

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads((tmp_path / "plan.json").read_text(), parse_constant=refuse)["result"]["bound"] is None
    assert Plan.load(tmp_path / "plan.json") == unproved


def move_a_node(document: dict[str, Any]) -> None:
    document["nodes"][0]["outputs"] = ["RR"]


def drop_a_node(document: dict[str, Any]) -> None:
    del document["nodes"][3]


@pytest.mark.parametrize("change", [move_a_node, drop_a_node])
def test_a_plan_that_was_changed_is_refused(
    small: Plan, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    path = tmp_path / "plan.json"
    small.save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidProblemError, match="changed or damaged"):
        Plan.load(path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format": "berthage-plan"}', '{"format": "berthage-plan", "format_version": 9}', "[" * 999],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InvalidProblemError, match=r"plan\.json: not a plan"):
        Plan.load(tmp_path / "plan.json")


def test_missing_parts_and_wrong_types_are_refused(small: Plan, tmp_path: Path) -> None:
    small.save(tmp_path / "plan.json")
    whole = json.loads((tmp_path / "plan.json").read_text())
    broken = tmp_path / "broken.json"
    for key in ("nodes", "edges", "settings", "result", "placement_hash"):
        refused(broken, {k: v for k, v in whole.items() if k != key}, f"{key} is missing")
    for key in ("nodes", "edges", "settings", "result"):
        refused(broken, {**whole, key: 7}, f"{key}: ")
    for key, value in whole["settings"].items():
        rest = {k: v for k, v in whole["settings"].items() if k != key}
        refused(broken, {**whole, "settings": rest}, f"settings.{key} is missing")
        if not isinstance(value, str) and value is not None:
            refused(broken, {**whole, "settings": {**whole["settings"], key: "x"}}, f"settings.{key}: ")
    for key, value in whole["result"].items():
        rest = {k: v for k, v in whole["result"].items() if k != key}
        refused(broken, {**whole, "result": rest}, f"result: '{key}' is missing")
        if not isinstance(value, str):
            refused(broken, {**whole, "result": {**whole["result"], key: "x"}}, "result: 'x' is no number")


def refused(path: Path, document: dict[str, Any], said: str) -> None:
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidProblemError, match=rf"{path.name}: {said}.*search it again with `berthage search"):
        Plan.load(path)


def test_a_plan_of_an_earlier_version_is_refused_with_the_way_out(small: Plan, tmp_path: Path) -> None:
    small.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text()) | {"format_version": 1}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InvalidProblemError, match=r"version 2 but of 1: .*search it again with `berthage search"):
        Plan.load(tmp_path / "plan.json")


def test_costs_that_were_changed_are_refused(small: Plan, tmp_path: Path) -> None:
    small.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    document["result"]["objective"] *= 0.5
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InvalidProblemError, match=r"add up to .* changed or damaged"):
        Plan.load(tmp_path / "plan.json")


def _last_step(edge: dict[str, Any]) -> None:
    edge["path"].pop()


def _all_steps(edge: dict[str, Any]) -> None:
    edge["path"] = []


def _kind(edge: dict[str, Any]) -> None:
    edge["path"][0]["kind"] = "relabel"


def _dim(edge: dict[str, Any]) -> None:
    edge["path"][0]["dim"] = "elsewhere"


def _price(edge: dict[str, Any]) -> None:
    edge["path"][0]["us"] += 1000.0


def _begins(edge: dict[str, Any]) -> None:
    edge["before"] = edge["after"]


def _position(edge: dict[str, Any]) -> None:
    edge["position"] = 99


@pytest.mark.parametrize("change", [_last_step, _all_steps, _kind, _dim, _price, _begins, _position])
def test_moves_that_would_not_do_what_they_say_are_refused(
    small: Plan, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    """Applied, such a plan would give wrong numbers and no error."""
    small.save(tmp_path / "plan.json")
    document = json.loads((tmp_path / "plan.json").read_text())
    change(next(edge for edge in document["edges"] if edge["path"] and edge["consumer"]))
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(InvalidProblemError, match=r"plan\.json: the move of .* is inconsistent"):
        Plan.load(tmp_path / "plan.json")


def test_how_it_was_made_is_kept_apart_from_the_placements(small: Plan, tmp_path: Path) -> None:
    small.save(tmp_path / "plan.json")
    made = json.loads((tmp_path / "plan.json").read_text())["settings"]
    assert made["model"]["origin"] == "mlp"
    assert made["model"]["sizes"]["hidden"] == 4096
    assert made["inputs"] == [{"name": "input:args[0]", "shape": [1024, 1024], "dtype": "float32"}]
    assert made["mesh"] == {"dp": 2, "tp": 2}
    assert made["cost_model"]["asked"] == made["cost_model"]["name"] == "nccl-h100"
    assert made["policy"] == {"param_dtype": "bfloat16", "reduce_dtype": "float32", "cast_inputs": True}
    assert made["constraints"]["inputs"] == {"input:args[0]": ["S(0)", "R"]}
    assert (made["solver"]["name"], made["solver"]["seed"], made["tie"]) == ("trws", 0, "layers")


def test_demands_and_effort_come_back_as_they_were(tmp_path: Path) -> None:
    demands = Constraints(pins={"layers.*.up.weight": ("S(0)", "R")}, parameter_memory=(0.0, 1e9))
    asked = SolveParams(seed=7, gap=0.25, time_limit=60.0)
    policy = MixedPrecision(None, torch.float32)
    plan = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands, params=asked, policy=policy, presolve=False)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.constraints == demands
    assert again.settings.params == asked
    assert again.settings.presolve is False
    assert policy_of(again.settings.policy) == policy


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda plan: pickle.loads(pickle.dumps(plan))])  # noqa: S301
def test_copies_are_equal_with_equal_hashes(carry: Callable[[Plan], Plan]) -> None:
    plan = search(torch.nn.Linear(64, 64), torch.zeros(64, 64), "dp=2")
    again = carry(plan)
    assert again is not plan
    assert again == plan
    assert len({again, plan, dataclasses.replace(plan, objective=0.0)}) == 2
    assert again.to_json() == plan.to_json()


def test_a_plan_cannot_be_changed(small: Plan) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        small.objective = 0.0  # type: ignore[misc]


def test_the_hash_is_of_placements_alone(small: Plan) -> None:
    other = dataclasses.replace(small, objective=1.0, bound=0.0, solver="x", cost_model=("y", "z"), model="w")
    assert other.placement_hash() == small.placement_hash()
    moved = dataclasses.replace(small.nodes[0], outputs=("RR",))
    assert dataclasses.replace(small, nodes=(moved, *small.nodes[1:])).placement_hash() != small.placement_hash()
    assert dataclasses.replace(small, mesh={"dp": 4, "tp": 1}).placement_hash() != small.placement_hash()


def test_nodes_are_found_by_name_and_by_parameter(small: Plan) -> None:
    assert small.node("layers.0.up.weight").op == "parameter"
    assert small.node("args[0]").op == "input"
    assert small.node("output").name == "output"
    with pytest.raises(InvalidProblemError, match="mlp has no node or parameter 'nothing'"):
        small.node("nothing")


class TestWords:
    def test_layers_are_told_once(self) -> None:
        assert words.over_layers("layers.12.attention.wq/mm_1") == "layers.*.attention.wq/mm_1"
        assert words.over_layers("0/mm") == "*/mm"
        assert words.over_layers("norm.weight") == "norm.weight"
        assert words.over_layers("input:args[0]") == "input:args[0]"

    def test_parameters_of_layers_share_a_row(self, plan: Plan) -> None:
        rows = {row.name: row for row in words.parameters(plan)}
        assert rows["layers.*.attention.wq.weight"].copies == 2
        assert sum(row.copies for row in rows.values()) == sum(n.op == "parameter" for n in plan.nodes)

    def test_moves_are_in_order_and_all_of_them_are_the_communication(self, plan: Plan) -> None:
        moves = words.dearest_moves(plan, 10**6)
        assert [row.us for row in moves] == sorted((row.us for row in moves), reverse=True)
        assert math.fsum(row.us for row in moves) == pytest.approx(plan.communication_us, rel=1e-12)
        assert words.dearest_moves(plan, 3) == moves[:3]
