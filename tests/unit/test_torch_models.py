"""The zoo: shapes and defaults as documented, and every size an argument."""

from __future__ import annotations

import pytest
import torch

from berthage import OptionError, UnknownNameError
from berthage_torch import trace
from berthage_torch.models import zoo


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # embedding and output, layers, last norm; worked out from the published shapes
        ("llama3-1b", 2 * 128256 * 2048 + 16 * (2048 * (2048 * 2 + 512 * 2) + 3 * 2048 * 8192 + 2 * 2048) + 2048),
        ("llama3-8b", 8030261248),
        ("gpt2", 124439808),
    ],
)
def test_parameter_counts(name: str, parameters: int) -> None:
    spec = zoo.build(name)
    assert sum(p.numel() for p in spec.model.parameters()) == parameters
    assert all(p.device.type == "meta" and p.dtype == torch.float32 for p in spec.model.parameters())


def test_the_workloads_are_those_of_the_table() -> None:
    big, small = zoo.build("dsv3"), zoo.build("dsv3-tiny")
    assert (big.sizes["batch"], small.sizes["batch"]) == (512, 32)
    assert (big.sizes["experts"], small.sizes["experts"]) == (64, 8)
    for spec in (big, small):
        assert [tuple(t.shape) for t in map(torch.empty_like, spec.make_inputs())] == [(spec.sizes["batch"], 2048)]
        attention = spec.model.layers[3].attention
        assert (attention.nope + attention.rope, attention.value) == (192, 128)
        moe = [hasattr(layer.feed_forward, "router") for layer in spec.model.layers]
        assert moe == [False, True, True, True, True, True]
    eight = zoo.build("llama3-8b")
    assert (eight.sizes["batch"], eight.sizes["layers"]) == (16, 32)
    assert eight.model.layers[0].feed_forward.w1.weight.shape == (14336, 4096)
    assert eight.policy.param_dtype is torch.bfloat16
    assert eight.policy.reduce_dtype is torch.float32


def test_default_placements_go_by_axis_name() -> None:
    spec = zoo.build("llama3-1b")
    assert spec.inputs[0](("dp", "tp")) == ("S(0)", "R")
    assert spec.outputs[0](("dp", "tp")) == ("S(0)", "S(2)")
    assert spec.inputs[0](("dp_replicate", "dp_shard", "cp", "tp", "ep")) == ("S(0)", "S(0)", "R", "R", "S(0)")
    assert zoo.build("mlp").outputs[0](("dp", "tp")) == ("S(0)", "R")
    assert spec.parameter_memory == "least"


@pytest.mark.parametrize("name", list(zoo.names()))
def test_every_model_traces(name: str) -> None:
    small = {"batch": 4, "layers": 2}
    spec = zoo.build(name, **small)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy)
    assert set(graph.gradients) == set(graph.parameters)
    assert len(graph.outputs) == len(spec.outputs) == len(graph.tangents)
    assert len(graph.inputs) == len(spec.inputs)
    assert any(node.path.startswith("layers.1") for node in graph.nodes)


@pytest.mark.parametrize("size", [-3, 1.5, "many", True, None, 2**63])
def test_a_size_is_of_the_kind_of_the_usual_one(size: object) -> None:
    with pytest.raises(OptionError, match="mlp: the size dim is a whole number such as 1024"):
        zoo.build("mlp", dim=size)


def test_unknown_names_and_sizes_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'llama3-8b'\?"):
        zoo.build("llama-8b")
    with pytest.raises(OptionError, match="has no size 'width'; it has dim"):
        zoo.build("mlp", width=3)
