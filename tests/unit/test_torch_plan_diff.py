"""Plans beside each other: what lies elsewhere, what that costs, and what cannot be compared."""

from __future__ import annotations

import dataclasses
import math

import pytest

from berthage import InvalidProblemError
from berthage_torch import Constraints, Difference, Plan, search
from berthage_torch.models import zoo


@pytest.fixture(scope="module")
def free() -> Plan:
    return search(zoo.build("mlp"), None, "dp=2,tp=2")


@pytest.fixture(scope="module")
def pinned() -> Plan:
    demands = Constraints(pins={"layers.0.up.weight": "RR"}, inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"})
    return search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands, tie="none")


def test_parameters_of_other_sizes_are_noted() -> None:
    first, second = (search(zoo.build("mlp", dim=64, hidden=hidden), None, "dp=2") for hidden in (64, 128))
    assert any(
        "layers.0.up.weight is float32 (64, 64) and float32 (128, 64), and" in note for note in first.diff(second).notes
    )


def test_a_plan_does_not_differ_from_itself(free: Plan) -> None:
    same = free.diff(free)
    assert same.changes == same.notes == ()
    assert same.objective_us == 0.0
    assert all(row.before == row.after for row in same.costs)


def adds_up(difference: Difference, first: Plan, second: Plan) -> None:
    assert difference.objective_us == second.objective - first.objective
    by_node = math.fsum(change.compute_us + change.moves_us for change in difference.changes)
    assert by_node == pytest.approx(difference.objective_us, abs=1e-6)
    assert math.fsum(row.before for row in difference.costs) == pytest.approx(first.objective, rel=1e-12)
    assert math.fsum(row.after for row in difference.costs) == pytest.approx(second.objective, rel=1e-12)


def test_what_moved_is_named_and_its_costs_add_up(free: Plan, pinned: Plan) -> None:
    difference = free.diff(pinned)
    adds_up(difference, free, pinned)
    change = {change.name: change for change in difference.placed_elsewhere}["layers.0.up.weight"]
    assert change.before is not None
    assert change.after is not None
    assert change.before.outputs != change.after.outputs == ("RR",)
    back = pinned.diff(free)
    assert back.objective_us == -difference.objective_us
    assert [each.name for each in back.changes] == [each.name for each in difference.changes]


def test_a_node_that_only_costs_more_is_no_change_of_placement(free: Plan) -> None:
    (slow,) = [n for n in free.nodes if n.name == "layers.0.up/mm" or n.name == "layers.0.up/addmm"][:1]
    slower = dataclasses.replace(slow, compute_us=slow.compute_us + 5.0)
    nodes = tuple(slower if node is slow else node for node in free.nodes)
    difference = free.diff(dataclasses.replace(free, nodes=nodes, objective=free.objective + 5.0))
    (change,) = difference.changes
    assert (change.name, change.placed_elsewhere) == (slow.name, False)
    assert change.compute_us == pytest.approx(5.0)


def test_other_meshes_and_shapes_and_cost_models_are_said(free: Plan) -> None:
    other = search(zoo.build("mlp", batch=512), None, "dp=4", cost_model="nccl-a100")
    difference = free.diff(other)
    adds_up(difference, free, other)
    assert [note.split(":")[0] for note in difference.notes] == [
        "different meshes", "different cost models", "different inputs"
    ]  # fmt: skip
    assert "dp=2, tp=2 and dp=4" in difference.notes[0]
    assert "(1024, 1024) and float32 (512, 1024)" in difference.notes[2]


def test_a_node_that_only_one_plan_has_is_named(free: Plan) -> None:
    longer = search(zoo.build("mlp", layers=3), None, "dp=2,tp=2")
    difference = free.diff(longer)
    adds_up(difference, free, longer)
    assert {c.before for c in difference.changes if c.name.startswith("layers.2.")} == {None}
    assert any("in one of the plans only" in note for note in difference.notes)


def test_models_with_nothing_in_common_are_refused(free: Plan) -> None:
    stranger = dataclasses.replace(
        free, model="other", nodes=tuple(dataclasses.replace(n, name=f"x.{n.name}") for n in free.nodes)
    )
    with pytest.raises(InvalidProblemError, match="different models, mlp and other"):
        free.diff(stranger)
