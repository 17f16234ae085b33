"""`trace`: from an unmodified module to an `OpGraph`, without data, without a GPU and without a process group."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from berthage_torch.errors import TraceError
from berthage_torch.graph import OpGraph
from berthage_torch.policy import MixedPrecision

from .capture import capture
from .convert import convert
from .repeats import UnrepeatableError

__all__ = ["MixedPrecision", "at_batch", "trace"]


def trace(
    model: nn.Module,
    inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    policy: MixedPrecision | None = None,
    device: str = "cpu",
    attention: str = "gpu",
    dynamic_batch: bool = False,
    repeat_layers: bool = True,
) -> OpGraph:
    """Trace one training step: forward, and backward from the tangents of the outputs.

    Args:
        model: Any module, on any device, ``meta`` included; it is not changed. ``model.training`` decides what
            dropout and batch normalisation do.
        inputs: A tensor, a tuple or list of positional arguments, a mapping of keyword arguments, or a function without
            arguments that makes one of these (called while no data are allocated). Only shapes, dtypes and
            ``requires_grad`` of tensors count; nested containers and values that are no tensors are kept.
        kwargs: More keyword arguments.
        policy: Mixed precision; None uses every tensor in the dtype it has.
        device: The device whose operations are recorded, ``cpu`` or ``meta``; not the one that runs the plan.
        attention: ``gpu`` pins attention and RMSNorm to one operation each, as a GPU runs them; ``cpu`` pins attention
            to the CPU flash kernel; ``math`` pins nothing.
        dynamic_batch: Keep the batch size, the first dimension of every input that has the first input's, as a
            symbol, so that `at_batch` gives the graph for others.
        repeat_layers: Run layers that are exact repetitions of each other once, and copy what the first did. The graph
            is the same, but the torch graph behind it (``fx``) has calls in the place of the copies.

    Raises:
        TraceError: The model cannot be traced; the message names operation and module, and says the way out.
    """
    if device not in ("cpu", "meta"):
        raise TraceError(
            f"a trace runs on 'cpu' or 'meta', not {device!r}; the device that prices a plan is the cost model's"
        )
    env = None
    if dynamic_batch:
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        env = ShapeEnv()
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    args, named = _arguments(inputs, kwargs or {}, fake_mode, device)

    def traced(repeat: bool) -> OpGraph:
        # A step has a backward pass, whatever the caller is in the middle of.
        with torch.inference_mode(False), torch.enable_grad():
            captured = capture(
                model,
                args,
                named,
                policy=policy,
                device=device,
                attention=attention,
                dynamic_batch=dynamic_batch,
                fake_mode=fake_mode,
                repeat=repeat,
            )
        return convert(captured)

    if not repeat_layers:
        return traced(repeat=False)
    try:
        return traced(repeat=True)
    except UnrepeatableError:
        return traced(repeat=False)


def at_batch(graph: OpGraph, batch: int) -> OpGraph:
    """The graph for another batch size, without another trace.

    Args:
        graph: Traced with ``dynamic_batch=True``.
        batch: At least 1.

    Raises:
        TraceError: The graph was traced for its sizes only, or the trace does not hold for this batch size.
    """
    if graph.fx is None:
        raise TraceError("this graph has no trace behind it, so its batch size cannot be changed")
    return graph if batch == graph.batch else convert(graph.fx, batch)


def _arguments(
    inputs: Any, kwargs: Mapping[str, Any], fake_mode: FakeTensorMode, device: str
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if callable(inputs) and not isinstance(inputs, torch.Tensor):
        make: Callable[[], Any] = inputs
        with fake_mode, torch.device(device):
            inputs = make()
    if isinstance(inputs, torch.Tensor):
        return (inputs,), dict(kwargs)
    if isinstance(inputs, Mapping):
        return (), {**inputs, **kwargs}
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), dict(kwargs)
    if dataclasses.is_dataclass(inputs):
        return (inputs,), dict(kwargs)
    raise TraceError(f"inputs: a tensor, tuple or mapping, or a function that makes one, not {type(inputs).__name__}")
