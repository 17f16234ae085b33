"""Tracing repeated layers once gives the graph that tracing all of them gives, or all of them are traced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from berthage_torch import MixedPrecision, OpGraph, at_batch, trace
from berthage_torch.models import zoo

POLICY = MixedPrecision()


def both(model: nn.Module, inputs: Any, **settings: Any) -> tuple[OpGraph, OpGraph]:
    """The graph with and without the short cut; they must be the same, names included."""
    quick = trace(model, inputs, **settings)
    whole = trace(model, inputs, repeat_layers=False, **settings)
    for one, two in zip(quick.nodes, whole.nodes, strict=True):
        assert one == two
    assert quick.key == whole.key
    assert dict(quick.gradients) == dict(whole.gradients)
    return quick, whole


def shorter(graphs: tuple[OpGraph, OpGraph]) -> bool:
    quick, whole = (len(graph.fx.graph.nodes) for graph in graphs)
    return quick < whole


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mlp", {"layers": 6, "dim": 8, "hidden": 8, "batch": 4}),
        ("gpt2", {"layers": 4, "dim": 32, "heads": 2, "vocab": 50, "sequence": 8, "batch": 2}),
        ("llama3-1b", {"layers": 4, "dim": 32, "heads": 4, "kv_heads": 2, "vocab": 40, "sequence": 8, "batch": 2}),
        ("dsv3-tiny", {"layers": 5, "sequence": 16, "batch": 2}),
    ],
)
def test_models_of_the_zoo(name: str, sizes: dict[str, int]) -> None:
    spec = zoo.build(name, **sizes)
    graphs = both(spec.model, spec.make_inputs, policy=spec.policy)
    assert shorter(graphs)
    regions = [node.local_map for node in graphs[0].nodes if node.local_map]
    assert len(regions) == (2 * 4 if name == "dsv3-tiny" else 0)


def test_another_batch_size_of_a_short_trace() -> None:
    spec = zoo.build("mlp", layers=4, dim=8, hidden=8, batch=4)
    graph = trace(spec.model, spec.make_inputs, dynamic_batch=True)
    other = zoo.build("mlp", layers=4, dim=8, hidden=8, batch=9)
    direct = trace(other.model, other.make_inputs)
    assert [(n.name, n.op, n.outputs) for n in at_batch(graph, 9).nodes] == [
        (n.name, n.op, n.outputs) for n in direct.nodes
    ]


class Layer(nn.Module):
    def __init__(self, power: int = 1, spare: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.power = power
        if spare:
            self.unused = nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor, other: Any = None) -> torch.Tensor:
        h = self.linear(x)
        for _ in range(self.power):
            h = h.tanh()
        if isinstance(other, torch.Tensor):
            h = h + other
        if isinstance(other, list):
            other.append(h.sum())
        return h


class Stack(nn.Module):
    """Layers, and what the code around them does with them."""

    def __init__(self, layers: list[nn.Module], how: str = "") -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        extra: list[torch.Tensor] = []
        first = x.cos()
        for i, layer in enumerate(self.layers):
            if self.how == "alternate":
                x = layer(x) if i % 2 else layer(x).relu()
            elif self.how == "memory":
                x = layer(x, first)
            elif self.how == "list":
                x = layer(x, extra)
            elif self.how == "peek":
                x = layer(x) * layer.linear.weight.sum()
            elif self.how == "detach":
                x = layer(x).detach() if i == 2 else layer(x)
            else:
                x = layer(x)
        return x + sum(extra)


def test_code_around_the_layers_runs_as_written() -> None:
    torch.manual_seed(0)
    graphs = both(Stack([Layer() for _ in range(5)], "alternate"), (torch.randn(2, 4),), policy=POLICY)
    assert shorter(graphs)
    assert sum(node.op == "aten.relu.default" for node in graphs[0].nodes) == 3


def test_layers_that_all_read_one_tensor() -> None:
    quick = trace(Stack([Layer() for _ in range(4)], "memory"), (torch.randn(2, 4, requires_grad=True),))
    assert len(quick.input_grads) == 1
    assert sum(node.op == "aten.tanh_backward.default" for node in quick.nodes) == 4


def test_layers_with_other_settings_are_not_taken_for_the_same() -> None:
    graphs = both(Stack([Layer(power=1 + i // 3) for i in range(6)]), (torch.randn(2, 4),), policy=POLICY)
    assert shorter(graphs)
    assert sum(node.op == "aten.tanh.default" for node in graphs[0].nodes) == 3 * 1 + 3 * 2
    graphs = both(Stack([Layer(power=1 + i) for i in range(4)]), (torch.randn(2, 4),), policy=POLICY)
    assert not shorter(graphs)


def test_one_layer_used_again_and_again_adds_up_its_gradients() -> None:
    layer = Layer()
    both(Stack([layer] * 4), (torch.randn(2, 4),), policy=POLICY)


@pytest.mark.parametrize("how", ["list", "peek", "detach"])
def test_where_a_copy_could_be_wrong_everything_is_traced(how: str) -> None:
    both(Stack([Layer() for _ in range(5)], how), (torch.randn(2, 4),), policy=POLICY)


def test_unused_parameters_hooks_and_closures() -> None:
    both(Stack([Layer(spare=True) for _ in range(4)]), (torch.randn(2, 4),), policy=POLICY)
    hooked = Stack([Layer() for _ in range(4)])
    hooked.layers[2].linear.register_forward_hook(lambda module, args, out: out * 2)
    graphs = both(hooked, (torch.randn(2, 4),), policy=POLICY)
    assert sum(node.op == "aten.mul.Tensor" and node.phase == "forward" for node in graphs[0].nodes) == 1


def test_a_layer_that_changes_itself_is_traced_each_time() -> None:
    class Counts(Layer):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor, other: Any = None) -> torch.Tensor:
            self.calls += 1
            return super().forward(x) * self.calls

    quick = trace(Stack([Counts() for _ in range(4)]), (torch.randn(2, 4),))
    assert sum(node.op == "aten.tanh.default" for node in quick.nodes) == 4


def test_dropout_and_sequential_layers() -> None:
    block = lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())  # noqa: E731
    model = nn.Sequential(*(block() for _ in range(5)))
    graphs = both(model, (torch.randn(2, 4),), policy=POLICY)
    assert shorter(graphs)
    assert "forward" not in vars(model[0])


def test_a_module_under_several_names_stays_as_it_was() -> None:
    layer = Layer()
    model = Stack([layer, layer, Layer(), Layer(), Layer()])
    weight = layer.linear.weight
    graphs = both(model, (torch.randn(2, 4),), policy=POLICY)
    assert layer.linear.weight is weight
    assert type(layer.linear.weight) is nn.Parameter
    assert graphs[0].parameters["layers.0.linear.weight"] == graphs[0].parameters["layers.1.linear.weight"]


def test_a_layer_that_is_called_twice() -> None:
    class Twice(Stack):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(super().forward(x))

    both(Twice([Layer() for _ in range(4)]), (torch.randn(2, 4),), policy=POLICY)
