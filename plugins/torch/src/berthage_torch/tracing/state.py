"""Parameters and buffers of a module by the places that hold them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

__all__ = ["call_with", "places"]


def places(module: nn.Module) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Every place that holds a parameter, and every one that holds a buffer, by name.

    A tensor that is tied is in several places; a module that is used under several names has its places once.
    """
    parameters: dict[str, torch.Tensor] = {}
    buffers: dict[str, torch.Tensor] = {}
    for path, inner in module.named_modules():
        for found, table in ((parameters, inner._parameters), (buffers, inner._buffers)):
            for name, tensor in table.items():
                if tensor is not None:
                    found[f"{path}.{name}" if path else name] = tensor
    return parameters, buffers


def call_with(module: nn.Module, state: dict[str, torch.Tensor], args: Any, kwargs: Any) -> Any:
    """Call a module with other tensors in all of its `places`; it is as before afterwards."""
    # torch's own handling of tied tensors does not put everything back where a module has several names.
    return torch.func.functional_call(module, state, args, kwargs, tie_weights=False)
