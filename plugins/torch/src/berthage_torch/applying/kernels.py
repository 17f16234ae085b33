"""Operations that a plan for a GPU uses and that have no kernel on a CPU, written with those that have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
import torch.nn.functional as F

import berthage_torch.ops  # noqa: F401 - defines torch.ops.berthage

__all__ = ["on_cpu"]

Tensor = torch.Tensor
aten = torch.ops.aten


def _scores(q: Tensor, k: Tensor, bias: Tensor | None, causal: bool, scale: float | None) -> Tensor:
    """Scaled, biased and masked, in float32."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.matmul(q.float(), k.float().transpose(-2, -1)) * factor
    if bias is not None:
        scores = scores + bias
    if causal:
        seen = torch.ones(scores.shape[-2], scores.shape[-1], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return scores


def _forward(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """The result, and the logarithm of the sum of exponentials of each row in float32."""
    scores = _scores(q, k, bias, causal, scale)
    return torch.matmul(scores.softmax(-1), v.float()).to(q.dtype), scores.logsumexp(-1)


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, out: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of queries, keys, values and scores."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    weights = _scores(q, k, bias, causal, scale).softmax(-1)
    wide = grad.float()
    of_weights = torch.matmul(wide, v.float().transpose(-2, -1))
    of_scores = weights * (of_weights - (wide * out.float()).sum(-1, keepdim=True))
    of_q = torch.matmul(of_scores, k.float()) * factor
    of_k = torch.matmul(of_scores.transpose(-2, -1), q.float()) * factor
    of_v = torch.matmul(weights.transpose(-2, -1), wide)
    return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), of_scores


def _no_dropout(dropout: float) -> None:
    if dropout:
        raise NotImplementedError("attention with dropout has no CPU kernel here; search the plan with dropout 0")


def efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, logsumexp: bool, dropout: float = 0.0, causal: bool = False,
    *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """``aten._scaled_dot_product_efficient_attention``; its logsumexp is padded to a multiple of 32."""
    _no_dropout(dropout)
    out, lse = _forward(q, k, v, bias, causal, scale)
    nothing = torch.zeros((), dtype=torch.int64, device=q.device)
    return out, F.pad(lse, (0, -lse.shape[-1] % 32)), nothing, nothing


def efficient_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, out: Tensor, logsumexp: Tensor, seed: Tensor,
    offset: Tensor, dropout: float, mask: list[bool], causal: bool = False, *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Its backward."""
    of_q, of_k, of_v, of_scores = _backward(grad, q, k, v, bias, out, causal, scale)
    return of_q, of_k, of_v, of_scores.to(bias.dtype) if bias is not None and mask[3] else None


def cudnn(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, logsumexp: bool, dropout: float = 0.0, causal: bool = False,
    debug: bool = False, *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """``aten._scaled_dot_product_cudnn_attention``."""
    _no_dropout(dropout)
    out, lse = _forward(q, k, v, bias, causal, scale)
    nothing = torch.zeros((), dtype=torch.int64, device=q.device)
    return out, lse.unsqueeze(-1), None, None, q.shape[2], k.shape[2], nothing, nothing, None


def cudnn_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, seed: Tensor, offset: Tensor,
    bias: Tensor | None, cum_q: Any, cum_k: Any, max_q: int, max_k: int, dropout: float, causal: bool,
    *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Its backward."""
    return _backward(grad, q, k, v, bias, out, causal, scale)[:3]


_CPU: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "aten._scaled_dot_product_efficient_attention.default": efficient,
        "aten._scaled_dot_product_efficient_attention_backward.default": efficient_backward,
        "aten._scaled_dot_product_cudnn_attention.default": cudnn,
        "aten._scaled_dot_product_cudnn_attention_backward.default": cudnn_backward,
        "aten._fused_rms_norm.default": torch.ops.berthage.rms_norm.default,
        "aten._fused_rms_norm_backward.default": torch.ops.berthage.rms_norm_backward.default,
    }
)


def on_cpu(name: str) -> Callable[..., Any] | None:
    """What runs an operation on a CPU, where torch has nothing that does."""
    return _CPU.get(name)
