"""What tests of applied plans do on each rank. Ranks are processes that import this module by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch_parallel import compare, distance, part, whole

from berthage_torch import ApplyError, MixedPrecision, Plan, apply_plan
from berthage_torch.models.zoo import build

Tensor = torch.Tensor


class Features(nn.Module):
    """Tied weights, a frozen one, buffers that change, keyword and plain arguments, nested results."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 8)
        self.norm = nn.BatchNorm1d(8)
        self.up = nn.Linear(8, 12)
        self.down = nn.Linear(12, 8)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(8), requires_grad=False)
        self.register_buffer("table", torch.arange(8.0))

    def forward(self, tokens: Tensor, *, features: Tensor, power: int = 1) -> dict[str, Any]:
        x = self.embedding(tokens) + self.norm(features) * self.table
        x = x + self.down(F.gelu(self.up(x)) ** power) * self.scale
        logits = self.head(x)
        return {"logits": logits, "more": (x, {"best": logits.argmax(-1)}), "power": power}


def features() -> tuple[nn.Module, dict[str, Any]]:
    model = Features()
    return model, {
        "tokens": torch.randint(0, 13, (8,)),
        "features": torch.randn(8, 8, requires_grad=True),
        "power": 2,
    }


def zoo(name: str, **sizes: Any) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A model of the zoo with data, and inputs."""
    spec = build(name, device="cpu", **sizes)
    inputs = tuple(
        torch.randn(t.shape) if t.dtype.is_floating_point else torch.randint(0, sizes["vocab"], t.shape)
        for t in spec.make_inputs()
    )
    return spec.model, inputs


Case = tuple[str, Mapping[str, Any], Plan, MixedPrecision | None, str]


def compare_all(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Steps of several plans beside those on one device."""
    return [
        compare(zoo, {"name": name, **sizes}, plan, policy, compiled) for name, sizes, plan, policy, compiled in cases
    ]


def feature_step(plan: Plan) -> dict[str, Any]:
    """One step of `Features`."""
    torch.manual_seed(0)
    model, given = features()
    before = (dataclasses.replace(plan), plan.placement_hash(), {k: v.clone() for k, v in model.state_dict().items()})
    parallel = apply_plan(plan, model, given)
    untouched = plan == before[0] and plan.placement_hash() == before[1]
    untouched = untouched and all(torch.equal(v, before[2][k]) for k, v in model.state_dict().items())
    about = {one.name: one for one in (*parallel.lowered.inputs, *parallel.lowered.outputs)}
    local = {
        name: part(parallel, value.detach(), about[name]).requires_grad_(value.requires_grad)
        if isinstance(value, Tensor)
        else value
        for name, value in given.items()
    }
    got, wanted = parallel(**local), model(**given)
    logits = about["output['logits']"]
    torch.manual_seed(1)
    tangent = torch.randn(8, 13)
    wanted["logits"].backward(tangent)
    got["logits"].backward(part(parallel, tangent, logits))
    theirs, state = dict(parallel.named_parameters()), parallel.state_dict()
    inner = about["output['more'][0]"]
    best = about["output['more'][1]['best']"]
    return {
        "untouched": untouched,
        "same names": list(state) == list(model.state_dict()) and isinstance(parallel, Features),
        "tied": parallel.head.weight is parallel.embedding.weight,
        "power": got["power"],
        "outputs": max(
            distance(whole(parallel, got["logits"], logits), wanted["logits"]),
            distance(whole(parallel, got["more"][0], inner), wanted["more"][0]),
            distance(whole(parallel, got["more"][1]["best"], best), wanted["more"][1]["best"]),
        ),
        "frozen": theirs["scale"].grad is None,
        "gradients": max(
            distance(theirs[n].grad.full_tensor(), p.grad) for n, p in model.named_parameters() if p.grad is not None
        ),
        "input gradient": distance(whole(parallel, local["features"].grad, about["features"]), given["features"].grad),
        "buffers": max(distance(state[n].full_tensor(), b) for n, b in model.named_buffers()),
    }


