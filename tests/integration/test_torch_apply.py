"""Plans applied on real ranks: processes with gloo, beside the model on one device."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import torch
import torch_apply_ranks as ranks
from torch import nn
from torch_processes import run_ranks

from berthage_torch import Constraints, MixedPrecision, Plan, search
from berthage_torch.models.zoo import build

EXACT = MixedPrecision(param_dtype=None, reduce_dtype=None)
HALF = MixedPrecision()
MLP = {"dim": 8, "hidden": 16, "layers": 2, "batch": 8}
LLAMA = {"dim": 32, "layers": 2, "heads": 4, "kv_heads": 2, "vocab": 64, "sequence": 16, "batch": 8}
GPT2 = {"dim": 32, "layers": 2, "heads": 4, "vocab": 65, "sequence": 16, "batch": 8}
DSV3 = {"dim": 64, "layers": 2, "heads": 4, "experts": 4, "vocab": 64, "sequence": 16, "batch": 8}
SHARDED = Constraints(inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"}, pins={"layers.*.up.weight": "S(0)S(1)"})


def plan_of(name: str, sizes: dict[str, Any], mesh: str, policy: MixedPrecision = EXACT, **how: Any) -> Plan:
    return search(dataclasses.replace(build(name, **sizes), policy=policy), None, mesh, **how)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of four ranks found."""
    model, given = ranks.features()
    pins = {"embedding.weight": "S(0)R", "up.weight": "RS(0)", "up/addmm": "S(0)S(1)", "norm.running_mean": "S(0)R"}
    feature = search(model, given, "dp=2,tp=2", constraints=Constraints(pins=pins))
    plan = plan_of("mlp", MLP, "dp=2,tp=2", constraints=SHARDED)
    other = plan_of("mlp", MLP, "x=4", constraints=Constraints(pins={"layers.*.up.weight": "S(1)"}))
    cases = [("mlp", MLP, plan, EXACT, ""), ("llama3-1b", LLAMA, plan_of("llama3-1b", LLAMA, "dp=2,tp=2"), EXACT, "")]
    folder = str(tmp_path_factory.mktemp("apply"))
    return run_ranks(ranks.everything, 4, cases, feature, plan, other, MLP, folder)


@pytest.mark.parametrize("case", [0, 1], ids=["mlp", "llama"])
def test_a_step_is_that_of_one_device(results: list[dict[str, Any]], case: int) -> None:
    """Output, every gradient and a step of AdamW; and the collectives are those of the plan."""
    for found in results:
        step = found["steps"][case]
        assert max(step["output"], step["gradients"], step["stepped"]) < 1e-5
        assert step["collectives"][0] == step["collectives"][1]


def test_what_models_do(results: list[dict[str, Any]]) -> None:
    """Tied and frozen weights, changing buffers, keyword and plain arguments, nested results; the plan stays."""
    for found in results:
        told = found["features"]
        assert all(told[what] for what in ("untouched", "same names", "tied", "frozen"))
        assert told["power"] == 2
        assert max(told[what] for what in ("outputs", "gradients", "input gradient", "buffers")) < 1e-5


def test_from_nothing_to_values(results: list[dict[str, Any]]) -> None:
    """The meta device, a full state dict, a checkpoint of another plan and mesh, inference, another batch size."""
    for found in results:
        told = found["meta"]
        assert all(told[what] for what in ("meta", "loaded", "moved", "no graph"))
        assert max(told["inference"], told["dynamic"]) < 1e-5


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (
            "batch on one rank",
            r"0, 2, 3: args\[0\] \[4, 8\] of a batch of 8; rank 1: args\[0\] \[3, 8\] .*expects args\[0\] \[4, 8\]",
        ),
        ("width", r"args\[0\]: expected \[4, 8\], got \[4, 7\]"),
        ("dtype", r"args\[0\]: expected float32, got torch.float64"),
        ("arguments", "2 positional"),
        ("mesh", "dp=2, tp=2, this one is dp=4, tp=1"),
        ("parameters", "layers.2"),
        ("sizes", r"layers.0.up.weight is \[32, 8\] float32, the plan's is \[16, 8\]"),
        ("operations", "layers.0.*tanh|constant"),
    ],
)
def test_what_is_wrong_is_said_on_every_rank(results: list[dict[str, Any]], what: str, said: str) -> None:
    """And nobody waits for somebody who will not come."""
    for found in results:
        assert re.search(said, found["errors"][what]), found["errors"][what]


