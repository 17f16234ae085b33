"""Every strategy is true: an operation run on local shards and put together again gives what it gives whole."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_ranks import Tensor, run_label, tensors_of, values

from berthage_nccl import Mesh
from berthage_torch import MixedPrecision, OpGraph, trace
from berthage_torch.graph import Node
from berthage_torch.models import zoo
from berthage_torch.pricing.strategies import MissingRuleWarning, Strategies, StrategySpace

MODELS = {
    "llama3-1b": {"dim": 24, "layers": 1, "heads": 6, "kv_heads": 2, "vocab": 36, "sequence": 6, "batch": 4},
    "gpt2": {"dim": 24, "layers": 1, "heads": 6, "vocab": 37, "sequence": 6, "batch": 4},
    "dsv3-tiny": {
        "dim": 24, "layers": 2, "heads": 6, "nope_size": 16, "rope_size": 8, "value_size": 12, "kv_rank": 12,
        "hidden": 48, "experts": 6, "top_k": 2, "expert_hidden": 24, "vocab": 36, "sequence": 6, "batch": 4,
    },
    "mlp": {"dim": 12, "hidden": 18, "batch": 7},
}  # fmt: skip


def traced(name: str, attention: str) -> tuple[OpGraph, dict[str, Tensor]]:
    torch.manual_seed(0)
    spec = zoo.build(name, device="cpu", **MODELS[name])
    graph = trace(spec.model, spec.make_inputs, attention=attention)
    return graph, {**dict(spec.model.named_parameters()), **dict(spec.model.named_buffers())}


def distinct(graph: OpGraph, mesh: Mesh) -> Iterator[tuple[Node, Strategies]]:
    """One node for each distinct operation."""
    space = StrategySpace(mesh)
    seen: set[int] = set()
    for node in graph.nodes:
        strategies = space.of(graph, node)
        if node.kind == "op" and node.local_map is None and node.inputs and id(strategies) not in seen:
            seen.add(id(strategies))
            yield node, strategies


def true(node: Node, strategies: Strategies, tensors: Sequence[Tensor], whole: Sequence[Tensor | None]) -> list[str]:
    """The labels that are wrong. All are tried on a mesh of one dimension; of many on others 24, spread at random."""
    rng = np.random.default_rng(len(strategies))
    labels = np.arange(len(strategies))
    wrong = []
    for label in labels if len(labels) <= 24 else rng.choice(labels, 24, replace=False):
        try:
            got = run_label(strategies, node, int(label), tensors)
            for mine, right in zip(got, whole, strict=False):
                if mine is not None and right is not None:
                    assert mine.shape == right.shape
                    assert torch.allclose(mine, right, rtol=1e-7, atol=1e-7)
        except (AssertionError, RuntimeError, IndexError) as trouble:
            wrong.append(f"{node.name} ({node.op}): {strategies.name(int(label))}: {str(trouble)[:200]}")
    return wrong


def wrong_on(mesh: str, graph: OpGraph, state: dict[str, Tensor], skip: tuple[str, ...] = ()) -> list[str]:
    made = values(graph, state)
    wrong: list[str] = []
    tried = 0
    for node, strategies in distinct(graph, Mesh.parse(mesh)):
        if not node.op.startswith(skip):
            tried += len(strategies)
            wrong += true(node, strategies, tensors_of(node, made), made[node.index])
    assert tried > 40
    return wrong


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors are tiny: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("name", "attention"),
    [("llama3-1b", "gpu"), ("gpt2", "cpu"), ("gpt2", "math"), ("dsv3-tiny", "gpu"), ("mlp", "gpu")],
)
def test_every_strategy_of_the_models_operations(name: str, attention: str) -> None:
    graph, state = traced(name, attention)
    wrong = [line for mesh in ("x=2", "x=3", "x=2,y=3") for line in wrong_on(mesh, graph, state)]
    assert not wrong, "\n".join(wrong)


def test_every_strategy_on_three_mesh_dimensions() -> None:
    graph, state = traced("llama3-1b", "gpu")
    wrong = wrong_on("x=2,y=2,z=2", graph, state)
    assert not wrong, "\n".join(wrong)


def test_every_strategy_in_mixed_precision() -> None:
    torch.manual_seed(0)
    spec = zoo.build("llama3-1b", device="cpu", **MODELS["llama3-1b"])
    graph = trace(spec.model, spec.make_inputs, policy=MixedPrecision(torch.bfloat16, torch.float32))
    state = {**dict(spec.model.named_parameters()), **dict(spec.model.named_buffers())}
    assert any(node.op.startswith("aten._scaled_dot_product_cudnn") for node in graph.nodes)
    wrong = wrong_on("x=3", graph, state)
    assert not wrong, "\n".join(wrong)


class Many(nn.Module):
    """Operations that the models do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.embedding = nn.Conv1d(8, 8, 3, padding=1), nn.Embedding(40, 16)
        self.groups, self.head = nn.GroupNorm(2, 8), nn.Linear(16, 40)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        h = self.convolution(self.embedding(x)).masked_fill(x[..., None] > 20, 0.0).tanh()
        h = torch.where(h > 0, h, h.exp()).cumsum(1) * 0.1
        h = torch.einsum("bsd,btd->bst", h, h) @ h * 0.01
        h = h.softmax(-1) + h.log_softmax(-1).mean((1, 2), keepdim=True) + h.amax(-1, keepdim=True) + h.max()
        h = h.flip(1).roll(1, 0).pow(2).var(-1, keepdim=True) + h + h.amin()
        h = F.pad(h, (1, -1)).permute(0, 2, 1).reshape(8, 16, 8).transpose(1, 2).contiguous()
        h = h.gather(-1, h.argsort(-1)).index_select(1, torch.arange(8))[:, torch.arange(8)]
        h = torch.stack([h, h * 2, h - 1], 2).mean(2)
        hot = F.one_hot(x, 40).to(h.dtype)
        z = self.head(h) + hot
        tail = z.tril().norm() + z.repeat(1, 2, 1).prod(-1).sum() + z.clamp(-1, 1).topk(2)[0].sum()
        loss = F.cross_entropy(z.flatten(0, 1), y.flatten()) + F.layer_norm(z, (40,)).std() + tail
        return loss, z.logsumexp(-1), z.argmax(-1), self.groups(h).mean()


