"""A plan applied on real ranks beside the model on one device: outputs, gradients and a step of AdamW."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from berthage_torch import MixedPrecision, ParallelModule, Plan, apply_plan
from berthage_torch.applying.extents import Place
from berthage_torch.applying.lowering import LocalTensor
from berthage_torch.policy import cast_input, cast_parameter

Tensor = torch.Tensor


def part(parallel: ParallelModule, whole: Tensor, local: LocalTensor) -> Tensor:
    """What this rank has of a whole tensor."""
    mesh = parallel.device_mesh
    coordinate = mesh.get_coordinate()
    assert coordinate is not None
    for d, (start, length) in enumerate(
        Place(tuple(mesh.shape), tuple(coordinate)).extents(tuple(whole.shape), local.placement)
    ):
        whole = whole.narrow(d, start, length)
    return whole.contiguous()


def whole(parallel: ParallelModule, local: Tensor, about: LocalTensor, shape: Any = None) -> Tensor:
    """The whole tensor of which this rank has a part."""
    from berthage_torch.applying.state import torch_placements

    shape = torch.Size(about.whole if shape is None else shape)
    stride = torch.empty(shape, device="meta").stride()
    made = DTensor.from_local(
        local.detach(), parallel.device_mesh, torch_placements(about.placement), shape=shape, stride=stride
    )
    return made.full_tensor()


def distance(got: Tensor, wanted: Tensor) -> float:
    """Relative to the norm of what is wanted; inf when something is not finite."""
    got, wanted = got.detach().double(), wanted.detach().double()
    if not torch.isfinite(got).all():
        return float("inf")
    return float((got - wanted).norm() / wanted.norm().clamp_min(1e-30))


def on_one(model: nn.Module, policy: MixedPrecision | None, inputs: tuple[Tensor, ...]) -> Tensor:
    """The model on one device, with the casts of a policy."""
    cast_once = {id(parameter): cast_parameter(parameter, policy) for parameter in model.parameters()}
    state = {name: cast_once[id(p)] for name, p in model.named_parameters(remove_duplicate=False)}
    state.update(dict(model.named_buffers()))
    cast = tuple(cast_input(tensor, policy) for tensor in inputs)
    return torch.func.functional_call(model, state, cast)  # type: ignore[no-any-return]


def _rounding(
    model: nn.Module, policy: MixedPrecision | None, inputs: tuple[Tensor, ...], narrow: Tensor, tangent: Tensor
) -> tuple[float, float]:
    """How far the casts of a policy move output and worst gradient on one device: (0, 0) when there are none."""
    if policy is None or policy.param_dtype is None:
        return 0.0, 0.0
    parameters = list(model.parameters())
    exact = on_one(model, None, inputs)
    found = torch.autograd.grad(narrow, parameters, tangent, retain_graph=True)
    wide = torch.autograd.grad(exact, parameters, tangent.to(exact.dtype))
    return distance(narrow, exact), max(distance(a, b) for a, b in zip(found, wide, strict=True))


def compare(
    make: Callable[..., tuple[nn.Module, tuple[Tensor, ...]]],
    arguments: Mapping[str, Any],
    plan: Plan,
    policy: MixedPrecision | None = None,
    compiled: str = "",
) -> dict[str, Any]:
    """Run one step both ways: distances of outputs, of the worst gradient and of parameters after AdamW."""
    torch.manual_seed(0)
    model, inputs = make(**arguments)
    parallel = apply_plan(plan, model)
    lowered = parallel.lowered
    local = [part(parallel, tensor, about) for tensor, about in zip(inputs, lowered.inputs, strict=True)]
    wanted = on_one(model, policy, inputs)
    torch.manual_seed(1)
    tangent = torch.randn(wanted.shape, dtype=torch.float32).to(wanted.dtype)
    moved = _rounding(model, policy, inputs, wanted, tangent)
    wanted.backward(tangent)
    run: Any = torch.compile(parallel, fullgraph=True, backend=compiled) if compiled else parallel
    got = run(*local)
    about = lowered.outputs[0]
    output = distance(whole(parallel, got, about), wanted)
    got.backward(part(parallel, tangent, about))
    theirs = dict(parallel.named_parameters())
    gradients = {}
    for name, parameter in model.named_parameters():
        mine = theirs[name].grad
        assert (mine is None) == (parameter.grad is None), name
        if mine is not None:
            gradients[name] = distance(mine.full_tensor(), parameter.grad)
            # AdamW turns a gradient that is nought but for rounding (that of the bias of attention keys) into a step of
            # any size: gradients are compared above, the step is from the same ones.
            parameter.grad = mine.full_tensor()
    for one in (model, parallel):
        torch.optim.AdamW(one.parameters(), lr=1e-2, eps=1e-3).step()
    stepped = max(distance(theirs[n].full_tensor(), p) for n, p in model.named_parameters())
    planned = Counter((c.kind, c.mesh_dim, c.phase, c.bytes) for c in plan.collectives())
    return {
        "output": output,
        "gradients": max(gradients.values()),
        "stepped": stepped,
        "rounding": moved,
        "collectives": (sorted(lowered.collectives().items()), sorted(planned.items())),
    }