def from_meta(plan: Plan, other: Plan, sizes: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """A model without data: memory, values from a full state dict, a distributed checkpoint, other batch sizes."""
    torch.manual_seed(0)
    model, inputs = zoo("mlp", **sizes)
    state = model.state_dict()
    parallel = apply_plan(plan, build("mlp", **sizes).model)
    meta = all(p.is_meta for p in parallel.parameters())
    parallel.to_empty(device="cpu")
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    set_model_state_dict(parallel, dict(state), options=StateDictOptions(full_state_dict=True))
    loaded = all(torch.equal(p.full_tensor(), state[n]) for n, p in parallel.named_parameters())
    dcp.save(parallel.state_dict(), checkpoint_id=Path(folder) / "checkpoint", no_dist=False)
    again = apply_plan(other, build("mlp", **sizes).model)
    again.to_empty(device="cpu")
    target = again.state_dict()
    dcp.load(target, checkpoint_id=Path(folder) / "checkpoint")
    again.load_state_dict(target)
    moved = all(torch.equal(p.full_tensor(), state[n]) for n, p in again.named_parameters())
    lowered = parallel.lowered
    with torch.no_grad():
        got = parallel(part(parallel, inputs[0], lowered.inputs[0]))
    no_graph = not got.requires_grad
    inference = distance(whole(parallel, got, lowered.outputs[0]), model(*inputs))
    twelve = torch.randn(12, *inputs[0].shape[1:])
    got = parallel(part(parallel, twelve, lowered.inputs[0]))
    wanted = model(twelve)
    shape = (12, *lowered.outputs[0].whole[1:])
    dynamic = distance(whole(parallel, got, lowered.outputs[0], shape), wanted)
    got.sum().backward()
    wanted.sum().backward()
    if any(code for code in lowered.outputs[0].placement):
        dynamic = max(
            dynamic, *(distance(p.grad.full_tensor(), dict(model.named_parameters())[n].grad)
                       for n, p in parallel.named_parameters())
        )  # fmt: skip
    return {
        "meta": meta,
        "loaded": loaded,
        "moved": moved,
        "inference": inference,
        "no graph": no_graph,
        "dynamic": dynamic,
    }


def errors(plan: Plan, sizes: Mapping[str, Any]) -> dict[str, str]:
    """What is said when things are wrong."""
    model, inputs = zoo("mlp", **sizes)
    found = {}

    def said(name: str, call: Any) -> None:
        try:
            call()
            found[name] = "nothing"
        except ApplyError as error:
            found[name] = str(error)

    rank = dist.get_rank()
    parallel = apply_plan(plan, model)
    local = part(parallel, inputs[0], parallel.lowered.inputs[0])
    said("batch on one rank", lambda: parallel(local[:-1] if rank == 1 else local))
    said("width", lambda: parallel(local[:, :-1]))
    said("dtype", lambda: parallel(local.double()))
    said("arguments", lambda: parallel(local, local))
    mesh = init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp"))
    said("mesh", lambda: apply_plan(plan, model, device_mesh=mesh))
    said("parameters", lambda: apply_plan(plan, zoo("mlp", **{**sizes, "layers": 3})[0]))
    wider = zoo("mlp", **{**sizes, "hidden": 2 * sizes["hidden"]})[0]
    said("sizes", lambda: apply_plan(plan, wider))
    model.layers[0].forward = lambda x: model.layers[0].down(torch.tanh(model.layers[0].up(x)))  # type: ignore[union-attr]
    said("operations", lambda: apply_plan(plan, model))
    return found


def without_gradients(plan: Plan, dropping: Plan) -> dict[str, Any]:
    """Applied and called where no gradients are wanted, and in the other mode."""
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8)
    with torch.no_grad():
        parallel = apply_plan(plan, model)
    parallel.eval()
    found: dict[str, Any] = {}
    for name, mode in (("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):
        with mode():
            found[name] = max(distance(parallel(one), model(one)) for one in (x, torch.randn(6, 8)))
    other = apply_plan(dropping, nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)))
    other(x)
    try:
        other.eval()(x)
    except ApplyError as error:
        found["dropout"] = str(error)
    return found


def everything(cases: Sequence[Case], feature: Plan, plan: Plan, other: Plan, sizes: Any, folder: str) -> Any:
    """All of the above, on the same ranks."""
    return {
        "steps": compare_all(cases),
        "features": feature_step(feature),
        "meta": from_meta(plan, other, sizes, folder),
        "errors": errors(plan, sizes),
    }
