"""Single-dimension rules that torch does not have, written as placement codes. Imports no torch.

A rule is ``(inputs, outputs)``: one code for each tensor argument and each output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from berthage_nccl.placements import PARTIAL_SUM, REPLICATE, shard
from berthage_torch.graph import Node, TensorMeta

__all__ = ["OWN", "Rule", "placements_of"]

Rule: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
_Maker: TypeAlias = Callable[[Node, tuple[TensorMeta, ...]], list[Rule]]


def placements_of(meta: TensorMeta) -> list[int]:
    """Replicate, and a shard of every dimension longer than one."""
    return [REPLICATE, *(shard(d) for d, size in enumerate(meta.shape) if size > 1)]


def _attention(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Batch and heads are independent, forward and backward: tensors that have both are sharded alike."""
    query = inputs[0].shape
    rules: list[Rule] = []
    for d in (0, 1):
        first = 1 if "backward" in node.op else 0
        factors = [t.shape[d] for t in inputs[first : first + 3]]
        results = [t.shape[d] for t in node.outputs if t is not None and len(t.shape) > 2]
        biases = [t.shape[d] for t in inputs if len(t.shape) == 4]
        if query[d] == 1 or {*factors, *results} != {query[d]} or not {*biases} <= {1, query[d]}:
            continue  # grouped heads: a rank's queries would need keys of another, and their gradients would be parts

        def code(meta: TensorMeta | None, d: int = d) -> int:
            whole = meta is None or len(meta.shape) < 3 or meta.shape[d] != query[d]
            return REPLICATE if whole else shard(d)

        rules.append((tuple(code(t) for t in inputs), tuple(code(t) for t in node.outputs)))
    return rules


