"""The operations that a trace adds to torch's own: marks, and an RMSNorm that stays one operation on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

__all__ = ["RENAMED", "fused_rms_norm", "mark", "repeat", "repeat_backward"]

_LIBRARY = torch.library.Library("berthage", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in (
    "mark(Tensor tensor, int tag) -> Tensor",
    "rms_norm(Tensor tensor, int[] shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    "rms_norm_backward(Tensor gradient, Tensor tensor, int[] shape, Tensor rstd, Tensor? weight, bool[2] wanted)"
    " -> (Tensor, Tensor)",
    "repeat(Tensor[] tensors, Tensor[] likes, int call) -> Tensor[]",
    "repeat_backward(Tensor[] gradients, Tensor[] likes, int call, int[] given, int[] wanted) -> Tensor[]",
):
    _LIBRARY.define(_schema)  # type: ignore[no-untyped-call]

# torch's fused RMSNorm falls apart on a CPU; in the graph these stand for it, under its name and signature.
RENAMED = {
    "berthage.rms_norm.default": "aten._fused_rms_norm.default",
    "berthage.rms_norm_backward.default": "aten._fused_rms_norm_backward.default",
}


def mark(tensor: torch.Tensor, tag: int) -> torch.Tensor:
    """An identity that a trace records."""
    return torch.ops.berthage.mark.default(tensor, tag)  # type: ignore[no-any-return]


def repeat(tensors: Sequence[torch.Tensor], likes: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    """Stands for a whole layer in a trace: tensors of its arguments to tensors like ``likes``."""
    return list(torch.ops.berthage.repeat.default(list(tensors), likes, call))


def repeat_backward(
    gradients: list[torch.Tensor], likes: list[torch.Tensor], call: int, given: list[int], wanted: list[int]
) -> list[torch.Tensor]:
    """Stands for its backward: gradients of outputs ``given`` to gradients of arguments ``wanted``."""
    return list(torch.ops.berthage.repeat_backward.default(gradients, likes, call, given, wanted))


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
    ) -> torch.Tensor:
        out, rstd = torch.ops.berthage.rms_norm.default(tensor, shape, weight, eps)
        ctx.shape = shape
        ctx.save_for_backward(tensor, rstd, weight)
        return out  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        tensor, rstd, weight = ctx.saved_tensors
        wanted = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[2]]
        of_tensor, of_weight = torch.ops.berthage.rms_norm_backward.default(
            gradient, tensor, ctx.shape, rstd, weight, wanted
        )
        return (of_tensor if wanted[0] else None, None, of_weight if wanted[1] else None, None)


def fused_rms_norm(
    tensor: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> torch.Tensor:
    """RMSNorm over the last dimensions ``shape`` as one operation forward and one backward."""
    return _RmsNorm.apply(tensor, shape, weight, eps)  # type: ignore[no-any-return, no-untyped-call]


def _mark_kernel(tensor: torch.Tensor, tag: int) -> torch.Tensor:
    return tensor.clone(memory_format=torch.preserve_format)


def _mark_meta(tensor: torch.Tensor, tag: int) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.preserve_format)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _rms_norm_kernel(
    tensor: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    wide = _wide(tensor)
    last = list(range(tensor.dim() - len(shape), tensor.dim()))
    small = torch.finfo(wide.dtype).eps if eps is None else eps
    rstd = torch.rsqrt(wide.square().mean(last, keepdim=True) + small)
    out = wide * rstd
    return (out if weight is None else out * weight).to(tensor.dtype), rstd


def _rms_norm_meta(
    tensor: torch.Tensor, shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    kept = list(tensor.shape[: tensor.dim() - len(shape)]) + [1] * len(shape)
    dtype = torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype
    return torch.empty_like(tensor, memory_format=torch.contiguous_format), tensor.new_empty(kept, dtype=dtype)


def _rms_norm_backward_kernel(
    gradient: torch.Tensor,
    tensor: torch.Tensor,
    shape: list[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    wanted: list[bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    wide, grad = _wide(tensor), _wide(gradient)
    last = list(range(tensor.dim() - len(shape), tensor.dim()))
    normed = wide * rstd
    weighted = grad if weight is None else grad * weight
    of_tensor = rstd * (weighted - normed * (weighted * normed).mean(last, keepdim=True))
    of_weight = (grad * normed).sum(list(range(tensor.dim() - len(shape)))) if wanted[1] else tensor.new_empty(0)
    if weight is not None and wanted[1]:
        of_weight = of_weight.reshape(weight.shape).to(weight.dtype)
    return of_tensor.to(tensor.dtype), of_weight


def _rms_norm_backward_meta(
    gradient: torch.Tensor,
    tensor: torch.Tensor,
    shape: list[int],
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    wanted: list[bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    of_weight = torch.empty_like(weight) if weight is not None and wanted[1] else tensor.new_empty(0)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format), of_weight


def _repeat_meta(tensors: list[torch.Tensor], likes: list[torch.Tensor], call: int) -> list[torch.Tensor]:
    return [torch.empty_like(like) for like in likes]


def _repeat_backward_meta(
    gradients: list[torch.Tensor], likes: list[torch.Tensor], call: int, given: list[int], wanted: list[int]
) -> list[torch.Tensor]:
    return [torch.empty_like(like) for like in likes]


# These two exist in a trace only, and are replaced by what they stand for.
_LIBRARY.impl("repeat", _repeat_meta, "Meta")  # type: ignore[no-untyped-call]
_LIBRARY.impl("repeat_backward", _repeat_backward_meta, "Meta")  # type: ignore[no-untyped-call]

for _name, _kernel, _meta in (
    ("mark", _mark_kernel, _mark_meta),
    ("rms_norm", _rms_norm_kernel, _rms_norm_meta),
    ("rms_norm_backward", _rms_norm_backward_kernel, _rms_norm_backward_meta),
):
    # CPU and CUDA, not every backend: what must stay one operation in a trace must not have a composite kernel.
    for _backend in ("CPU", "CUDA"):
        _LIBRARY.impl(_name, _kernel, _backend)  # type: ignore[no-untyped-call]
    _LIBRARY.impl(_name, _meta, "Meta")  # type: ignore[no-untyped-call]