def test_every_strategy_of_many_more_operations() -> None:
    torch.manual_seed(0)
    model = Many()
    tokens = torch.zeros(8, 8, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingRuleWarning)
        graph = trace(model, (tokens, tokens), attention="cpu")
        state = dict(model.named_parameters())
        wrong = [line for mesh in ("x=2", "x=4", "x=2,y=2") for line in wrong_on(mesh, graph, state)]
    assert not wrong, "\n".join(wrong)


class Cached(nn.Module):
    """What libraries of models do besides: caches that start empty, results written in place, sums by index."""

    def __init__(self) -> None:
        super().__init__()
        self.groups, self.weight = nn.GroupNorm(2, 8), nn.Parameter(torch.ones(8, 4))

    def forward(self, x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        x, at = x * self.weight, at % 8
        kept = torch.cat([torch.tensor([]), x], dim=-2)
        longer = torch.cat([kept, x, x], dim=1)
        shifted = torch.zeros_like(x)
        shifted[:, 1:] = x[:, :-1]
        shifted[:, 0] = x[:, 0].detach().sum(0)
        added = torch.zeros(8, 4).index_add(0, at, x[0]) + kept.mean(0)
        spread = torch.zeros_like(x).scatter_reduce(1, at[None, :, None].expand_as(x), x, "amax")
        return longer, shifted, added, spread, self.groups(x)


def test_every_strategy_of_what_libraries_do_besides() -> None:
    torch.manual_seed(0)
    model = Cached()
    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingRuleWarning)
        graph = trace(model, (torch.zeros(4, 8, 4), torch.zeros(8, dtype=torch.int64)))
        state = dict(model.named_parameters())
        ops = {node.op.split(".")[1] for node in graph.nodes if node.kind == "op"}
        assert {"cat", "copy", "index_add", "scatter_reduce", "native_group_norm_backward"} <= ops
        # Of these no value is ever read, or their shape is not among their arguments: whoever runs them sees to it.
        skip = ("aten.new_empty", "aten.zeros_like")
        wrong = [line for mesh in ("x=2", "x=4", "x=2,y=2") for line in wrong_on(mesh, graph, state, skip)]
    assert not wrong, "\n".join(wrong)


class Biased(nn.Module):
    def forward(self, q: Tensor, bias: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q * 2, q * 3, attn_mask=bias)


@pytest.mark.parametrize("bias", [(4, 1, 8, 8), (8, 8), (4, 6, 8, 8)])
@pytest.mark.parametrize(("attention", "dtype"), [("gpu", "float32"), ("gpu", "bfloat16"), ("cpu", "float32")])
def test_attention_with_a_bias(attention: str, dtype: str, bias: tuple[int, ...]) -> None:
    kind = getattr(torch, dtype)
    inputs = (torch.zeros(4, 6, 8, 16, requires_grad=True, dtype=kind), torch.zeros(bias, dtype=kind))
    graph = trace(Biased(), inputs, attention=attention)
    made = values(graph, {})
    fused = [(n, s) for n, s in distinct(graph, Mesh.parse("x=2")) if "attention" in n.op]
    assert [len(strategies) for _, strategies in fused] == [3, 3]
    wrong = [line for n, s in fused for line in true(n, s, tensors_of(n, made), made[n.index])]
    assert not wrong, "\n".join(wrong)


def test_a_false_strategy_is_found() -> None:
    graph, state = traced("mlp", "gpu")
    made = values(graph, state)
    node, strategies = next((n, s) for n, s in distinct(graph, Mesh.parse("x=2")) if n.op == "aten.mm.default")
    for outputs in (strategies.outputs[::-1].copy(), np.zeros_like(strategies.outputs)):
        lies = dataclasses.replace(strategies, outputs=outputs)
        assert true(node, lies, tensors_of(node, made), made[node.index])
