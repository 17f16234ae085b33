"""The problem of a training step: known answers, an independent search, and what demands do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from berthage import InvalidProblemError, Reason, load_registry
from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch import (
    BuiltProblem,
    Constraints,
    MissingRuleWarning,
    MixedPrecision,
    Plan,
    SearchResult,
    run_search,
    search,
)
from berthage_torch.models import zoo
from berthage_torch.searching.run import cost_model_of


class Twice(nn.Module):
    """The same tensor on both sides of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(512, 512, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.proj(x)
        return torch.mm(h, h)


def layer(inner: int, outer: int, *, relu: bool = False) -> nn.Module:
    with torch.device("meta"):
        linear = nn.Linear(inner, outer, bias=False)
    return nn.Sequential(linear, nn.ReLU()) if relu else nn.Sequential(linear)


def rows(batch: int, inner: int) -> tuple[torch.Tensor]:
    return (torch.zeros(batch, inner),)


class Exhaustive:
    """The least cost of a small step, by depth-first search over its nodes: no problem, no aliases, no solver.

    A tensor with several users is moved once to where it is shared, and from there for each user that wants it
    elsewhere.
    """

    def __init__(self, built: BuiltProblem, fixed: dict[int, str]) -> None:
        self.graph, self.spaces, self.pricer = built.graph, built.strategies, built.pricer
        self.fixed = {node: np.array(codes.parse(text), dtype=np.int8) for node, text in fixed.items()}
        self.best = math.inf
        self.chosen: dict[int, int] = {}
        self.prices: dict[tuple[Any, ...], float] = {}
        self.ready: dict[int, list[tuple[int, int]]] = {}
        for (node, output), users in self._tensors().items():
            self.ready.setdefault(max(user.consumer for user in users), []).append((node, output))

    def _tensors(self) -> dict[tuple[int, int], list[Any]]:
        found: dict[tuple[int, int], list[Any]] = {}
        for edge in self.graph.edges():
            found.setdefault((edge.producer, edge.output), []).append(edge)
        return found

    def run(self) -> float:
        self._extend(0, 0.0)
        return self.best

    def _extend(self, index: int, cost: float) -> None:
        if cost >= self.best:
            return
        if index == len(self.graph.nodes):
            self.best = cost
            return
        for label in range(len(self.spaces[index])):
            self.chosen[index] = label
            if self._allowed(index):
                more = float(self.pricer.compute(self.spaces[index])[label])
                more += sum(self._tensor(*tensor) for tensor in self.ready.get(index, ()))
                self._extend(index + 1, cost + more)
        del self.chosen[index]

    def _allowed(self, index: int) -> bool:
        label, space = self.chosen[index], self.spaces[index]
        if index in self.fixed and (space.outputs[label, 0] != self.fixed[index]).any():
            return False
        for fqn, gradient in self.graph.gradient_nodes.items():
            parameter = self.graph.parameters[fqn]
            if gradient == index and (space.inputs[label, 0] != self._placed(parameter, 0)).any():
                return False
        for output, tangent in self.graph.tangents.items():
            if max(output, tangent) == index:
                wanted = self.spaces[output].inputs[self.chosen[output], 0]
                if (wanted != self._placed(tangent, 0)).any():
                    return False
        return True

    def _placed(self, node: int, output: int) -> Any:
        return self.spaces[node].outputs[self.chosen[node], output]

    def _tensor(self, node: int, output: int) -> float:
        users = [edge for edge in self.graph.users[node] if edge.output == output]
        start = self._placed(node, output)
        ends = [self.spaces[e.consumer].inputs[self.chosen[e.consumer], e.position] for e in users]
        places = [start, *ends]
        if len(users) == 1:
            return self._move(node, output, start, ends[0])
        return min(
            self._move(node, output, start, held) + sum(self._move(node, output, held, end) for end in ends)
            for held in places
        )

    def _move(self, node: int, output: int, before: Any, after: Any) -> float:
        key = (node, output, before.tobytes(), after.tobytes())
        if key not in self.prices:
            meta = self.graph.nodes[node].outputs[output]
            assert meta is not None
            self.prices[key] = float(self.pricer.redistribution(meta, before[None], after[None])[0, 0])
        return self.prices[key]


@pytest.mark.parametrize(
    ("inner", "outer", "batch", "fixed"),
    [
        (64, 256, 32, {}),
        (4096, 4096, 8192, {}),
        (4096, 4096, 8192, {"input:args[0]": "S(0)"}),
        (8192, 4096, 16, {"input:args[0]": "S(0)", "0.weight": "S(1)"}),
        (31, 23, 15, {"0.weight": "S(0)"}),
    ],
)
@pytest.mark.parametrize("mesh", ["x=2", "x=8"])
def test_the_optimum_is_that_of_an_exhaustive_search(
    inner: int, outer: int, batch: int, fixed: dict[str, str], mesh: str
) -> None:
    model = layer(inner, outer, relu=True)
    found = run_search(model, rows(batch, inner), mesh, solver="ilp", constraints=Constraints(pins=fixed))
    index = {node.name: node.index for node in found.built.graph.nodes}
    truth = Exhaustive(found.built, {index[name]: text for name, text in fixed.items()}).run()
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.result.objective == pytest.approx(truth, rel=1e-9)


def test_a_tensor_used_twice_is_one_decision_and_moved_once() -> None:
    found = run_search(Twice(), rows(512, 512), "x=4", constraints=Constraints(pins={"proj/mm": "S(0)"}))
    names = found.problem.variable_names
    assert names.count("proj/mm") == names.count("proj/mm shared") == 1
    assert found.plan is not None
    into = [e for e in found.plan.edges if e.producer == "proj/mm"]
    assert [e.consumer for e in into].count("") == 1
    assert sorted(e.position for e in into if e.consumer == "mm") == [0, 1]
    shared = next(e.after for e in into if e.consumer == "")
    assert {e.before for e in into if e.consumer} == {shared}


def test_nothing_costs_more_on_more_ranks_when_nothing_is_demanded() -> None:
    """Replicating everything is always there."""
    alone = run_search(zoo.build("mlp"), None, "x=1", constraints=Constraints()).result.objective
    many = run_search(zoo.build("mlp"), None, "x=8", constraints=Constraints()).result.objective
    assert alone is not None
    assert many is not None
    assert many < alone


@pytest.mark.parametrize(("mesh", "same"), [("x=1,y=1", "x=1"), ("x=8,y=1", "x=8"), ("x=1,y=8", "x=8")])
def test_dimensions_of_one_rank_cost_nothing(mesh: str, same: str) -> None:
    first, second = (run_search(zoo.build("mlp", layers=1), None, m, constraints=Constraints()) for m in (mesh, same))
    assert first.result.objective == pytest.approx(second.result.objective, rel=1e-12)
    assert first.problem.num_labels.tolist() == second.problem.num_labels.tolist()


@pytest.mark.parametrize(("ranks", "vocab"), [("dp=3,tp=8", 50257), ("dp=8", 50257), ("x=6", 100)])
def test_uneven_shards_are_kept_and_priced(ranks: str, vocab: int) -> None:
    spec = zoo.build("gpt2", layers=1, batch=24, sequence=64, dim=96, heads=4, vocab=vocab)
    split = "S(0)" * len(Mesh.parse(ranks).sizes)
    found = run_search(spec, None, ranks, constraints=Constraints(pins={"wte.weight": split}))
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.plan is not None
    assert found.plan.node("wte.weight").outputs == (split,)


@pytest.mark.parametrize(
    ("tokens", "weight"),
    [("S(0)R", "S(0)R"), ("S(0)R", "S(1)R"), ("RS(0)", "RS(0)"), ("S(0)S(0)", "S(0)S(1)"), ("S(0)S(0)", "S(0)S(0)")],
)
def test_the_gradient_of_a_sharded_weight_is_reduced_and_scattered_at_once(tokens: str, weight: str) -> None:
    demands = Constraints(pins={"0.weight": weight}, inputs={"*": tokens}, outputs={"*": tokens})
    plan = search(layer(4096, 4096), rows(65536, 4096), "dp=8,tp=8", constraints=demands)
    gradient = [e for e in plan.edges if "P" in e.before and e.us > 0]
    (summed,) = gradient  # the only partial sum that is ever moved
    kinds = [kind for kind, *_ in summed.path]
    assert kinds.count("reduce-scatter") == tokens.count("S(0)")
    assert not {"all-reduce", "slice"} & set(kinds)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_gradients_travel_in_the_dtype_they_are_reduced_in(stored: torch.dtype) -> None:
    policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    demands = Constraints(inputs={"*": "S(0)"}, outputs={"*": "S(0)"}, pins={"0.weight": "R"})
    plan = search(layer(64, 64).to(stored), rows(1 << 18, 64), "dp=4", policy=policy, constraints=demands)
    (reduced,) = (one for one in plan.collectives() if one.phase == "backward")
    assert (reduced.kind, reduced.bytes) == ("all-reduce", 64 * 64 * 4)


def test_wide_layers_and_few_tokens_make_tensor_parallelism() -> None:
    """Where the weights are large and the activations small, moving activations is what is cheap."""
    spec = zoo.build("mlp", dim=8192, hidden=32768, layers=2, batch=64)
    demands = Constraints(inputs={"*": "RR"}, outputs={"*": "RR"}, parameter_memory="least")
    plan = search(spec, None, "a=2,b=2", constraints=demands)
    heavy = [n for n in plan.nodes if n.op in ("aten.mm.default", "aten.addmm.default") and n.phase == "forward"]
    assert len(heavy) == 4
    assert all("S(0)" not in n.outputs[0] for n in heavy)  # rows are tokens
    weights = {e.producer for e in plan.edges if e.us > 0} & {n.name for n in plan.nodes if n.op == "parameter"}
    assert not {name for name in weights if name.endswith("weight")}


class TestDemands:
    def test_inputs_outputs_and_pins_hold(self) -> None:
        pins = {"layers.*.up.weight": "RR", "layers.1/relu": "RR"}
        demands = Constraints(inputs={"*": ("S(0)", "R")}, outputs={"output": "S(0)S(1)"}, pins=pins)
        plan = search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands)
        assert plan.node("args[0]").outputs == ("S(0)R",)
        assert plan.node("output").inputs == ("S(0)S(1)",)
        ups = [n for n in plan.nodes if n.op == "parameter" and n.name.endswith("up.weight")]
        assert len(ups) == 2
        assert {n.outputs for n in ups} == {("RR",)}

    def test_a_gradient_lies_where_its_parameter_does_and_a_tangent_where_its_output_does(self) -> None:
        plan = search(zoo.build("llama3-1b", layers=2), None, "dp=8,tp=8")
        placed = {n.name: n for n in plan.nodes}
        gradients = [n for n in plan.nodes if n.name.startswith("gradient:")]
        assert len(gradients) == 2 + 1 + 2 * 9
        assert all(n.inputs[0] == placed[n.fqn].outputs[0] for n in gradients)
        assert placed["tangent:output"].outputs == placed["output"].inputs

    @pytest.mark.parametrize(
        ("demands", "message"),
        [
            (Constraints(inputs={"tokens": "RR"}), "no input is named 'tokens'; there are"),
            (Constraints(outputs={"loss": "RR"}), "no output is named 'loss'"),
            (Constraints(pins={"layers.9.up.weight": "RR"}), "no node or parameter is named 'layers.9.up.weight'"),
            (Constraints(inputs={"*": "R"}), "places 1 mesh dimensions, the mesh has 2: dp, tp"),
            (Constraints(inputs={"*": "Q"}), "Q"),
            (Constraints(pins={"layers.0.up.weight": "S(5)R"}), "cannot be placed 'S\\(5\\)R'; it can be"),
            (Constraints(parameter_memory="most"), "'least' or \\(low, high\\), not 'most'"),
        ],
    )
    def test_what_cannot_be_meant_is_named(self, demands: Constraints, message: str) -> None:
        with pytest.raises(InvalidProblemError, match=message):
            run_search(zoo.build("mlp"), None, "dp=2,tp=2", constraints=demands)

    def memory(self, demand: Any, pins: dict[str, str] | None = None) -> SearchResult:
        demands = Constraints(pins=pins or {}, parameter_memory=demand)
        return run_search(zoo.build("mlp", bias=False), None, "dp=2,tp=2", constraints=demands)

    def test_memory_is_counted_in_bytes(self) -> None:
        whole = 4 * 1024 * 4096 * 4
        least = self.memory("least")
        assert least.result.evaluation is not None
        used = [(use.name, use.used) for use in least.result.evaluation.budget_use]
        assert used == [("parameter memory", whole // 4)]
        assert self.memory((0, whole / 4)).result.objective == pytest.approx(least.result.objective)
        assert self.memory((0, 0.25)).result.objective == pytest.approx(least.result.objective)
        assert self.memory((0, whole / 4 - 1)).result.termination.reason is Reason.INFEASIBLE

    def test_at_least_so_much_memory_can_be_asked_for(self) -> None:
        found = self.memory((1.0, 1.0))
        assert found.plan is not None
        assert {n.outputs for n in found.plan.nodes if n.op == "parameter"} == {("RR",)}

    def test_a_pin_that_memory_cannot_bear_is_named_with_it(self) -> None:
        found = self.memory((0, 0.25), {"layers.*.up.weight": "RR"})
        assert found.plan is None
        why = found.result.infeasibility
        assert why is not None
        assert why.constraints == ("parameter memory", "pin layers.0.up.weight")
        whole = 4 * 1024 * 4096
        assert why.least_limit == 2 * whole + 2 * whole // 4
        assert self.memory((0, why.least_limit), {"layers.*.up.weight": "RR"}).plan is not None

    def test_a_constraint_can_be_taken_away_by_its_name(self) -> None:
        found = self.memory((0, 0.25), {"layers.*.up.weight": "RR"})
        assert {"parameter memory", "pin layers.0.up.weight"} <= set(found.problem.constraint_names)
        rest = found.problem.without("parameter memory").problem
        assert not rest.has_budgets


class Odd(nn.Module):
    """Something without a sharding rule."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).masked_scatter(x > 0, x)


def test_an_operation_without_a_rule_is_replicated_and_said_so() -> None:
    with pytest.warns(MissingRuleWarning, match="masked_scatter"):
        plan = search(Odd(), rows(64, 64), "x=2")
    assert isinstance(plan, Plan)
    odd = [n for n in plan.nodes if "masked_scatter" in n.op]
    assert odd
    assert all(set(n.inputs) <= {"R"} for n in odd)


def test_a_cost_model_may_be_an_object_a_name_or_a_file(tmp_path: Any) -> None:
    registry = load_registry()
    model = cost_model_of("nccl-h200", registry)
    assert cost_model_of(model, registry) is model
    assert model.name == "nccl-h200"
    with pytest.raises(InvalidProblemError):
        cost_model_of(str(tmp_path / "absent.toml"), registry)
