"""Mixed precision: in which dtype parameters are used and gradients are reduced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .errors import TraceError

__all__ = ["MixedPrecision", "dtype_name", "torch_dtype"]


@dataclass(frozen=True, slots=True)
class MixedPrecision:
    """Dtypes of a training step; parameters stay stored in their own.

    A parameter is cast before use, and its gradient before it is reduced, so that what travels is the small form of the
    parameter and the exact form of the gradient.

    Attributes:
        param_dtype: What floating-point parameters are cast to before use; None leaves them.
        reduce_dtype: What their gradients are cast to before reduction; None leaves them.
        cast_inputs: Whether floating-point inputs are cast to ``param_dtype`` too.
    """

    param_dtype: torch.dtype | None = torch.bfloat16
    reduce_dtype: torch.dtype | None = torch.float32
    cast_inputs: bool = True

    def __post_init__(self) -> None:
        for dtype in (self.param_dtype, self.reduce_dtype):
            if dtype is not None and not getattr(dtype, "is_floating_point", False):
                raise TraceError(f"mixed precision takes floating-point dtypes, not {dtype!r}")


class _Cast(torch.autograd.Function):
    """To one dtype on the way forward, to another on the way back, and last to that of the parameter."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, forward: torch.dtype, backward: torch.dtype | None) -> torch.Tensor:
        ctx.stored, ctx.backward_dtype = tensor.dtype, backward
        return tensor.to(forward) if tensor.dtype != forward else tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        if ctx.backward_dtype is not None:
            gradient = gradient.to(ctx.backward_dtype)
        return gradient.to(ctx.stored), None, None


def cast_parameter(parameter: torch.Tensor, policy: MixedPrecision | None) -> torch.Tensor:
    """The parameter as the model sees it under a policy."""
    if policy is None or not parameter.dtype.is_floating_point:
        return parameter
    wanted = policy.param_dtype or parameter.dtype
    reduce = policy.reduce_dtype
    if wanted == parameter.dtype and reduce in (None, parameter.dtype):
        return parameter
    return _Cast.apply(parameter, wanted, reduce)  # type: ignore[no-any-return, no-untyped-call]


def cast_input(tensor: torch.Tensor, policy: MixedPrecision | None) -> torch.Tensor:
    """An input as the model sees it under a policy."""
    if policy is None or policy.param_dtype is None or not policy.cast_inputs or not tensor.dtype.is_floating_point:
        return tensor
    return tensor.to(policy.param_dtype)


def dtype_name(dtype: torch.dtype) -> str:
    """``"bfloat16"`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


def torch_dtype(name: str) -> torch.dtype:
    """``torch.bfloat16`` for ``"bfloat16"``.

    Raises:
        ValueError: torch has no such dtype.
    """
    dtype = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"torch has no dtype {name!r}")
    return dtype
