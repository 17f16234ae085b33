"""Demands as values: listed, added, taken away, saved, and met or explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

from berthage import InvalidProblemError
from berthage_torch import Constraints, SearchResult, hint, run_search, with_sharding_constraint
from berthage_torch.models import zoo
from berthage_torch.searching.constraints import PeakMemory

FULL = Constraints(
    inputs={"*": ("S(0)", "R")},
    outputs={"output": "S(0)R"},
    pins={"layers.*.up.weight": "RS(0)"},
    parameter_memory=(0, 0.5),
    peak_memory=0.9,
)


class TestNames:
    def test_every_demand_has_one(self) -> None:
        assert FULL.names == ("input *", "output output", "pin layers.*.up.weight", "parameter memory", "peak memory")
        assert Constraints().names == ()

    @pytest.mark.parametrize("name", FULL.names)
    def test_each_can_be_taken_away_by_it(self, name: str) -> None:
        rest = FULL.without(name)
        assert rest.names == tuple(other for other in FULL.names if other != name)
        assert FULL.without(*FULL.names) == Constraints()
        assert name in FULL.names  # the original is as it was

    def test_a_name_that_is_not_there_is_told_with_what_is(self) -> None:
        with pytest.raises(InvalidProblemError, match=r"'input x'.*did you mean 'input \*'"):
            FULL.without("input x")
        with pytest.raises(InvalidProblemError, match="There is: nothing"):
            Constraints().without("peak memory")


class TestComposition:
    def test_demands_add_up_and_the_later_one_stands(self) -> None:
        more = FULL.with_(pins={"norm": "RR", "layers.*.up.weight": "RR"}, parameter_memory="least")
        assert more.pins == {"layers.*.up.weight": "RR", "norm": "RR"}
        assert more.parameter_memory == "least"
        assert more.inputs == FULL.inputs
        assert more.peak_memory == FULL.peak_memory

    def test_nothing_can_be_changed_in_place(self) -> None:
        pins = {"a": "R"}
        demands = Constraints(pins=pins)
        pins["b"] = "R"
        assert demands.names == ("pin a",)
        with pytest.raises(TypeError):
            demands.pins["b"] = "R"  # type: ignore[index]

    def test_a_number_is_the_limit_of_peak_memory(self) -> None:
        assert Constraints(peak_memory=2**30) == Constraints(peak_memory=PeakMemory(2**30))

    @pytest.mark.parametrize(
        ("limit", "more", "message"),
        [
            (0, {}, "not 0"),
            (1, {"price": -1.0}, "not -1"),
            (1, {"optimizer": "lion"}, "there are none, sgd"),
            (1, {"optimizer": -4}, "not -4"),
        ],
    )
    def test_what_peak_memory_cannot_be(self, limit: float, more: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidProblemError, match=message):
            PeakMemory(limit, **more)


class TestFiles:
    @pytest.mark.parametrize("demands", [Constraints(), FULL, FULL.with_(parameter_memory="least")])
    def test_what_is_saved_is_loaded(self, demands: Constraints, tmp_path: Path) -> None:
        demands.save(tmp_path / "demands.json")
        assert Constraints.load(tmp_path / "demands.json") == demands

    @pytest.mark.parametrize(
        "text",
        ["", "[]", '{"format": "berthage-plan", "format_version": 1}', '{"format": "berthage-constraints"}'],
    )
    def test_what_is_none_is_refused(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "demands.json"
        path.write_text(text)
        with pytest.raises(InvalidProblemError, match=r"demands\.json: not constraints"):
            Constraints.load(path)

    def test_another_version_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "demands.json"
        FULL.save(path)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 2}))
        with pytest.raises(InvalidProblemError, match="format version 1"):
            Constraints.load(path)


def test_a_demand_added_taken_away_saved_and_loaded_was_never_there(tmp_path: Path) -> None:
    base = Constraints(inputs={"*": "S(0)"}, parameter_memory="least")
    base.with_(pins={"layers.*": "R"}, outputs={"*": "R"}).without("pin layers.*", "output *").save(tmp_path / "d.json")
    spec = zoo.build("mlp")
    first, second = (
        run_search(spec, None, "x=4", constraints=c) for c in (base, Constraints.load(tmp_path / "d.json"))
    )
    assert first.problem == second.problem
    assert first.result.objective == second.result.objective
    assert first.plan is not None
    assert second.plan is not None
    assert first.plan.placement_hash() == second.plan.placement_hash()


class Hinted(nn.Module):
    """Says in its code where the hidden layer lies."""

    def __init__(self, hint: Any, say: Any = with_sharding_constraint) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256, bias=False), nn.Linear(256, 64, bias=False)
        self._hint, self._say = hint, say

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self._say(torch.relu(self.up(x)), self._hint)
        return self.down(h)  # type: ignore[no-any-return]


class TestHints:
    def search(self, module: nn.Module, **demands: Any) -> SearchResult:
        return run_search(module, (torch.zeros(32, 64),), "dp=2,tp=2", constraints=Constraints(**demands))

    @pytest.mark.parametrize("say", [with_sharding_constraint, hint])
    @pytest.mark.parametrize(
        ("asked", "placed"),
        [({"tp": "S(1)"}, "RS(1)"), (("S(0)", "R"), "S(0)R"), ((Shard(1), Replicate()), "S(1)R")],
    )
    def test_what_model_code_says_holds(self, say: Any, asked: Any, placed: str) -> None:
        found = self.search(Hinted(asked, say))
        assert found.plan is not None
        (node,) = [node for node in found.built.graph.nodes if node.hint is not None]
        assert found.plan.node(node.name).outputs == (placed,)
        assert f"hint {node.name}" in found.problem.constraint_names

    def test_it_can_be_passed_over_and_taken_away(self) -> None:
        module = Hinted({"tp": "S(1)"})
        free = self.search(module, hints=False)
        (node,) = [node for node in free.built.graph.nodes if node.hint is not None]
        assert f"hint {node.name}" not in free.problem.constraint_names
        held = self.search(module)
        assert held.problem.without(f"hint {node.name}").problem == free.problem

    def test_one_for_another_mesh_is_named(self) -> None:
        with pytest.raises(InvalidProblemError, match=r"hint alias: placements .* of 1 dimensions"):
            self.search(Hinted(("S(0)",)))

    def test_the_gradient_of_an_input_lies_where_the_input_does(self) -> None:
        demands = Constraints(inputs={"*": "S(0)R"}, hints=False)
        x = torch.zeros(32, 64, requires_grad=True)
        found = run_search(Hinted({}), (x,), "dp=2,tp=2", constraints=demands)
        assert found.plan is not None
        assert found.plan.node("gradient:args[0]").inputs == ("S(0)R",)