def test_a_rank_that_dies_ends_the_others_with_its_error() -> None:
    """The first error is the one that is told."""
    with pytest.raises(RuntimeError, match="AttributeError"):
        run_ranks(ranks.compare_all, 2, [("mlp", MLP, None, EXACT, "")])


def test_evaluation_needs_no_gradients_and_dropout_a_plan_of_its_own() -> None:
    x = (torch.zeros(4, 8),)
    plans = [search(nn.Sequential(nn.Linear(8, 8), last), x, "dp=1") for last in (nn.ReLU(), nn.Dropout(0.5))]
    (found,) = run_ranks(ranks.without_gradients, 1, *plans)
    assert max(found["no_grad"], found["inference_mode"]) < 1e-6
    assert "in evaluation mode the model has other operations" in found["dropout"]


BOUNDS = {EXACT: (1e-5, 1e-5), HALF: (0.005, 0.02)}


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["dp=2,tp=2", "dp=2,tp=2,ep=2"])
@pytest.mark.parametrize("solver", ["ilp", "trws-lazy"])
@pytest.mark.parametrize("policy", [EXACT, HALF], ids=["float32", "bfloat16"])
def test_models_and_solvers(mesh: str, solver: str, policy: MixedPrecision) -> None:
    """MLP, two-layer llama, GPT-2 and DeepSeek in small."""
    table = {"mlp": MLP, "llama3-1b": LLAMA, "gpt2": GPT2, "dsv3-tiny": DSV3}
    cases = [
        (name, sizes, plan_of(name, sizes, mesh, policy, solver=solver), policy, "") for name, sizes in table.items()
    ]
    many = math.prod(cases[0][2].mesh.values())
    for rank in run_ranks(ranks.compare_all, many, cases, timeout=900):
        for (name, *_), step in zip(cases, rank, strict=True):
            # Experts of this model compute in bfloat16 whatever the policy.
            output, gradient = BOUNDS[HALF if name == "dsv3-tiny" else policy]
            # Where rounding alone moves one device by more than the bound (a ReLU that flips): twice of that.
            moved_output, moved_gradient = step["rounding"]
            output, gradient = max(output, 2 * moved_output), max(gradient, 2 * moved_gradient)
            assert step["output"] <= output, name
            assert step["gradients"] <= gradient, name
            assert step["stepped"] <= gradient, name
            assert step["collectives"][0] == step["collectives"][1], name


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_without_a_graph_break(backend: str) -> None:
    """The llama under `torch.compile` with ``fullgraph=True``, which raises where a graph would break."""
    plan = plan_of("llama3-1b", LLAMA, "dp=2,tp=2")
    for rank in run_ranks(ranks.compare_all, 4, [("llama3-1b", LLAMA, plan, EXACT, backend)], timeout=900):
        assert max(rank[0]["output"], rank[0]["gradients"], rank[0]["stepped"]) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["d=1", "a=1,b=4", "a=4,b=1", "d=3"])
def test_meshes_of_one_rank_and_uneven_ones(mesh: str) -> None:
    """A vocabulary of 65 on 3 or 4 ranks among them."""
    plan = plan_of("gpt2", GPT2, mesh)
    many = math.prod(plan.mesh.values())
    for rank in run_ranks(ranks.compare_all, many, [("gpt2", GPT2, plan, EXACT, "")], timeout=600):
        assert max(rank[0]["output"], rank[0]["gradients"], rank[0]["stepped"]) < 1e-5
