"""What is traced is what the module computes: the graph, run on real tensors, gives the eager outputs and gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from berthage_torch import MixedPrecision, OpGraph, hint, local_map, trace
from berthage_torch.graph import Named, Node, Ref, Region
from berthage_torch.models import zoo
from berthage_torch.policy import torch_dtype

_BACK = {
    "aten._fused_rms_norm.default": "berthage.rms_norm.default",
    "aten._fused_rms_norm_backward.default": "berthage.rms_norm_backward.default",
}


def plain(value: Any, refs: Any) -> Any:
    if isinstance(value, Ref):
        return refs(value)
    if isinstance(value, Named):
        return torch.device(value.value) if value.kind == "device" else getattr(torch, value.value)
    if isinstance(value, tuple):
        return [plain(item, refs) for item in value]
    return value


def call(node: Node, refs: Any) -> tuple[Any, ...]:
    if node.local_map is not None:
        return run_region(node.local_map.body, [refs(ref) for ref in node.inputs])
    space, name, overload = _BACK.get(node.op, node.op).split(".")
    op = getattr(getattr(getattr(torch.ops, space), name), overload)
    result = op(*(plain(a, refs) for a in node.args), **{k: plain(v, refs) for k, v in node.kwargs})
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def run_region(region: Region, values: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    made: dict[int, tuple[Any, ...]] = {i: (value,) for i, value in enumerate(values)}
    for node in region.nodes[len(values) :]:
        made[node.index] = call(node, lambda ref: made[ref.node][ref.output])
    return tuple(made[ref.node][ref.output] for ref in region.outputs)


def run(graph: OpGraph, model: nn.Module, inputs: Sequence[torch.Tensor], tangents: Mapping[int, torch.Tensor]) -> Any:
    """Every value of the graph, from the data only: the torch graph behind it is not looked at."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    given = dict(zip(graph.inputs, inputs, strict=True))
    given |= {graph.tangents[output]: tangents[output] for output in graph.tangents}
    made: dict[int, tuple[Any, ...]] = {}
    for node in graph.nodes:
        if node.kind in ("parameter", "buffer"):
            made[node.index] = (state[node.fqn].detach(),)
        elif node.kind == "constant":
            made[node.index] = (getattr(graph.fx.joint.graph_module, node.fqn),)
        elif node.kind in ("input", "tangent"):
            made[node.index] = (given[node.index].detach(),)
        elif node.kind == "output":
            made[node.index] = (made[node.inputs[0].node][node.inputs[0].output],)
        else:
            made[node.index] = call(node, lambda ref: made[ref.node][ref.output])
        for value, meta in zip(made[node.index], node.outputs, strict=True):
            if meta is not None and isinstance(value, torch.Tensor):
                assert tuple(value.shape) == meta.shape, node
                assert str(value.dtype) == f"torch.{meta.dtype}", node
    return made


