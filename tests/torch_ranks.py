"""Ranks simulated in one process: tensors cut by placement, an operation run on the pieces, the pieces put together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from berthage_nccl import placements as codes
from berthage_torch import OpGraph, ops
from berthage_torch.graph import Named, Node, Ref
from berthage_torch.pricing.strategies import Strategies

Tensor = torch.Tensor
Pieces = dict[tuple[int, ...], Tensor]
aten = torch.ops.aten


# -- operations on real tensors, floating point in float64 -------------------------------------------


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, scale: float | None) -> Any:
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def _fused(
    q: Any, k: Any, v: Any, bias: Any, logsumexp: Any, dropout: Any = 0.0, causal: bool = False, scale: Any = None
) -> Any:
    out, lse = _attend(q, k, v, bias, causal, scale)
    nothing = torch.zeros((), dtype=torch.int64)
    return out, lse, nothing, nothing


def _efficient(*args: Any, **kwargs: Any) -> Any:
    out, lse, seed, offset = _fused(*args, **kwargs)
    return out, F.pad(lse, (0, -lse.shape[-1] % 32)), seed, offset


def _cudnn(*args: Any, **kwargs: Any) -> Any:
    out, lse, seed, offset = _fused(*args, **kwargs)
    return out, lse[..., None], None, None, 0, 0, seed, offset, torch.zeros(())


def _attend_backward(grad: Any, q: Any, k: Any, v: Any, bias: Any, causal: bool, scale: Any) -> list[Tensor]:
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    with torch.enable_grad():
        out, _ = _attend(*leaves, bias, causal, scale)
    return list(torch.autograd.grad(out, leaves, grad))


def _efficient_backward(
    grad: Any, q: Any, k: Any, v: Any, bias: Any, out: Any, lse: Any, seed: Any, offset: Any, dropout: Any,
    mask: Any, causal: bool = False, scale: Any = None,
) -> Any:  # fmt: skip
    return (*_attend_backward(grad, q, k, v, bias, causal, scale), None)


def _cudnn_backward(
    grad: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, seed: Any, offset: Any, bias: Any, cum_q: Any, cum_k: Any,
    max_q: Any, max_k: Any, dropout: Any, causal: bool, scale: Any = None,
) -> Any:  # fmt: skip
    return _attend_backward(grad, q, k, v, bias, causal, scale)


STAND_INS: Mapping[str, Callable[..., Any]] = {
    "aten._scaled_dot_product_efficient_attention.default": _efficient,
    "aten._scaled_dot_product_efficient_attention_backward.default": _efficient_backward,
    "aten._scaled_dot_product_cudnn_attention.default": _cudnn,
    "aten._scaled_dot_product_cudnn_attention_backward.default": _cudnn_backward,
    "aten.view.default": aten.reshape.default,  # local strides, and those of the stand-ins, are of no matter here
    "aten._fused_rms_norm.default": ops.torch.ops.berthage.rms_norm.default,
    "aten._fused_rms_norm_backward.default": ops.torch.ops.berthage.rms_norm_backward.default,
}
"""For operations that have no kernel on a CPU."""


def wide(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def call(node: Node, tensors: Sequence[Tensor], shape: Sequence[int] | None = None) -> list[Tensor | None]:
    """A node on the tensors of its `inputs`; ``shape`` replaces a global shape among its arguments."""
    left = iter(tensors)

    def read(value: Any) -> Any:
        if isinstance(value, Ref):
            return next(left)
        if isinstance(value, Named):
            if value.kind == "device":
                return torch.device(value.value)
            found = getattr(torch, value.value.removeprefix("torch."))
            return torch.float64 if value.kind == "dtype" and found.is_floating_point else found
        if isinstance(value, tuple):
            return [read(item) for item in value]
        return value

    args = [read(value) for value in node.args]
    if shape is not None:
        place = next(i for i, value in enumerate(args) if isinstance(value, list) and i > 0)
        args[place] = list(shape)
    if node.op.startswith("aten.native_group_norm"):
        args[5 if "backward" in node.op else 3] = tensors[0].shape[0]
    space, name, overload = node.op.split(".")
    op = STAND_INS.get(node.op) or getattr(getattr(getattr(torch.ops, space), name), overload)
    result = op(*args, **{key: read(value) for key, value in node.kwargs})
    found = list(result) if isinstance(result, (tuple, list)) else [result]
    return [wide(t) if isinstance(t, Tensor) else None for t in found]


def values(graph: OpGraph, state: Mapping[str, Tensor]) -> dict[int, list[Tensor | None]]:
    """Real values of all nodes up to the first region and of whatever does not depend on one.

    Args:
        graph: The graph.
        state: Parameters and buffers by name. Inputs of integers are below 32; the rest is normal.
    """
    made: dict[int, list[Tensor | None]] = {}
    for node in graph.nodes:
        if any(ref.node not in made for ref in node.inputs):
            # Behind a region: what it would be is of no matter, so any values of the right kind do.
            for ref in node.inputs:
                made.setdefault(ref.node, [_any(meta) for meta in graph.nodes[ref.node].outputs])
        if node.local_map is not None:
            continue
        if node.kind in ("parameter", "buffer"):
            made[node.index] = [wide(state[node.fqn].detach())]
        elif node.kind == "constant":
            made[node.index] = [wide(getattr(graph.fx.joint.graph_module, node.fqn))]
        elif node.kind in ("input", "tangent"):
            made[node.index] = [_any(meta) for meta in node.outputs]
        elif node.kind == "op":
            made[node.index] = call(node, tensors_of(node, made))
    return made


def _any(meta: Any) -> Tensor | None:
    if meta is None:
        return None
    kind = getattr(torch, meta.dtype)
    if kind.is_floating_point:
        return torch.randn(meta.shape, dtype=torch.float64)
    return torch.randint(0, 2 if kind == torch.bool else 32, meta.shape).to(kind)


def tensors_of(node: Node, made: Mapping[int, list[Tensor | None]]) -> list[Tensor]:
    found = [made[ref.node][ref.output] for ref in node.inputs]
    return [t for t in found if t is not None]


# -- placements on real tensors ----------------------------------------------------------------------


def scatter(tensor: Tensor, placement: Sequence[int], sizes: Sequence[int]) -> Pieces:
    """The local tensor of each rank. A pending sum is cut into random parts, an average likewise."""
    if not sizes:
        return {(): tensor}
    code, many = int(placement[0]), sizes[0]
    if codes.is_shard(code):
        d = code - codes.shard(0)
        # Contiguous, as what a rank holds is: some kernels of torch read others wrongly.
        parts = [part.contiguous() for part in tensor.split(-(-tensor.shape[d] // many), dim=d)]
        assert len(parts) == many, "an empty shard"
    elif code == codes.PARTIAL_SUM:
        parts = [torch.randn_like(tensor) if tensor.is_floating_point() else torch.randint_like(tensor, 5)] * (many - 1)
        parts = [part * (i + 1) for i, part in enumerate(parts)]
        parts.append(tensor - sum(parts))
    elif code == codes.PARTIAL_AVG:
        sums = scatter(tensor * many, [codes.PARTIAL_SUM], [many])
        parts = [sums[rank,] for rank in range(many)]
    elif code in (codes.PARTIAL_MAX, codes.PARTIAL_MIN):
        less = torch.where(torch.rand(tensor.shape) < 0.5, tensor, tensor + (2 * (code == codes.PARTIAL_MIN) - 1))
        parts = [tensor, *([less] * (many - 1))]
    else:
        assert code == codes.REPLICATE, code
        parts = [tensor] * many
    made: Pieces = {}
    for rank, part in enumerate(parts):
        made.update({(rank, *rest): piece for rest, piece in scatter(part, placement[1:], sizes[1:]).items()})
    return made


def gather(pieces: Pieces, placement: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """The whole tensor; fails when replicas differ."""
    if not sizes:
        return pieces[()]
    parts = []
    for rank in range(sizes[0]):
        inner = {at[1:]: piece for at, piece in pieces.items() if at[0] == rank}
        parts.append(gather(inner, placement[1:], sizes[1:]))
    code = int(placement[0])
    if codes.is_shard(code):
        return torch.cat(parts, dim=code - codes.shard(0))
    if code == codes.REPLICATE:
        for part in parts[1:]:
            assert torch.allclose(part, parts[0], rtol=1e-9, atol=1e-9, equal_nan=True), "replicas differ"
        return parts[0]
    stacked = torch.stack(parts)
    if code == codes.PARTIAL_SUM:
        return stacked.sum(0)
    if code == codes.PARTIAL_AVG:
        return stacked.mean(0)
    return stacked.amax(0) if code == codes.PARTIAL_MAX else stacked.amin(0)


_SHAPED = ("view", "_unsafe_view", "reshape", "expand", "new_zeros", "new_ones", "new_full", "slice_backward",
           "select_backward", "full", "empty")  # fmt: skip


def run_label(strategies: Strategies, node: Node, label: int, tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """A node's outputs from local pieces placed as a label says."""
    sizes = strategies.mesh.sizes
    wanted, given = strategies.inputs[label], strategies.outputs[label]
    cut = [scatter(tensor, row, sizes) for tensor, row in zip(tensors, wanted, strict=True)]
    masked = bool(strategies.one_dim.masked[strategies.index[label]].any())
    rows = scatter(torch.arange(tensors[0].shape[0]), [r if r == codes.shard(0) else 0 for r in wanted[0]], sizes) \
        if masked else {}  # fmt: skip
    like = node.outputs[0]
    local_shapes = {}
    if node.op.split(".")[1] in _SHAPED and like is not None:
        blank = [r if codes.is_shard(int(r)) else codes.REPLICATE for r in given[0]]
        local_shapes = {at: piece.shape for at, piece in scatter(torch.empty(like.shape), blank, sizes).items()}
    made: list[Pieces] = [{} for _ in node.outputs]
    for at in itertools.product(*(range(size) for size in sizes)):
        local = [pieces[at] for pieces in cut]
        if masked:
            first, last = int(rows[at][0]), int(rows[at][-1])
            mine = (local[1] >= first) & (local[1] <= last)
            outs: list[Tensor | None] = call(node, [local[0], (local[1] - first).where(mine, 0)])
            assert outs[0] is not None
            outs = [outs[0] * mine[..., None]]
        else:
            outs = call(node, local, local_shapes.get(at))
        for o, out in enumerate(outs[: len(made)]):
            if out is not None:
                made[o][at] = out
    return [gather(p, row, sizes) if p else None for p, row in zip(made, given, strict=True)]
