"""The traced graph as data: kinds, phases, paths, sizes, regions, and what is said when a trace fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from berthage import BerthageError
from berthage_torch import OpGraph, TraceError, at_batch, hint, local_map, trace
from berthage_torch.graph import iterate_refs, resolve_placements
from berthage_torch.marks import Declared, derived_gradients, to_codes
from berthage_torch.models import zoo

SMALL = {"dim": 32, "layers": 2, "heads": 4, "kv_heads": 2, "vocab": 40, "sequence": 8, "batch": 4}


def consistent(graph: OpGraph) -> None:
    """What every graph promises."""
    names = Counter(node.name for node in graph.nodes)
    assert set(names.values()) == {1}
    for index, node in enumerate(graph.nodes):
        assert node.index == index
        found = [*iterate_refs(node.args), *(ref for _, value in node.kwargs for ref in iterate_refs(value))]
        assert node.inputs == tuple(found)
        for ref in node.inputs:
            assert ref.node < index
            assert graph.nodes[ref.node].outputs[ref.output] is not None
            if node.phase == "forward" and node.kind == "op":
                assert graph.nodes[ref.node].phase == "forward"
    used = {ref.node for node in graph.nodes for ref in node.inputs}
    dead = [n.name for n in graph.nodes if n.kind == "op" and n.index not in used]
    assert not dead
    assert [*graph.edges()] == sorted(graph.edges(), key=lambda edge: (edge.consumer, edge.position))
    assert sum(map(len, graph.users)) == sum(len(node.inputs) for node in graph.nodes)


@pytest.fixture(scope="module")
def llama() -> OpGraph:
    spec = zoo.build("llama3-1b", **SMALL)
    return trace(spec.model, spec.make_inputs, policy=spec.policy)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_step_is_traced_whole_whatever_the_caller_is_in(mode: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    inputs = (torch.zeros(2, 4),)
    with mode():
        graph = trace(model, inputs)
    assert graph.key == trace(model, inputs).key
    assert graph.gradients


def test_a_llama_has_one_fused_operation_for_each_attention_and_norm(llama: OpGraph) -> None:
    consistent(llama)
    ops = Counter(node.op for node in llama.nodes if node.kind == "op")
    assert ops["aten._scaled_dot_product_cudnn_attention.default"] == 2
    assert ops["aten._scaled_dot_product_cudnn_attention_backward.default"] == 2
    assert ops["aten._fused_rms_norm.default"] == 5
    assert ops["aten._fused_rms_norm_backward.default"] == 5
    assert ops["aten.mm.default"] == 3 * (2 * 7 + 1)
    assert not {op for op in ops if "detach" in op or op.startswith("berthage") or "getitem" in op}


def test_parameters_gradients_inputs_outputs_and_tangents_are_found(llama: OpGraph) -> None:
    model = zoo.build("llama3-1b", **SMALL).model
    assert list(llama.parameters) == [name for name, _ in model.named_parameters()]
    assert set(llama.gradients) == set(llama.parameters)
    for name, parameter in model.named_parameters():
        node = llama.nodes[llama.parameters[name]]
        assert (node.kind, node.fqn) == ("parameter", name)
        gradient = llama.nodes[llama.gradient_nodes[name]]
        assert (gradient.kind, gradient.role, gradient.fqn) == ("output", "gradient", name)
        assert node.outputs[0].shape == gradient.outputs[0].shape == tuple(parameter.shape)
        assert node.outputs[0].dtype == gradient.outputs[0].dtype == "float32"
    assert list(llama.buffers) == ["rotary"]
    (source,), (result,) = llama.inputs, llama.outputs
    assert llama.nodes[source].outputs[0].shape == (4, 8)
    assert llama.nodes[result].outputs[0].shape == (4, 8, 40)
    assert llama.nodes[llama.tangents[result]].outputs == llama.nodes[result].outputs


def test_every_operation_knows_its_module(llama: OpGraph) -> None:
    for node in llama.nodes:
        if node.op == "aten.mm.default" or "attention" in node.op or "rms_norm" in node.op:
            assert node.path.startswith(("layers.", "norm", "output")), node
    counts = Counter((node.path, node.phase) for node in llama.nodes if node.op == "aten.mm.default")
    assert counts[("layers.1.attention.wk", "forward")] == 1
    assert counts[("layers.1.attention.wk", "backward")] == 2
    per_layer = [Counter(n.op for n in llama.nodes if n.path.startswith(f"layers.{i}.")) for i in range(2)]
    assert per_layer[0] == per_layer[1]


def test_casts_stand_beside_their_use(llama: OpGraph) -> None:
    for node in llama.nodes:
        if node.role == "parameter-cast":
            first = min(edge.consumer for edge in llama.users[node.index])
            assert all(n.role == "parameter-cast" for n in llama.nodes[node.index + 1 : first])
        if node.role == "gradient-cast":
            between = llama.nodes[node.inputs[0].node + 1 : node.index]
            assert all(n.role == "gradient-cast" for n in between)


def test_the_module_and_torch_stay_as_they_were() -> None:
    spec = zoo.build("llama3-1b", **SMALL)
    before = {name: (id(p), p.device.type) for name, p in spec.model.named_parameters()}
    state, dtype, enabled = torch.get_rng_state(), torch.get_default_dtype(), torch.is_grad_enabled()
    keys = [trace(spec.model, spec.make_inputs).key]
    assert torch.equal(torch.get_rng_state(), state)
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == (dtype, enabled)
    assert torch.get_default_device().type == "cpu"
    torch.manual_seed(7)
    keys.append(trace(spec.model, spec.make_inputs).key)
    assert keys[0] == keys[1]
    assert {name: (id(p), p.device.type) for name, p in spec.model.named_parameters()} == before
    for module in spec.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in vars(module)
    assert not torch.distributed.is_initialized()
    assert not torch.cuda.is_initialized()


def test_a_key_is_the_same_in_every_process() -> None:
    script = (
        "from berthage_torch import trace; from berthage_torch.models import zoo;"
        "s = zoo.build('mlp', dim=8, hidden=8, batch=4); print(trace(s.model, s.make_inputs).key)"
    )
    spec = zoo.build("mlp", dim=8, hidden=8, batch=4)
    here = trace(spec.model, spec.make_inputs).key
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "PYTHONHASHSEED": "3"},
    )
    assert done.stdout.strip() == here
    other = zoo.build("mlp", dim=8, hidden=16, batch=4)
    assert trace(other.model, other.make_inputs).key != here


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, batch: dict[str, Any], *, scale: float = 1.0, flag: bool = False, extra: Any = None) -> Any:
        h = self.linear(batch["x"][0]) * scale
        return {"h": h, "also": (h + batch["x"][1] if flag else h, 3), "extra": extra}


def test_nested_inputs_keywords_and_values_that_are_no_tensors() -> None:
    inputs = {"batch": {"x": [torch.randn(2, 4), torch.randn(2, 4)]}, "scale": 2.0, "flag": True}
    graph = trace(Nested(), inputs)
    consistent(graph)
    assert [graph.nodes[i].fqn for i in graph.inputs] == ["batch['x'][0]", "batch['x'][1]"]
    assert [graph.nodes[o].fqn for o in graph.outputs] == ["output['h']", "output['also'][0]"]
    positional = trace(Nested(), (inputs["batch"],), {"scale": 2.0, "flag": True})
    assert [n.op for n in positional.nodes] == [n.op for n in graph.nodes]
    plain = trace(Nested(), (inputs["batch"],), {"flag": False})
    assert sum(n.op == "aten.add.Tensor" for n in plain.nodes if n.phase == "forward") == 0


def test_a_producer_used_twice_gives_two_edges() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = x.cos()
            return h * h

    graph = trace(Square(), (torch.randn(3, requires_grad=True),))
    product = next(node for node in graph.nodes if node.op == "aten.mul.Tensor" and node.phase == "forward")
    assert product.inputs[0] == product.inputs[1]
    assert [edge.position for edge in graph.edges() if edge.consumer == product.index] == [0, 1]


def test_outputs_of_one_operation_are_indices() -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = x.chunk(2, -1)
            return first * second.max(-1, keepdim=True).values

    graph = trace(Halves(), (torch.randn(3, 8, requires_grad=True),))
    consistent(graph)
    assert any(ref.output == 1 for node in graph.nodes for ref in node.inputs)


def test_a_model_on_the_cpu_and_on_meta_is_the_same() -> None:
    models = [zoo.build("mlp", device=device, dim=8, hidden=8).model for device in ("cpu", "meta")]
    assert len({trace(model, torch.zeros(4, 8)).key for model in models}) == 1


@pytest.mark.parametrize("name", ["llama3-1b", "gpt2"])
def test_one_trace_serves_other_batch_sizes(name: str) -> None:
    sizes = {k: v for k, v in SMALL.items() if name == "llama3-1b" or k != "kv_heads"}
    spec = zoo.build(name, **sizes)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy, dynamic_batch=True)
    for batch in (1, 7):
        other = zoo.build(name, **{**sizes, "batch": batch})
        direct = trace(other.model, other.make_inputs, policy=other.policy)
        again = at_batch(graph, batch)
        assert again.batch == batch
        assert [(n.op, n.inputs, n.outputs) for n in again.nodes] == [(n.op, n.inputs, n.outputs) for n in direct.nodes]
        assert [(n.args, n.kwargs) for n in again.nodes] == [(n.args, n.kwargs) for n in direct.nodes]
    source = graph.nodes[graph.inputs[0]]
    assert source.batch_dims == ((0,),)
    assert all(node.batch_dims == ((),) for node in graph.nodes if node.kind == "parameter")


def test_a_model_for_one_batch_size_says_so() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.ones(4, 1)

    with pytest.raises(TraceError, match="batch size 4 only"):
        trace(Fixed(), (torch.randn(4, 3),), dynamic_batch=True)
    graph = trace(Fixed(), (torch.randn(4, 3),))
    with pytest.raises(TraceError, match="dynamic_batch=True"):
        at_batch(graph, 8)


@pytest.mark.parametrize(
    ("dtype", "mask", "op"),
    [
        (torch.bfloat16, False, "aten._scaled_dot_product_cudnn_attention"),
        (torch.bfloat16, True, "aten._scaled_dot_product_cudnn_attention"),
        (torch.float32, False, "aten._scaled_dot_product_efficient_attention"),
    ],
)
def test_attention_is_pinned_also_where_keys_are_wider_than_values(dtype: torch.dtype, mask: bool, op: str) -> None:
    class Attention(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            allowed = torch.ones(6, 6, dtype=torch.bool, device=q.device).tril() if mask else None
            return F.scaled_dot_product_attention(q, k, v, allowed, is_causal=not mask)

    q, k, v = (torch.randn(2, 3, 6, size, dtype=dtype, requires_grad=True) for size in (24, 24, 16))
    graph = trace(Attention(), (q, k, v))
    consistent(graph)
    assert [n.op for n in graph.nodes if "scaled_dot" in n.op] == [f"{op}.default", f"{op}_backward.default"]
    assert [graph.nodes[g.node].outputs[g.output].shape[-1] for g in graph.input_grads.values()] == [24, 24, 16]


def test_a_bias_that_is_learned_keeps_attention_in_one_operation() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3, 6, 6))

        def forward(self, q: torch.Tensor) -> torch.Tensor:
            assert torch.compiler.is_compiling()
            return F.scaled_dot_product_attention(q, q, q, self.bias.to(q.dtype)[None])

    graph = trace(Biased(), (torch.randn(2, 3, 6, 8, dtype=torch.bfloat16),))
    fused = "aten._scaled_dot_product_efficient_attention"
    assert [n.op for n in graph.nodes if "scaled_dot" in n.op] == [f"{fused}.default", f"{fused}_backward.default"]
    assert "bias" in graph.gradients
    assert not torch.compiler.is_compiling()


class Chooses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class Selects(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


class Breaks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(99, 2)


@pytest.mark.parametrize(
    ("inner", "words"),
    [(Chooses(), "torch.where or a mask"), (Selects(), "a mask instead of indexing"), (Breaks(), "as it would on re")],
)
def test_a_failure_names_operation_module_and_way_out(inner: nn.Module, words: str) -> None:
    with pytest.raises(TraceError, match=words) as raised:
        trace(nn.Sequential(nn.Identity(), nn.Sequential(inner)), (torch.randn(4, 4),))
    assert isinstance(raised.value, BerthageError)
    assert raised.value.path == "1.0"
    assert "'1.0'" in str(raised.value)
    if not isinstance(inner, Breaks):
        assert raised.value.op.startswith("aten.")


def test_wrong_use_is_named() -> None:
    with pytest.raises(TraceError, match="not 'cuda'"):
        trace(nn.Identity(), (torch.randn(1),), device="cuda")
    with pytest.raises(TraceError, match="attention is one of"):
        trace(nn.Identity(), (torch.randn(1),), attention="quick")
    with pytest.raises(TraceError, match="returns no tensor"):
        trace(nn.Identity(), (3,))


class Experts(nn.Module):
    """One product with weights that are split over ``ep``, tokens split over ``dp``."""

    def __init__(self, *, capture: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8, 8))
        self.outside = nn.Parameter(torch.randn(8))
        tokens, experts = {"dp": "S(0)"}, {"ep": "S(0)"}

        def body(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            out = torch.einsum("bd,edh->bh", x, w).tanh()
            return out * self.outside if capture else out

        self.run = local_map(body, (tokens, experts), {"dp": "S(0)", "ep": "P"})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x.cos(), self.weight).sin()


def test_gradients_of_replicated_inputs_of_a_region_are_partial_sums() -> None:
    graph = trace(Experts(), (torch.randn(6, 8, requires_grad=True),))
    consistent(graph)
    forward, backward = (node for node in graph.nodes if node.local_map)
    assert (forward.local_map.pair, backward.local_map.pair) == (backward.index, forward.index)
    axes = ("dp", "ep")
    codes = lambda entries: [None if e is None else resolve_placements(e, axes) for e in entries]  # noqa: E731
    assert codes(forward.local_map.inputs) == [(8, 0), (0, 8)]
    assert codes(forward.local_map.outputs)[0] == (8, 1)
    # The gradient of a partial sum is replicated; tokens: sharded on dp, partial on ep; experts: partial on dp, S(0).
    assert codes(backward.local_map.inputs)[0] == (8, 0)
    assert codes(backward.local_map.outputs) == [(8, 1), (1, 8)]
    saved = [ref for ref, placed in zip(backward.inputs, backward.local_map.inputs, strict=True) if placed is None]
    assert saved
    assert all(ref.node == forward.index and forward.local_map.outputs[ref.output] is None for ref in saved)
    gradient = graph.gradients["weight"]
    assert gradient.node == backward.index
    for node in (forward, backward):
        body = node.local_map.body
        assert [n.kind for n in body.nodes[: len(node.inputs)]] == ["input"] * len(node.inputs)
        assert [body.nodes[r.node].outputs[r.output] for r in body.outputs] == list(node.outputs)


@pytest.mark.parametrize(
    ("inputs", "outputs", "gradients"),
    [
        ([("S(0)", "R"), ("R", "S(0)")], ["S(0)", "P"], [(8, 1), (1, 8)]),
        ([("R", "R"), ("R", "R")], ["R", "R"], [(0, 0), (0, 0)]),
        ([("R",), ("P",)], ["R"], [(1,), (0,)]),
        ([("R",)], ["S(1)"], [(1,)]),
        ([{"tp": "S(1)"}, {}], {"tp": "P"}, [(("tp", 9),), (("tp", 1),)]),
    ],
)
def test_the_rule_for_gradients(inputs: list[Any], outputs: Any, gradients: list[Any]) -> None:
    declared = Declared(tuple(map(to_codes, inputs)), (to_codes(outputs),), ())
    assert derived_gradients(declared) == tuple(gradients)


def test_a_region_must_be_handed_what_it_uses() -> None:
    with pytest.raises(TraceError, match=r"uses parameter 'outside', which is not among its arguments"):
        trace(Experts(capture=True), (torch.randn(6, 8),))


def test_given_gradient_placements_win_and_wrong_placements_are_refused() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            region = local_map(torch.cos, (("S(0)", "R"),), ("S(0)", "R"), in_grad_placements=(("S(0)", "P"),))
            return region(x)

    graph = trace(Model(), (torch.randn(4, requires_grad=True),))
    assert [n.local_map.outputs for n in graph.nodes if n.local_map and n.phase == "backward"] == [((8, 1),)]
    for wrong in ("S", "S(x)", 3):
        with pytest.raises(ValueError, match="is no placement"):
            hint_of(wrong)
    from torch.distributed.tensor import Partial, Replicate, Shard

    assert to_codes((Shard(2), Replicate(), Partial(), Partial("avg"))) == (10, 0, 1, 2)
    with pytest.raises(ValueError, match="by axis name"):
        resolve_placements((8, 0), ("dp", "tp", "ep"))


def hint_of(placement: Any) -> Any:
    return to_codes((placement,))


def test_a_hint_is_one_node_and_does_nothing_without_a_trace() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return hint(x.cos(), {"dp": "S(0)", "tp": "S(1)"}).sin()

    x = torch.randn(4, 4, requires_grad=True)
    assert hint(x, ("R",)) is x
    graph = trace(Model(), (x,))
    (marked,) = [node for node in graph.nodes if node.hint]
    assert marked.op == "aten.alias.default"
    assert resolve_placements(marked.hint, ("dp", "tp")) == (8, 9)
    assert not [node for node in graph.nodes if node.op.startswith("berthage")]


def test_a_graph_is_plain_data(llama: OpGraph) -> None:
    def plain(value: Any) -> bool:
        if isinstance(value, tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, (str, int, float, bool))

    assert all(plain((node.args, node.kwargs, node.inputs, node.hint)) for node in llama.nodes)
    json.dumps([[node.name, node.args, node.kwargs, node.inputs] for node in llama.nodes])


def test_a_region_that_names_no_axis_is_replicated_on_all() -> None:
    assert resolve_placements((), ("dp", "tp")) == (0, 0)
