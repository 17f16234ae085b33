"""A lowered step as one differentiable function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .lowering import Lowered

__all__ = ["run"]


class _Step(torch.autograd.Function):
    """Forward and backward of a step, as they were lowered."""

    @staticmethod
    def forward(ctx: Any, step: Lowered, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = step.forward.module(*tensors)
        many = len(step.outputs) + len(step.mutated)
        outputs = tuple(results[:many])
        ctx.step = step
        ctx.save_for_backward(*results[many:])
        ctx.mark_non_differentiable(*(out for k, out in enumerate(outputs) if k not in step.tangents))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        step: Lowered = ctx.step
        tangents = [gradients[k].contiguous() for k in step.tangents]
        return (None, *step.backward.module(*ctx.saved_tensors, *tangents))


def run(step: Lowered, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Outputs and new values of buffers, from what the rank holds of parameters, buffers and inputs."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return tuple(_Step.apply(step, *tensors))  # type: ignore[no-untyped-call]
    return tuple(step.inference.module(*tensors))
