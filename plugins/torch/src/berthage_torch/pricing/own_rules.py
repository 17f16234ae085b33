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