def _identity(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """A copy: any placement, a pending sum included."""
    codes = [*placements_of(inputs[0]), *([] if inputs[0].dtype == "bool" else [PARTIAL_SUM])]
    return [((code,), (code,)) for code in codes]


def _stack(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Everything but the new dimension: what lies behind it moves by one."""
    rank = len(inputs[0].shape)
    at = int(node.args[1]) if len(node.args) > 1 else int(dict(node.kwargs).get("dim", 0))
    at += rank + 1 if at < 0 else 0
    rules: list[Rule] = [((PARTIAL_SUM,) * len(inputs), (PARTIAL_SUM,))] if inputs[0].dtype != "bool" else []
    for code in placements_of(inputs[0]):
        rules.append(((code,) * len(inputs), (code + 1 if code >= shard(at) else code,)))
    return rules


def _filled(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """A tensor of constants that takes only its kind from the input: any shard, the input's where there is the same."""
    out, given = node.outputs[0], inputs[0].shape
    assert out is not None
    rules: list[Rule] = []
    for code in placements_of(out):
        d = code - shard(0)
        same = d >= 0 and d < len(given) and given[d] == out.shape[d]
        rules += [((REPLICATE,), (code,)), *([((code,), (code,))] if same else [])]
    return rules


def _nll_backward(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Each row of the log-probabilities has its own gradient; the scalars among the inputs are of the whole batch.

    The forward rule is torch's: the mean over ranks of the means. It is exact when every rank counts as many targets,
    so unless targets are ignored; this rule is exact either way, for it divides by the total of all ranks.
    """
    rows = [shard(0) if meta.shape and meta.shape[0] == inputs[1].shape[0] else REPLICATE for meta in inputs]
    weighted = len(inputs) > 4  # one weight a class, of all classes
    return [] if weighted or len(inputs[1].shape) != 2 else [(tuple(rows), (shard(0),))]


def _cat(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Alike on every dimension but the joined one. What is empty (the start of a cache, say) changes nothing.

    With one tensor that is not empty, this is a copy of it.
    """
    full = [meta.nbytes > 0 for meta in inputs]
    first = next((meta for meta, holds in zip(inputs, full, strict=True) if holds), inputs[0])
    at = int(node.args[1]) if len(node.args) > 1 else int(dict(node.kwargs).get("dim", 0))
    joined = shard(at % len(first.shape)) if first.shape else REPLICATE
    codes = [code for code in placements_of(first) if code != joined or sum(full) == 1]
    codes += [] if first.dtype == "bool" else [PARTIAL_SUM]
    return [(tuple(code if holds else REPLICATE for holds in full), (code,)) for code in codes]


def _overwritten(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """A tensor whose every element is given by the other arguments, spread over it as in arithmetic."""
    out = node.outputs[0]
    assert out is not None
    rules: list[Rule] = []
    for code in placements_of(out):
        given = tuple(_spread(code, meta, out) for meta in inputs[1:])
        rules.append(((code, *given), (code,)))
    if len(inputs) > 1 and out.dtype != "bool":
        sums = (PARTIAL_SUM,) * (len(inputs) - 1)
        rules += [((REPLICATE, *sums), (PARTIAL_SUM,)), ((PARTIAL_SUM, *sums), (PARTIAL_SUM,))]
    return rules


def _spread(code: int, meta: TensorMeta, out: TensorMeta) -> int:
    """The placement of a tensor that is spread over ``out`` from its last dimension on, for a placement of ``out``."""
    d = code - shard(0) - (len(out.shape) - len(meta.shape))
    return shard(d) if code >= shard(0) and d >= 0 and meta.shape[d] > 1 else REPLICATE


def _expand(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """A tensor spread over more: where it is the same all along, each rank makes just its shard."""
    out = node.outputs[0]
    assert out is not None
    rules: list[Rule] = [((_spread(code, inputs[0], out),), (code,)) for code in placements_of(out)]
    return rules + ([((PARTIAL_SUM,), (PARTIAL_SUM,))] if out.dtype != "bool" else [])


def _index_add(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Rows of a source are added to rows of a tensor: other dimensions are independent, and so are the sums."""
    whole, at = inputs[0], int(node.args[1])
    target = shard(at % len(whole.shape)) if whole.shape else REPLICATE
    rules: list[Rule] = [((PARTIAL_SUM, REPLICATE, PARTIAL_SUM), (PARTIAL_SUM,))]
    rules += [((code, REPLICATE, code), (code,)) for code in placements_of(whole) if code != target]
    if inputs[1].shape and inputs[1].shape[0] > 1:  # each rank adds its part of the source
        rules.append(((PARTIAL_SUM, shard(0), target), (PARTIAL_SUM,)))
    return rules


def _scatter_reduce(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Every dimension but the scattered one is independent where all three tensors have the same size."""
    at = int(node.args[1]) % max(1, len(inputs[0].shape))
    alike = [
        d
        for d, size in enumerate(inputs[0].shape)
        if d != at and size > 1 and all(meta.shape[d] == size for meta in inputs[1:])
    ]
    return [((shard(d),) * 3, (shard(d),)) for d in alike]


def _group_norm_backward(node: Node, inputs: tuple[TensorMeta, ...]) -> list[Rule]:
    """Every item of the batch by itself; the gradients of weight and bias are sums over the batch."""
    batch = inputs[1].shape[0]
    if batch < 2:
        return []
    placed = tuple(shard(0) if len(meta.shape) > 1 and meta.shape[0] == batch else REPLICATE for meta in inputs)
    given = (shard(0), PARTIAL_SUM, PARTIAL_SUM)
    return [(placed, tuple(c if m is not None else REPLICATE for c, m in zip(given, node.outputs, strict=True)))]


OWN: Final[Mapping[str, _Maker]] = MappingProxyType(
    {
        "aten._scaled_dot_product_flash_attention_for_cpu.default": _attention,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": _attention,
        "aten._scaled_dot_product_cudnn_attention.default": _attention,  # torch's has no shards with a bias
        "aten._scaled_dot_product_cudnn_attention_backward.default": _attention,
        "aten.clone.default": _identity,
        "aten.detach.default": _identity,
        "aten.alias.default": _identity,
        "aten.stack.default": _stack,
        "aten.cat.default": _cat,  # torch's replicates everything when one of the tensors is empty
        "aten.expand.default": _expand,  # torch's makes no shard of a dimension that the input does not have
        "aten.copy.default": _overwritten,
        "aten.fill.Tensor": _overwritten,
        "aten.fill.Scalar": _overwritten,
        "aten.index_add.default": _index_add,
        "aten.scatter_reduce.two": _scatter_reduce,
        "aten.native_group_norm_backward.default": _group_norm_backward,
        "aten.nll_loss_backward.default": _nll_backward,
        "aten.new_zeros.default": _filled,
        "aten.new_ones.default": _filled,
        "aten.new_full.default": _filled,
        "aten.zeros_like.default": _filled,
        "aten.ones_like.default": _filled,
        "aten.full_like.default": _filled,
    }
)
"""By operation. They come before torch's rules."""
