"""Plans at other shapes and prices: placements stay, costs are made anew, and what cannot be is named."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from berthage import InvalidProblemError
from berthage_torch import Constraints, PeakMemory, Plan, run_search, search
from berthage_torch.models import zoo

SMALL = {"layers": 1, "dim": 256, "heads": 8, "kv_heads": 4, "vocab": 1024}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(zoo.build("llama3-1b", **SMALL, sequence=2048), None, "dp=2,tp=2")


def test_saved_at_2048_and_loaded_at_512(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    found = Plan.load(tmp_path / "plan.json").reprice(sizes={"sequence": 512})
    short = found.require()
    assert short.placement_hash() == plan.placement_hash()
    assert short.settings.inputs[0].shape == (16, 512)
    assert short.settings.origin.sizes["sequence"] == 512
    assert (short.bound, short.termination) == (-math.inf, "repriced")
    assert found.broken == found.misfits == ()
    # Costs are those of the new shapes: less to compute and less to move, and they add up.
    assert short.objective == pytest.approx(math.fsum(row.us for row in short.costs()), rel=1e-9)
    assert short.compute_us < plan.compute_us
    assert sum(c.bytes for c in short.collectives()) < sum(c.bytes for c in plan.collectives())
    difference = found.difference
    assert difference is not None
    assert difference.objective_us == short.objective - plan.objective < 0
    assert difference.placed_elsewhere == ()
    assert difference.notes == ("different inputs: input:args[0] is int64 (16, 2048) and int64 (16, 512)",)
    # What was found for these shapes can only be better.
    best = search(zoo.build("llama3-1b", **SMALL, sequence=512), None, "dp=2,tp=2")
    assert best.graph_key == short.graph_key
    assert best.objective <= short.objective + 1e-6


def test_there_and_back_again_are_the_old_costs(plan: Plan) -> None:
    back = plan.reprice(sizes={"sequence": 1024}).require().reprice(sizes={"sequence": 2048}).require()
    assert (back.nodes, back.edges, back.objective) == (plan.nodes, plan.edges, plan.objective)
    assert back.graph_key == plan.graph_key


def test_another_cost_model(plan: Plan, tmp_path: Path) -> None:
    found = plan.reprice(cost_model="nccl-a100")
    slow = found.require()
    assert slow.cost_model[0] == slow.settings.cost_model == "nccl-a100"
    assert slow.placement_hash() == plan.placement_hash()
    assert slow.compute_us > plan.compute_us
    assert found.difference is not None
    assert found.difference.notes == ("different cost models: nccl-h100 and nccl-a100",)
    slow.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == slow
    assert slow.reprice(cost_model="nccl-h100").require().edges == plan.edges


def test_placements_that_are_impossible_are_named(plan: Plan) -> None:
    found = plan.reprice(sizes={"batch": 1})
    assert found.plan is found.difference is None
    first = found.misfits[0]
    assert (first.node, first.placement) == ("input:args[0]", "S(0)R")
    assert first.why == "its output 0 of shape (1, 2048) cannot be S(0)R"
    with pytest.raises(InvalidProblemError, match=r"impossible there: 'input:args\[0\]' as S\(0\)R.*Search again"):
        found.require()


def test_demands_that_are_not_met_any_more_are_named() -> None:
    demands = Constraints(parameter_memory=(0, 40_000_000))
    plan = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands)
    assert plan.reprice(sizes={"batch": 64}).broken == ()
    wide = plan.reprice(sizes={"hidden": 32768})
    assert wide.broken == ("parameter memory",)
    assert wide.require().objective > plan.objective


def test_memory_over_time_is_looked_at_again(tmp_path: Path) -> None:
    """A limit that holds is broken by a larger batch; one with a price costs more there, a row of its own."""
    hard, soft = (
        Constraints(inputs={"*": "S(0)R"}, peak_memory=PeakMemory(8.5e7, price=price)) for price in (None, 1e-6)
    )
    plan = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=hard)
    assert plan.reprice().broken == ()
    assert plan.reprice(sizes={"batch": 32768}).broken == ("peak memory",)
    priced = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=soft).reprice(sizes={"batch": 32768})
    costly = priced.require()
    assert (priced.broken, costly.penalty_us > 0) == ((), True)
    assert math.fsum(row.us for row in costly.costs()) == pytest.approx(costly.objective, rel=1e-9)
    (row,) = (row for row in costly.costs() if row.kind == "penalty")
    assert row.us == costly.penalty_us
    costly.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == costly


def test_another_model_is_refused_with_what_differs(plan: Plan) -> None:
    with pytest.raises(InvalidProblemError, match=r"not the one that the plan is of \(llama3-1b\).*new \(.*layers\.1"):
        plan.reprice(sizes={"layers": 2})
    with pytest.raises(InvalidProblemError, match="sizes are those of a model of the zoo"):
        plan.reprice(model=zoo.build("mlp"), sizes={"batch": 2})


def test_a_plan_whose_copies_were_not_tied_is_priced() -> None:
    demands = Constraints(pins={"layers.0.up.weight": "RR", "layers.1.up.weight": "RS(0)"})
    plan = search(zoo.build("mlp", layers=3), None, "dp=2,tp=2", constraints=demands, tie="none")
    assert plan.node("layers.1.up.weight").outputs != plan.node("layers.0.up.weight").outputs
    again = plan.reprice(sizes={"batch": 1024}).require()
    assert (again.nodes, again.edges) == (plan.nodes, plan.edges)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + x


def test_a_model_that_is_handed_over_at_another_batch() -> None:
    plan = search(Twice(), torch.zeros(256, 64), "dp=4")
    bigger = plan.reprice(model=Twice(), inputs=torch.zeros(1024, 64)).require()
    assert bigger.placement_hash() == plan.placement_hash()
    assert bigger.settings.inputs[0].shape == (1024, 64)
    with pytest.raises(InvalidProblemError, match="hand it over"):
        plan.reprice(cost_model="nccl-a100")


class TestLifeCycle:
    """A demand that was taken away is away, whatever was saved in between."""

    def test_add_remove_save_load_solve_is_never_having_added(self, tmp_path: Path) -> None:
        def solved(demands: Constraints) -> Plan:
            return search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands)

        free = Constraints(inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"})
        never = solved(free)
        pinned = solved(free.with_(pins={"layers.*.up.weight": "RR"}, parameter_memory="least"))
        assert pinned.placement_hash() != never.placement_hash()
        pinned.save(tmp_path / "pinned.json")
        loaded = Plan.load(tmp_path / "pinned.json").constraints
        assert "pin layers.*.up.weight" in loaded.names
        less = solved(loaded.without("pin layers.*.up.weight", "parameter memory"))
        assert less == never
        less.save(tmp_path / "less.json")
        again = solved(Plan.load(tmp_path / "less.json").constraints)
        assert again == never

    def test_placements_are_no_demands(self, tmp_path: Path) -> None:
        """A saved plan demands what it was asked, not where its tensors happened to lie."""
        plan = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=Constraints())
        plan.save(tmp_path / "plan.json")
        assert Plan.load(tmp_path / "plan.json").constraints == Constraints()

    def test_what_a_search_demands_is_what_its_plan_says(self) -> None:
        found = run_search(zoo.build("mlp"), None, "dp=2,tp=2")
        assert found.plan is not None
        assert found.plan.constraints == found.constraints
        assert dataclasses.replace(found.plan.constraints, parameter_memory=None).names
