"""A stack of linear layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Mlp", "MlpSizes"]


@dataclass(frozen=True, slots=True)
class MlpSizes:
    """Sizes of an MLP.

    Attributes:
        dim: Width of inputs and outputs.
        hidden: Width inside.
        layers: Number of blocks, each ``dim`` to ``hidden`` to ``dim``.
        batch: Global batch size of the inputs.
        bias: Whether the linear layers have biases.
    """

    dim: int = 1024
    hidden: int = 4096
    layers: int = 2
    batch: int = 1024
    bias: bool = True


class Block(nn.Module):
    """Two linear layers with a ReLU between."""

    def __init__(self, sizes: MlpSizes) -> None:
        super().__init__()
        self.up = nn.Linear(sizes.dim, sizes.hidden, bias=sizes.bias)
        self.down = nn.Linear(sizes.hidden, sizes.dim, bias=sizes.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[batch, dim]`` to the same."""
        return self.down(F.relu(self.up(x)))  # type: ignore[no-any-return]


class Mlp(nn.Module):
    """``[batch, dim]`` to the same."""

    def __init__(self, sizes: MlpSizes) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the last block."""
        for layer in self.layers:
            x = layer(x)
        return x
