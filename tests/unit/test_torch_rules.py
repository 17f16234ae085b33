"""Single-dimension rules: known answers, and which operations have a rule in this version of torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from berthage_nccl import placements as codes
from berthage_torch import OpGraph, trace
from berthage_torch.graph import Node, Ref, TensorMeta, with_inputs
from berthage_torch.models import zoo
from berthage_torch.pricing.rules import OneDim, one_dim, torch_op

SIZES = {
    "llama3-1b": {"dim": 32, "layers": 1, "heads": 4, "kv_heads": 2, "vocab": 40, "sequence": 8, "batch": 4},
    "gpt2": {"dim": 32, "layers": 1, "heads": 4, "vocab": 40, "sequence": 8, "batch": 4},
    "dsv3-tiny": {"dim": 32, "layers": 2, "vocab": 40, "sequence": 8, "batch": 4},
    "mlp": {"dim": 16, "hidden": 24, "batch": 8},
}


def meta(*shape: int, dtype: str = "float32") -> TensorMeta:
    stride = tuple(torch.empty(shape, device="meta").stride())
    return TensorMeta(shape, dtype, torch.empty((), dtype=getattr(torch, dtype)).element_size(), stride)


def node(op: str, *args: object, outputs: tuple[TensorMeta | None, ...]) -> Node:
    return with_inputs(Node(0, "n", "op", op, args=args, outputs=outputs))


def texts(rules: OneDim) -> list[str]:
    sides = [
        [", ".join(codes.format([c]) for c in row) for row in side.tolist()] for side in (rules.inputs, rules.outputs)
    ]
    return [f"{i} -> {o}" for i, o in zip(*sides, strict=True)]


def test_matrix_product() -> None:
    rules = one_dim(node("aten.mm.default", Ref(1), Ref(2), outputs=(meta(4, 16),)), (meta(4, 8), meta(8, 16)))
    assert rules.source == "single-dim"
    assert texts(rules) == [
        "R, R -> R",
        "R, P -> P",
        "P, R -> P",
        "S(1), S(0) -> P",
        "S(0), R -> S(0)",
        "R, S(1) -> S(1)",
    ]
    assert not rules.even.any()


def test_a_table_sharded_by_rows_gives_a_masked_sum() -> None:
    made = node("aten.embedding.default", Ref(1), Ref(2), outputs=(meta(4, 8, 16),))
    rules = one_dim(made, (meta(40, 16), meta(4, 8, dtype="int64")))
    assert dict(zip(texts(rules), rules.masked.tolist(), strict=True)) == {
        "R, R -> R": False,
        "S(0), R -> P": True,
        "R, S(0) -> S(0)": False,
        "R, S(1) -> S(1)": False,
        "S(1), R -> S(2)": False,
    }


def test_a_view_keeps_only_what_stays_a_plain_shard() -> None:
    rules = one_dim(node("aten.view.default", Ref(1), (32, 16), outputs=(meta(32, 16),)), (meta(4, 8, 16),))
    assert dict(zip(texts(rules), rules.even.tolist(), strict=True)) == {
        "R -> R": False,
        "P -> P": False,
        "S(0) -> S(0)": True,  # 4 rows become 32: only whole rows of the 4 make a shard of the 32
        "S(2) -> S(1)": False,
    }


def test_an_expansion_makes_any_shard_of_what_is_the_same_all_along() -> None:
    rules = one_dim(node("aten.expand.default", Ref(1), (4, 8, 6), outputs=(meta(4, 8, 6),)), (meta(8, 1),))
    assert texts(rules) == ["R -> R", "P -> P", "R -> S(0)", "S(0) -> S(1)", "R -> S(2)"]


def test_averages_need_even_shards() -> None:
    rules = one_dim(node("aten.mean.dim", Ref(1), (1,), outputs=(meta(4),)), (meta(4, 8),))
    assert dict(zip(texts(rules), rules.even.tolist(), strict=True)) == {
        "R -> R": False,
        "S(1) -> P(avg)": True,
        "S(0) -> S(0)": False,
    }


def test_constants_are_replicated_and_parameters_may_lie_anywhere() -> None:
    assert texts(one_dim(node("aten.arange.default", 8, outputs=(meta(8, dtype="int64"),)), ())) == [" -> R"]
    parameter = Node(0, "w", "parameter", outputs=(meta(8, 1, 4),))
    assert texts(one_dim(parameter, ())) == [" -> R", " -> S(0)", " -> S(2)"]
    result = with_inputs(Node(0, "out", "output", args=(Ref(1),), outputs=(meta(8, 4),)))
    assert texts(one_dim(result, (meta(8, 4),))) == ["R -> R", "S(0) -> S(0)", "S(1) -> S(1)"]


@pytest.mark.parametrize("name", ["berthage_no_such.op.default", "aten.masked_scatter.default"])
def test_without_a_rule_everything_is_replicated(name: str) -> None:
    index = meta(8, dtype="int64")
    made = node(name, Ref(1), 0, Ref(2), Ref(3), outputs=(meta(8, 4),))
    rules = one_dim(made, (meta(8, 4), index, meta(8, 4)))
    assert rules.source == "missing"
    assert texts(rules) == ["R, R, R -> R"]


def test_names_of_torch_operations() -> None:
    assert torch_op("aten.mm.default") is torch.ops.aten.mm.default
    assert torch_op("aten.mm.nothing") is None


def graphs() -> Iterator[OpGraph]:
    for name, sizes in SIZES.items():
        spec = zoo.build(name, **sizes)
        yield trace(spec.model, spec.make_inputs, attention="gpu")
        if name == "gpt2":
            yield trace(spec.model, spec.make_inputs, attention="cpu")


def test_where_the_rules_of_the_models_operations_come_from() -> None:
    """When another version of torch moves, adds or drops a rule, this says which."""
    found: dict[str, set[str]] = {}
    for graph in graphs():
        for one in graph.nodes:
            if one.kind == "op" and one.local_map is None:
                metas = [graph.nodes[ref.node].outputs[ref.output] for ref in one.inputs]
                rules = one_dim(one, tuple(m for m in metas if m is not None))
                found.setdefault(rules.source, set()).add(one.op.removeprefix("aten.").removesuffix(".default"))
    assert {source: " ".join(sorted(ops)) for source, ops in found.items()} == {
        "single-dim": "_fused_rms_norm _fused_rms_norm_backward add.Tensor addmm div.Tensor embedding "
        "embedding_dense_backward gelu gelu_backward mm mul.Tensor native_layer_norm native_layer_norm_backward neg "
        "relu sigmoid sigmoid_backward silu silu_backward sub.Tensor threshold_backward",
        "op-strategy": "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
        "_unsafe_view gather scatter_add slice.Tensor split.Tensor split_with_sizes squeeze.dim "
        "sum.dim_IntList t topk transpose.int unbind.int unsqueeze view",
        "own": "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward cat "
        "clone expand new_zeros stack",
        "replicate": "arange",
    }  # fmt: skip
