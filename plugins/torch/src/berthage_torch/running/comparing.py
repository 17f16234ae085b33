"""Plans of several solvers run beside the model on one device: outputs and every gradient against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree

from berthage_torch.applying.lowering import LocalTensor
from berthage_torch.applying.module import ParallelModule
from berthage_torch.applying.state import torch_placements
from berthage_torch.policy import MixedPrecision, cast_input, cast_parameter

from .data import Sample, part_of

__all__ = ["Distance", "Numbers", "distance", "numbers_of", "numbers_on_one", "tolerances"]

Tensor = torch.Tensor


@dataclass(frozen=True, eq=False)
class Numbers:
    """What one step gives: outputs and gradients, whole and on the CPU.

    Attributes:
        outputs: The tensor outputs, in order.
        gradients: By name of the parameter.
    """

    outputs: tuple[Tensor, ...]
    gradients: Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Distance:
    """How far numbers are from others: the norm of the difference over the norm of the others.

    Attributes:
        output: Of the worst output; inf when a number is not finite.
        gradient: Of the worst gradient.
        parameter: Whose gradient that is.
    """

    output: float
    gradient: float
    parameter: str


def distance(found: Numbers, wanted: Numbers) -> Distance:
    """How far apart."""
    outputs = [_apart(a, b) for a, b in zip(found.outputs, wanted.outputs, strict=True)]
    gradients = {name: _apart(found.gradients[name], grad) for name, grad in wanted.gradients.items()}
    worst = max(gradients, key=lambda name: gradients[name], default="")
    return Distance(max(outputs, default=0.0), gradients.get(worst, 0.0), worst)


def tolerances(policy: MixedPrecision | None) -> tuple[float, float]:
    """How far outputs and gradients may be from those of one device, by the precision that is computed in."""
    narrow = policy is not None and policy.param_dtype in (torch.bfloat16, torch.float16)
    return (5e-3, 2e-2) if narrow else (1e-5, 1e-5)


def numbers_on_one(sample: Sample, policy: MixedPrecision | None, device: torch.device) -> Numbers:
    """The step on one device, with the casts of a policy; the gradients of outputs are those of `numbers_of`."""
    model = sample.model.to(device)
    leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs))
    cast = [cast_input(leaf.to(device), policy) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(cast, spec)
    state = {name: cast_parameter(p, policy) for name, p in model.named_parameters(remove_duplicate=False)}
    state.update(dict(model.named_buffers()))
    model.zero_grad()
    results = _tensors(torch.func.functional_call(model, state, args, kwargs))
    pulled = [t for t in results if t.requires_grad]
    torch.autograd.backward(pulled, [_pull(t.shape, t.dtype, sample.seed + i).to(device) for i, t in enumerate(pulled)])
    gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return Numbers(tuple(t.detach().cpu() for t in results), gradients)


def numbers_of(parallel: ParallelModule, sample: Sample, device: torch.device) -> Numbers:
    """The step as a plan has it, gathered. Every rank takes part and has the result.

    Raises:
        RuntimeError: A collective failed.
    """
    lowered = parallel.lowered
    whole = zip(sample.tensors(), lowered.inputs, strict=True)
    args, kwargs = sample.with_tensors([part_of(parallel, tensor, one, device) for tensor, one in whole])
    parallel.zero_grad()
    results = _tensors(parallel(*args, **kwargs))
    pulled = [(t, one) for t, one in zip(results, lowered.outputs, strict=True) if t.requires_grad]
    pulls = [
        part_of(parallel, _pull(one.whole, t.dtype, sample.seed + i), one, device) for i, (t, one) in enumerate(pulled)
    ]
    torch.autograd.backward([t for t, _ in pulled], pulls)
    outputs = tuple(_whole(parallel, t, one) for t, one in zip(results, lowered.outputs, strict=True))
    gradients = {
        name: p.grad.full_tensor().cpu() for name, p in parallel.named_parameters() if isinstance(p.grad, DTensor)
    }
    parallel.zero_grad()
    return Numbers(outputs, gradients)


def _pull(shape: Any, dtype: torch.dtype, seed: int) -> Tensor:
    """A gradient of an output, the same on every rank."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed)).to(dtype)


def _whole(parallel: ParallelModule, local: Tensor, about: LocalTensor) -> Tensor:
    shape = torch.Size(about.whole)
    stride = torch.empty(shape, device="meta").stride()
    placed = torch_placements(about.placement)
    made = DTensor.from_local(local.detach(), parallel.device_mesh, placed, run_check=False, shape=shape, stride=stride)
    return made.full_tensor().cpu()


def _tensors(result: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor)]


def _apart(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    if not torch.isfinite(found).all():
        return float("inf")
    return float((found - wanted).norm() / wanted.norm().clamp_min(torch.finfo(torch.float64).tiny))