def check(model: nn.Module, *inputs: torch.Tensor, tolerance: float = 1e-5, **settings: Any) -> OpGraph:
    settings = {"attention": "cpu", **settings}
    graph = trace(model, inputs, **settings)
    outputs = model(*inputs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    torch.manual_seed(1)
    where = dict(zip(graph.outputs, outputs, strict=True))
    tangents = {node: torch.randn_like(where[node]) for node in graph.tangents}
    wanted = [p for p in model.parameters() if p.requires_grad] + [i for i in inputs if i.requires_grad]
    grads = iter(
        torch.autograd.grad(
            [where[n] for n in graph.tangents],
            wanted,
            [tangents[n] for n in graph.tangents],
            allow_unused=True,
        )
    )
    made = run(graph, model, inputs, tangents)
    for node, out in zip(graph.outputs, outputs, strict=True):
        torch.testing.assert_close(made[node][0], out.detach(), rtol=tolerance, atol=tolerance)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            eager = next(grads)
            assert (eager is None) == (name not in graph.gradients), name
            if eager is not None:
                ref = graph.gradients[name]
                torch.testing.assert_close(made[ref.node][ref.output], eager, rtol=tolerance, atol=tolerance)
    for node, tensor in zip(graph.inputs, inputs, strict=True):
        assert tensor.requires_grad == (node in graph.input_grads)
        if tensor.requires_grad:
            ref = graph.input_grads[node]
            torch.testing.assert_close(made[ref.node][ref.output], next(grads), rtol=tolerance, atol=tolerance)
    return graph


@pytest.mark.parametrize("attention", ["cpu", "math"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mlp", {"dim": 16, "hidden": 24, "batch": 6}),
        ("gpt2", {"dim": 32, "layers": 2, "heads": 2, "vocab": 50, "sequence": 8, "batch": 2}),
        ("llama3-1b", {"dim": 32, "layers": 2, "heads": 4, "kv_heads": 2, "vocab": 40, "sequence": 8, "batch": 2}),
    ],
)
def test_models_of_the_zoo(name: str, sizes: dict[str, int], attention: str) -> None:
    torch.manual_seed(0)
    spec = zoo.build(name, device="cpu", **sizes)
    inputs = spec.make_inputs()
    filled = tuple(torch.randint(0, 40, t.shape) if t.dtype == torch.int64 else torch.randn(t.shape) for t in inputs)
    check(spec.model, *filled, attention=attention, tolerance=1e-4)


def tiny_deepseek() -> zoo.ModelSpec:
    return zoo.build(
        "dsv3-tiny", device="cpu", dim=32, layers=2, heads=2, nope_size=16, rope_size=8, value_size=16, kv_rank=24,
        hidden=48, experts=4, top_k=2, expert_hidden=16, vocab=40, sequence=8, batch=2,
    )  # fmt: skip


def test_deepseek_with_experts_in_a_region() -> None:
    torch.manual_seed(0)
    spec = tiny_deepseek()
    model = spec.model.bfloat16()
    graph = check(model, torch.randint(0, 40, (2, 8)), tolerance=3e-2, attention="math")
    assert [n.op for n in graph.nodes if n.local_map] == ["berthage.local_map", "berthage.local_map_backward"]


def test_expert_parts_add_up_to_the_mixture() -> None:
    from berthage_torch.models.deepseek import run_experts

    torch.manual_seed(0)
    x, chosen = torch.randn(2, 8, 16), torch.stack([torch.randperm(4)[:2] for _ in range(16)]).view(2, 8, 2)
    weights, ids = torch.rand(2, 8, 2), torch.arange(4)
    w1, w2, w3 = torch.randn(4, 16, 8), torch.randn(4, 8, 16), torch.randn(4, 16, 8)
    whole = run_experts(x, chosen, weights, ids, w1, w2, w3)
    halves = [run_experts(x, chosen, weights, *(t[s] for t in (ids, w1, w2, w3))) for s in (slice(2), slice(2, 4))]
    torch.testing.assert_close(sum(halves), whole, rtol=1e-2, atol=1e-2)
    dense = torch.zeros_like(x)
    for expert in range(4):
        out = (F.silu(x @ w1[expert]) * (x @ w3[expert])) @ w2[expert]
        dense += out * (weights * (chosen == expert)).sum(-1, keepdim=True)
    torch.testing.assert_close(whole, dense, rtol=3e-2, atol=1.0)
    assert (whole - dense).norm() < 0.01 * dense.norm()


class Everything(nn.Module):
    """Tied weights, a buffer, a frozen parameter, an unused one, several outputs, a constant, in-place operations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)
        self.unused = nn.Parameter(torch.randn(3))
        self.register_buffer("scale", torch.rand(8))
        self.constant = torch.full((8,), 0.5)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = self.first(x) * self.scale
        h.add_(self.frozen)
        z = self.second(torch.relu_(h)) + self.constant
        return z * y, h.argmax(-1), (z * z).sum()


def test_tied_weights_buffers_frozen_parameters_and_several_outputs() -> None:
    torch.manual_seed(0)
    model = Everything()
    graph = check(model, torch.randn(4, 8), torch.randn(4, 8, requires_grad=True))
    assert graph.parameters["first.weight"] == graph.parameters["second.weight"]
    assert graph.gradients["first.weight"] == graph.gradients["second.weight"]
    assert set(graph.gradients) == {"first.weight", "second.weight", "first.bias", "second.bias"}
    assert len(graph.outputs) == 3
    assert len(graph.tangents) == 2


def test_a_module_without_parameters() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x * y.cos()

    forward_only = trace(Product(), (torch.randn(3), torch.randn(3)))
    assert not forward_only.tangents
    assert all(node.phase == "forward" for node in forward_only.nodes)
    check(Product(), torch.randn(3, requires_grad=True), torch.randn(3))


def test_batch_normalisation_changes_its_buffers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    graph = trace(model, (torch.randn(6, 4),))
    assert set(graph.mutations) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert all(torch.equal(before[name], buffer) for name, buffer in model.named_buffers())


def test_gradients_are_cast_before_they_are_reduced() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    x = torch.randn(3, 8)
    graph = trace(model, (x,), policy=MixedPrecision(torch.bfloat16, torch.float32))
    tangent = torch.randn(3, 4, dtype=torch.bfloat16)
    made = run(graph, model, (x,), {graph.outputs[0]: tangent})
    weight, bias = model.weight.detach().bfloat16(), model.bias.detach().bfloat16()
    torch.testing.assert_close(made[graph.outputs[0]][0], F.linear(x.bfloat16(), weight, bias))
    torch.testing.assert_close(made[graph.gradient_nodes["weight"]][0], (tangent.T @ x.bfloat16()).float())
    roles = {node.role: node for node in graph.nodes if node.role.endswith("cast")}
    assert set(roles) == {"parameter-cast", "gradient-cast"}
    assert roles["gradient-cast"].outputs[0].dtype == "float32"


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_parameters_keep_the_dtype_they_are_stored_in(stored: torch.dtype) -> None:
    graph = trace(nn.Linear(8, 4).to(stored), (torch.randn(3, 8),), policy=MixedPrecision())
    name = str(stored).removeprefix("torch.")
    assert torch_dtype(name) is stored
    for fqn, ref in graph.gradients.items():
        meta = graph.nodes[ref.node].outputs[ref.output]
        assert meta is not None
        assert meta.dtype == name
        assert graph.nodes[graph.parameters[fqn]].outputs[0].dtype == name
    casts = [n.outputs[0].dtype for n in graph.nodes if n.role == "gradient-cast"]
    assert casts.count("float32") == 2  # each gradient is reduced in float32, whatever it is stored in
    assert casts.count("bfloat16") == (2 if stored is torch.bfloat16 else 0)


def test_attention_with_wider_keys_than_values_on_the_cpu() -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    torch.manual_seed(0)
    q, k = (torch.randn(2, 3, 5, 12, requires_grad=True) for _ in range(2))
    graph = check(Attention(), q, k, torch.randn(2, 3, 5, 8, requires_grad=True), tolerance=1e-4)
    assert sum("flash_attention_for_cpu" in node.op for node in graph.nodes) == 2


def test_fused_rms_norm_and_its_backward() -> None:
    torch.manual_seed(0)
    for norm in (nn.RMSNorm(6), nn.RMSNorm((3, 6), eps=1e-3), nn.RMSNorm(6, elementwise_affine=False)):
        graph = check(norm, torch.randn(2, 3, 6, requires_grad=True), attention="gpu")
        assert [n.op for n in graph.nodes if n.kind == "op"].count("aten._fused_rms_norm.default") == 1
        assert [n.op for n in graph.nodes if n.kind == "op"].count("aten._fused_rms_norm_backward.default") == 1


def test_hints_and_regions_change_no_number() -> None:
    class Marked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = hint(x * 2, ("S(0)", "R"))
            placements = (("S(0)", "R"), ("R", "S(1)"), None)
            region = local_map(lambda a, w, n: (a @ w).relu() * n, placements, ("S(0)", "S(1)"))
            return hint(region(x, self.weight, 3), {"dp": "S(0)"}) + 1

    torch.manual_seed(0)
    model, x = Marked(), torch.randn(5, 4, requires_grad=True)
    assert torch.equal(model(x), ((x * 2) @ model.weight).relu() * 3 + 1)
    graph = check(model, x)
    assert [n.hint for n in graph.nodes if n.hint] == [(8, 0), (("dp", 8),)]
