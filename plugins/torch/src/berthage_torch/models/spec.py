"""What the zoo says of a model besides the module itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from berthage_torch.policy import MixedPrecision

__all__ = ["LOGITS", "TOKENS", "AxisRule", "ModelSpec", "axis_kind", "by_kind"]

_DATA = ("dp", "dp_shard", "dp_replicate", "fsdp", "ddp", "data", "batch")


def axis_kind(axis: str) -> str:
    """``dp``, ``tp``, ``ep`` or ``other``: what a mesh dimension of this name is for."""
    name = axis.lower()
    if name in _DATA:
        return "dp"
    return name if name in ("tp", "ep") else "other"


@dataclass(frozen=True, slots=True)
class AxisRule:
    """A default placement by axis kind: ``rule(axes)`` gives one placement a mesh dimension, ``"R"`` where unsaid."""

    by_kind: tuple[tuple[str, str], ...]

    def __call__(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Placements for a mesh with these dimension names."""
        rule = dict(self.by_kind)
        return tuple(rule.get(axis_kind(axis), "R") for axis in axes)


def by_kind(**placements: str) -> tuple[tuple[str, str], ...]:
    """``by_kind(dp="S(0)")``: the entries of an `AxisRule`."""
    return tuple(sorted(placements.items()))


TOKENS = (AxisRule(by_kind(dp="S(0)", ep="S(0)")),)
"""One input whose first dimension is the batch."""
LOGITS = (AxisRule(by_kind(dp="S(0)", tp="S(2)", ep="S(0)")),)
"""One output ``[batch, sequence, vocab]``."""


@dataclass(frozen=True)
class ModelSpec:
    """A model and how its step is searched by default.

    Attributes:
        name: Its name in the zoo.
        model: The module, on the meta device.
        make_inputs: Makes the positional inputs (call it where no data are allocated, or give it to `trace`).
        sizes: Every size the model was built with.
        policy: Mixed precision.
        inputs: Default placement of each input.
        outputs: Default placement of each output.
        parameter_memory: Default budget for the parameters a rank keeps: ``"least"`` is the smallest possible.
        layer_paths: Regular expression of the paths of repeated layers, for reports.
    """

    name: str
    model: nn.Module
    make_inputs: Callable[[], tuple[Any, ...]]
    sizes: Mapping[str, Any]
    policy: MixedPrecision = field(
        default_factory=lambda: MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    )
    inputs: tuple[AxisRule, ...] = TOKENS
    outputs: tuple[AxisRule, ...] = LOGITS
    parameter_memory: str = "least"
    layer_paths: str = r"layers\.\d+"
