"""What the test of `AutoParallel` does on each rank. Ranks are processes that import this module by name."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from berthage_torch import AutoParallel

BATCH, DIM = 64, 32


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.ReLU(), nn.Linear(4 * DIM, DIM, bias=False))


def whole_inputs() -> torch.Tensor:
    return torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(1))


def train(solver: str) -> dict[str, Any]:
    """Search, apply, one step: how far it is from one device, and the bytes of parameters and gradients."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("dp", "tp"))
    module = model()
    with AutoParallel(module, lambda: torch.zeros(BATCH, DIM), mesh, solver=solver) as auto:
        auto.add_parameter_memory_constraint()
        auto.add_input_constraints([(Shard(0), Replicate())])
        auto.add_output_constraints([(Shard(0), Replicate())])
        solution = auto.optimize_placement()
        parallel = auto.apply_placement(solution)
    x = whole_inputs()
    (out,) = [parallel(x.chunk(dist.get_world_size())[dist.get_rank()])]
    out.square().sum().backward()
    reference = model()
    reference(x).square().sum().backward()
    distances, held = [], 0
    wanted = dict(reference.named_parameters())
    for name, parameter in parallel.named_parameters():
        gradient = parameter.grad
        assert isinstance(parameter, DTensor)
        assert isinstance(gradient, DTensor)
        exact = wanted[name].grad
        assert exact is not None
        distances.append(float((gradient.full_tensor() - exact).norm() / exact.norm()))
        held += sum(t.to_local().numel() * t.to_local().element_size() for t in (parameter, gradient))
    assert solution.found.memory is not None
    predicted = solution.found.memory.peak_of("parameters", "gradients")
    return {"distance": max(distances), "held": held, "predicted": predicted, "objective": solution.objective}
