"""Plans: what they add up to, kept files, refusals, differences."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berthage import InvalidProblemError
from berthage_torch import Constraints, Plan, search
from berthage_torch.commands import words
from berthage_torch.models import zoo


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

    assert json.loads((tmp_path / "plan.json").read_text(), parse_constant=refuse)["bound"] is None
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
    for key in ("nodes", "edges", "mesh", "objective", "cost_model"):
        for broken in ({k: v for k, v in whole.items() if k != key}, {**whole, key: 7 if key != "objective" else []}):
            (tmp_path / "broken.json").write_text(json.dumps(broken))
            with pytest.raises(InvalidProblemError, match=r"broken\.json"):
                Plan.load(tmp_path / "broken.json")


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


def test_a_difference_names_what_moved(small: Plan) -> None:
    assert small.diff(small) == ()
    demands = Constraints(pins={"layers.0.up.weight": "RR"}, inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"})
    other = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands, tie="none")
    changes = {change.name: change for change in small.diff(other)}
    change = changes["layers.0.up.weight"]
    assert change.before is not None
    assert change.after is not None
    assert change.before.outputs != change.after.outputs == ("RR",)
    shorter = dataclasses.replace(small, nodes=small.nodes[:-1])
    (gone,) = small.diff(shorter)
    assert (gone.name, gone.after) == (small.nodes[-1].name, None)
    assert shorter.diff(small)[0].before is None


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
