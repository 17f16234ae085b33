"""Attention and RMSNorm pinned to one operation, whatever the device of the trace would choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from berthage_torch import ops
from berthage_torch.errors import TraceError

__all__ = ["ATTENTION", "FusedOps"]

ATTENTION = ("gpu", "cpu", "math")
"""``gpu``: what a GPU would run (cuDNN; the memory-efficient kernel for float32), RMSNorm fused. ``cpu``: the CPU
flash kernel, RMSNorm as torch's CPU build has it. ``math``: nothing is pinned."""

aten = torch.ops.aten


class FusedOps(TorchFunctionMode):
    """While entered, ``scaled_dot_product_attention`` and ``rms_norm`` are single operations.

    Args:
        attention: One of `ATTENTION`.
        observe: Called before every torch function.
    """

    def __init__(self, attention: str, observe: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._observe = observe
        if attention not in ATTENTION:
            raise TraceError(f"attention is one of {', '.join(ATTENTION)}, not {attention!r}")
        self._attention = attention
        self._table: dict[Any, Callable[..., Any]] = {}
        if attention != "math":
            self._table[F.scaled_dot_product_attention] = self._sdpa
        if attention == "gpu":
            self._table[F.rms_norm] = self._rms_norm
            self._table[torch.rms_norm] = self._rms_norm

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._observe()
        replacement = self._table.get(func)
        return func(*args, **(kwargs or {})) if replacement is None else replacement(*args, **(kwargs or {}))

    def _rms_norm(
        self,
        input: torch.Tensor,
        normalized_shape: list[int],
        weight: torch.Tensor | None = None,
        eps: float | None = None,
    ) -> torch.Tensor:
        if not input.dtype.is_floating_point:
            return torch.rms_norm(input, normalized_shape, weight, eps)
        return ops.fused_rms_norm(input, list(normalized_shape), weight, eps)

    def _sdpa(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
            # The fused kernels take (batch, heads, length, size); without a batch or heads there is nothing to pin.
            return F.scaled_dot_product_attention(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        if enable_gqa and key.shape[1] != query.shape[1]:
            key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
            value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        bias = attn_mask
        if bias is not None:
            if bias.dtype == torch.bool:
                zero = torch.zeros((), dtype=query.dtype, device=query.device)
                bias = torch.where(bias, zero, float("-inf"))
            bias = bias.to(query.dtype)
        if self._attention == "cpu":
            return _flash_cpu(query, key, value, bias, dropout_p, is_causal, scale)
        if bias is not None:
            bias = bias.expand(*query.shape[:2], query.shape[2], key.shape[2])
        logsumexp = torch.is_grad_enabled()
        # The cuDNN kernel gives no gradient of a bias.
        if query.dtype in (torch.bfloat16, torch.float16) and not (bias is not None and bias.requires_grad):
            fused = aten._scaled_dot_product_cudnn_attention.default
            return fused(query, key, value, bias, logsumexp, dropout_p, is_causal, scale=scale)[0]  # type: ignore[no-any-return]
        fused = aten._scaled_dot_product_efficient_attention.default
        return fused(query, key, value, bias, logsumexp, dropout_p, is_causal, scale=scale)[0]  # type: ignore[no-any-return]


def _flash_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> torch.Tensor:
    """The CPU flash kernel. It wants values as wide as keys: zeros are added to the narrower and taken off again."""
    if dropout > 0.0:
        return F.scaled_dot_product_attention(query, key, value, bias, dropout, causal, scale=scale)
    width = value.shape[-1]
    size = query.shape[-1]
    if size != width:
        scale = size**-0.5 if scale is None else scale
        wide = max(size, width)
        query, key, value = (F.pad(t, (0, wide - t.shape[-1])) for t in (query, key, value))
    fused = aten._scaled_dot_product_flash_attention_for_cpu.default
    out: torch.Tensor = fused(query, key, value, 0.0, causal, attn_mask=bias, scale=scale)[0]
    return out[..., :width] if out.shape[-1] != width else out
