"""`apply_plan`: from a plan and a model to a module that trains, one rank of many."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from berthage import InvalidProblemError
from berthage_nccl import placements as codes
from berthage_torch.errors import ApplyError
from berthage_torch.graph import OpGraph
from berthage_torch.plans.consistency import check_moves
from berthage_torch.plans.plan import Plan
from berthage_torch.tracing.structure import fill

from .checks import check_mesh, check_parameters
from .extents import Place
from .lowering import Lowered
from .program import run
from .state import sharded
from .steps_by_size import Steps

__all__ = ["ParallelModule", "apply_plan"]

_STEPS = "_berthage_steps"


class ParallelModule(nn.Module):
    """A module that runs as a plan says. Made by `apply_plan`; the class of the model is its other base.

    Parameters and buffers are DTensors. Arguments and results are what the rank has of them: plain tensors, the shards
    that the plan's placements give this rank. The gradient of a result is likewise that of the rank's part.
    """

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.__dict__[_STEPS].plan  # type: ignore[no-any-return]

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.__dict__[_STEPS].mesh  # type: ignore[no-any-return]

    @property
    def traced(self) -> OpGraph:
        """The step as it was traced to be lowered."""
        return self.__dict__[_STEPS].graph  # type: ignore[no-any-return]

    @property
    def lowered(self) -> Lowered:
        """What this rank runs at the sizes of the plan, see `Lowered`."""
        return self.__dict__[_STEPS].first()  # type: ignore[no-any-return]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on the rank's part of the inputs.

        Raises:
            ApplyError: Sizes, dtypes or structure of the arguments are not those that the plan gives this rank.
        """
        steps: Steps = self.__dict__[_STEPS]
        step, inputs = steps.of(self.training, args, kwargs)
        lowered = step.lowered
        tensors = [_local(self, one.name) for one in lowered.parameters]
        tensors += [_local(self, one.name) for one in lowered.buffers]
        results = run(lowered, [*tensors, *inputs])
        many = len(lowered.outputs)
        if lowered.mutated:
            with torch.no_grad():
                for name, value in zip(lowered.mutated, results[many:], strict=True):
                    _local(self, name).copy_(value)
        return fill(step.result, results[:many])


def apply_plan(
    plan: Plan,
    model: nn.Module,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    device_mesh: DeviceMesh | None = None,
    attention: str = "gpu",
) -> ParallelModule:
    """Make a module that runs a model as a plan says. All ranks of the mesh call it alike.

    Args:
        plan: The plan.
        model: The model it was searched for; it is not changed. On the meta device the result is there too: give it
            memory (``to_empty``) and values (the model's own initialisation, a state dict) afterwards. A model with
            data must have the same on every rank: each cuts its own part out.
        inputs: Arguments of the whole step, all ranks together, as `trace` takes them; None for those that the plan
            names.
        kwargs: Keyword arguments likewise.
        device_mesh: The mesh, of the names and sizes that the plan names; None makes it, of all processes.
        attention: As in the search, see `trace`.

    Returns:
        A module of the model's class too: its methods, names and state dict are the model's.

    Raises:
        ApplyError: The plan is for another mesh, model or shape; the message names the difference.
    """
    if not dist.is_initialized():
        raise ApplyError(
            "no process group: start the ranks with torchrun and call torch.distributed.init_process_group()"
        )
    if isinstance(model, ParallelModule):
        raise ApplyError("a plan is already applied to this module: apply to the model it was made from")
    if device_mesh is None:
        device_mesh = _mesh(plan)
    check_mesh(plan, device_mesh)
    try:
        check_moves(plan.nodes, plan.edges, plan.mesh)
    except InvalidProblemError as error:
        raise ApplyError(f"the plan of {plan.model} was changed: {error}") from None
    check_parameters(plan, model)
    coordinate = device_mesh.get_coordinate()
    if coordinate is None:
        raise ApplyError(f"rank {dist.get_rank()} is not in the mesh")
    place = Place(tuple(device_mesh.shape), tuple(coordinate))
    device = torch.device("cpu")
    if device_mesh.device_type != "cpu":
        device = torch.device(device_mesh.device_type, torch.accelerator.current_device_index())
    steps = Steps(plan, model, device_mesh, place, device, attention)
    steps.prepare(inputs, kwargs or {}, model.training)
    rows = {
        name: codes.parse(plan.nodes[index].outputs[0]).tolist()
        for table in (steps.graph.parameters, steps.graph.buffers)
        for name, index in table.items()
    }
    parallel = sharded(model, rows, device_mesh, place, device)
    parallel.__class__ = _class_of(type(model))
    parallel.__dict__[_STEPS] = steps
    assert isinstance(parallel, ParallelModule)  # by its class
    return parallel


def _class_of(cls: type[nn.Module]) -> type[nn.Module]:
    return type(f"Parallel{cls.__name__}", (ParallelModule, cls), {"__module__": cls.__module__})


def _mesh(plan: Plan) -> DeviceMesh:
    sizes = tuple(plan.mesh.values())
    many = functools.reduce(lambda a, b: a * b, sizes, 1)
    if many != dist.get_world_size():
        raise ApplyError(
            f"the plan of {plan.model} is for {many} ranks ({', '.join(f'{n}={s}' for n, s in plan.mesh.items())}), "
            f"there are {dist.get_world_size()}"
        )
    kind = "cuda" if "nccl" in str(dist.get_backend()) else "cpu"
    return init_device_mesh(kind, sizes, mesh_dim_names=tuple(plan.mesh))


def _local(module: nn.Module, name: str) -> torch.Tensor:
    """What the rank holds of a parameter or buffer; differentiable."""
    tensor: Any = functools.reduce(getattr, name.split("."), module)
    return tensor.to_local()  # type: ignore[no-any-return]
