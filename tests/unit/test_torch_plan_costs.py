"""Where the time of a plan goes: the parts add up, and the collectives that will run are listed."""

from __future__ import annotations

import math

import pytest

from berthage_torch import Constraints, MixedPrecision, Plan, search
from berthage_torch.models import zoo

KINDS = {"all-gather", "reduce-scatter", "all-reduce", "all-to-all"}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(zoo.build("llama3-1b", layers=2), None, "dp=8,tp=8")


def test_the_parts_add_up_to_the_objective(plan: Plan) -> None:
    rows = plan.costs()
    assert math.fsum(row.us for row in rows) == pytest.approx(plan.objective, rel=1e-12)
    assert len({(row.phase, row.kind, row.mesh_dim) for row in rows}) == len(rows)
    assert math.fsum(row.us for row in rows if row.kind == "compute") == pytest.approx(plan.compute_us, rel=1e-12)


def test_any_change_of_placement_costs_one_microsecond_besides_its_steps(plan: Plan) -> None:
    changes = [edge for edge in plan.edges if edge.before != edge.after]
    transitions = [row for row in plan.costs() if row.kind == "transition"]
    assert sum(row.count for row in transitions) == len(changes)
    assert math.fsum(row.us for row in transitions) == pytest.approx(len(changes) * 1.0, rel=1e-9)


def test_collectives_are_the_steps_that_exchange_data(plan: Plan) -> None:
    listed = plan.collectives()
    assert listed
    assert {each.kind for each in listed} <= KINDS
    steps = [step for edge in plan.edges for step in edge.path if step.kind in KINDS]
    assert [(each.kind, each.mesh_dim, each.bytes, each.us) for each in listed] == [
        (step.kind, step.dim, step.bytes, step.us) for step in steps
    ]
    rows = [row for row in plan.costs() if row.kind in KINDS]
    assert sum(row.count for row in rows) == len(listed)
    assert sum(row.bytes for row in rows) == sum(each.bytes for each in listed)
    assert all(each.algorithm for each in listed)


def test_a_collective_has_the_phase_of_its_user(plan: Plan) -> None:
    nodes = {node.name: node for node in plan.nodes}
    users: dict[tuple[str, int], set[str]] = {}
    for edge in plan.edges:
        if edge.consumer:
            users.setdefault((edge.producer, edge.output), set()).add(nodes[edge.consumer].phase)
    for each in plan.collectives():
        if each.consumer:
            assert each.phase == nodes[each.consumer].phase
        else:
            assert each.phase == min(users[each.node, each.output], key=["forward", "backward"].index)
    assert {each.phase for each in plan.collectives()} == {"forward", "backward"}


def test_data_parallelism_sums_each_gradient_once() -> None:
    """Replicated weights, split rows: one all-reduce for each of the four parameters, of the whole gradient."""
    pins = {f"layers.0.{name}": "R" for name in ("up.weight", "up.bias", "down.weight", "down.bias")}
    demands = Constraints(inputs={"*": "S(0)"}, outputs={"*": "S(0)"}, pins=pins)
    spec = zoo.build("mlp", layers=1, dim=64, hidden=256, batch=2**20)
    plan = search(spec, None, "dp=4", constraints=demands, policy=MixedPrecision(None, None))
    assert [(each.kind, each.phase) for each in plan.collectives()] == [("all-reduce", "backward")] * 4
    assert sorted(each.bytes for each in plan.collectives()) == [64 * 4, 256 * 4, 64 * 256 * 4, 64 * 256 * 4]


def test_a_plan_without_moves_has_no_collectives() -> None:
    plan = search(zoo.build("mlp", layers=1, dim=64, hidden=64, batch=64), None, "dp=1")
    assert plan.collectives() == ()
    assert {row.kind for row in plan.costs()} == {"compute"}


def test_copies_of_a_layer_name_the_node_they_decided_with(plan: Plan) -> None:
    node = plan.node("layers.1.attention.wq/mm")
    assert node.group == "layers.0.attention.wq/mm"
    assert plan.node(node.group).group == node.group
    assert (node.inputs, node.outputs) == (plan.node(node.group).inputs, plan.node(node.group).outputs)
    assert plan.node("norm.weight").group == "norm.weight"
