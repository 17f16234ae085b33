"""Parameters and buffers of a model, each rank's part of them, as DTensors."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from berthage_nccl import placements as codes
from berthage_torch.tracing.state import places

from .extents import Place

__all__ = ["hollow", "sharded", "torch_placements"]

_PARTIALS = {codes.PARTIAL_SUM: "sum", codes.PARTIAL_AVG: "avg", codes.PARTIAL_MAX: "max", codes.PARTIAL_MIN: "min"}


def torch_placements(row: Sequence[int]) -> tuple[Placement, ...]:
    """Torch's placements of placement codes."""
    found: list[Placement] = []
    for code in map(int, row):
        if codes.is_shard(code):
            found.append(Shard(code - codes.shard(0)))
        else:
            found.append(Partial(_PARTIALS[code]) if codes.is_partial(code) else Replicate())
    return tuple(found)


def sharded(
    model: nn.Module, placements: Mapping[str, Sequence[int]], mesh: DeviceMesh, place: Place, device: torch.device
) -> nn.Module:
    """A copy of a model that has its parameters and buffers as DTensors.

    The model stays as it was. Tensors on the meta device stay there; of others every rank cuts its own part out.

    Args:
        model: The model.
        placements: Placement codes of parameters and buffers by any of their names; those not named are replicated.
        mesh: The mesh.
        place: The rank.
        device: Where real data go.
    """
    copies: dict[int, Any] = {}
    whole = [codes.REPLICATE] * len(place.sizes)
    rows: dict[int, Sequence[int]] = {}
    for table in places(model):
        for name, tensor in table.items():
            rows[id(tensor)] = placements.get(name, rows.get(id(tensor), whole))
    for table in places(model):
        for tensor in table.values():
            if id(tensor) not in copies:
                copies[id(tensor)] = _part(tensor, rows[id(tensor)], mesh, place, device)
    return copy.deepcopy(model, copies)


def hollow(model: nn.Module) -> nn.Module:
    """A copy of a model without data."""
    copies: dict[int, Any] = {}
    for table in places(model):
        for tensor in table.values():
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            made = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
            copies[id(tensor)] = made
    return copy.deepcopy(model, copies)


def _part(
    tensor: torch.Tensor, row: Sequence[int], mesh: DeviceMesh, place: Place, device: torch.device
) -> torch.Tensor:
    part = tensor.detach()
    for d, (start, length) in enumerate(place.extents(tuple(tensor.shape), row)):
        part = part.narrow(d, start, length)
    local = torch.empty(part.shape, dtype=part.dtype, device="meta") if tensor.is_meta else _own(part, device)
    stride = _strides(tensor.shape)
    made = DTensor.from_local(local, mesh, torch_placements(row), run_check=False, shape=tensor.shape, stride=stride)
    return nn.Parameter(made, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else made


def _own(part: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A contiguous copy."""
    return torch.empty(part.shape, dtype=part.dtype, device=device).copy_(part)


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    found, step = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        found[d] = step
        step *= shape[d]
    return tuple(found)
