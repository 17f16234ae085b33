"""Whether a plan is for this mesh and this model; what differs is named."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from berthage_torch.errors import ApplyError
from berthage_torch.graph import OpGraph
from berthage_torch.plans.plan import Plan

__all__ = ["check_graph", "check_mesh", "check_parameters"]


def check_mesh(plan: Plan, mesh: DeviceMesh) -> None:
    """Refuse a mesh that is not the plan's.

    Raises:
        ApplyError: Names or sizes of its dimensions differ.
    """
    names = mesh.mesh_dim_names or tuple(f"dimension {d}" for d in range(mesh.ndim))
    have = dict(zip(names, mesh.shape, strict=True))
    if list(have.items()) != list(plan.mesh.items()):
        raise ApplyError(f"the plan of {plan.model} is for the mesh {_mesh(plan.mesh)}, this one is {_mesh(have)}")


def check_parameters(plan: Plan, model: nn.Module) -> None:
    """Refuse a model whose parameters have other names than the plan's.

    Raises:
        ApplyError: A parameter is missing or unknown.
    """
    planned = {node.fqn for node in plan.nodes if node.op == "parameter"}
    present = {name for name, _ in model.named_parameters()}
    for what, names in (("lacks", planned - present), ("has a", present - planned)):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise ApplyError(
                f"the plan of {plan.model} is for another model: {type(model).__name__} {what} parameter "
                f"{min(names)!r}{more}; search a plan for this one"
            )


def check_graph(plan: Plan, graph: OpGraph) -> None:
    """Refuse a training step that is not the plan's.

    Raises:
        ApplyError: Operations, sizes or arguments differ.
    """
    if graph.key == plan.graph_key:
        return
    check_nodes(plan, graph)
    planned = {one.name: one for one in (*plan.settings.parameters, *plan.settings.inputs)}
    for index in (*dict.fromkeys(graph.parameters.values()), *graph.inputs):
        node = graph.nodes[index]
        meta, asked = node.outputs[0], planned.get(node.name)
        if meta is not None and asked is not None and (meta.shape, meta.dtype) != (asked.shape, asked.dtype):
            raise ApplyError(
                f"the plan of {plan.model} is for other sizes: {node.fqn} is {list(meta.shape)} {meta.dtype}, the "
                f"plan's is {list(asked.shape)} {asked.dtype}"
            )
    raise ApplyError(
        f"the plan of {plan.model} is for another model: it has the same operations, but sizes of buffers, constant "
        "arguments, the policy or the kind of attention differ; search a plan for this one"
    )


def check_nodes(plan: Plan, graph: OpGraph) -> None:
    """Refuse a training step with other operations than the plan's.

    Raises:
        ApplyError: The first operation that differs is named.
    """
    for k, node in enumerate(graph.nodes):
        if k >= len(plan.nodes):
            raise ApplyError(f"the plan of {plan.model} is for another model: it has no operation {node.name!r}")
        planned = plan.nodes[k]
        if (planned.name, planned.op) != (node.name, node.op or node.kind):
            raise ApplyError(
                f"the plan of {plan.model} is for another model: where the model has {node.name!r} "
                f"({node.op or node.kind}) the plan has {planned.name!r} ({planned.op}); search a plan for this one"
            )
    if len(plan.nodes) > len(graph.nodes):
        name = plan.nodes[len(graph.nodes)].name
        raise ApplyError(f"the plan of {plan.model} is for another model: this one has no operation {name!r}")


def _mesh(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
