"""The steps of a parallel module: one lowered for each batch size, traced when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from berthage_nccl import placements as codes
from berthage_torch.errors import ApplyError
from berthage_torch.graph import OpGraph
from berthage_torch.plans.plan import Plan
from berthage_torch.plans.settings import policy_of
from berthage_torch.policy import torch_dtype
from berthage_torch.tracing.structure import Arguments, Slot
from berthage_torch.tracing.trace_step import trace

from .agreeing import Council
from .checks import check_graph, check_nodes
from .extents import Place
from .lowering import LocalTensor, Lowered, lower
from .state import hollow

__all__ = ["Step", "Steps"]

Shapes = tuple[tuple[int, ...], ...]
_Key = tuple[bool, Shapes]


@dataclass(frozen=True)
class Step:
    """A step that is ready to run.

    Attributes:
        lowered: What the rank runs.
        arguments: How the model is called.
        result: What it returns, with slots for its tensors.
    """

    lowered: Lowered
    arguments: Arguments
    result: Any


class Steps:
    """The lowered steps of one rank.

    Args:
        plan: The plan.
        model: The model; only its code is kept.
        mesh: The mesh.
        place: The rank.
        device: The device that runs it.
        attention: As `trace` takes it.
    """

    def __init__(
        self, plan: Plan, model: nn.Module, mesh: DeviceMesh, place: Place, device: torch.device, attention: str
    ) -> None:
        self.plan, self.mesh = plan, mesh
        self._place, self._device, self._attention = place, device, attention
        self._source = hollow(model)
        self._policy = policy_of(plan.settings.policy)
        self._groups = [mesh.get_group(d).group_name for d in range(mesh.ndim)]
        self._council = Council(mesh)
        self._ready: dict[_Key, Step] = {}
        self._agreed: set[_Key] = set()
        self._example: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self.graph = OpGraph(())

    # -- before the first call ------------------------------------------------------------------

    def prepare(self, inputs: Any, kwargs: Mapping[str, Any], training: bool) -> None:
        """Trace the model at the plan's sizes, check that it is the plan's, and lower it.

        Raises:
            ApplyError: It is not.
        """
        args, named = _arguments(self.plan, inputs, kwargs)
        self._example = pytree.tree_map(_meta, (args, named))
        self._example = self._at_batch(self._planned_batch())
        self.graph = self._trace(self._example, training)
        check_graph(self.plan, self.graph)
        self._add(self.graph, training)

    def _planned_batch(self) -> int:
        """The batch size of the plan; 0 when there is none."""
        planned = self.plan.settings.inputs
        return next((one.shape[0] for one in planned if one.shape), 0)

    def _trace(self, example: Any, training: bool) -> OpGraph:
        self._source.train(training)
        args, named = example
        return trace(self._source, tuple(args), named, policy=self._policy, attention=self._attention)

    def _add(self, graph: OpGraph, training: bool) -> Step:
        lowered = lower(self.plan, graph, self._place, self._groups, self._device)
        step = Step(lowered, graph.fx.arguments, graph.fx.result)
        shapes = tuple(one.shape for one in lowered.inputs)
        self._ready[training, shapes] = step
        return step

    def first(self) -> Lowered:
        """The step at the plan's sizes."""
        return next(iter(self._ready.values())).lowered

    # -- calls ----------------------------------------------------------------------------------

    def of(self, training: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Step, list[torch.Tensor]]:
        """The step for these arguments, and the tensors among them.

        Raises:
            ApplyError: They are not what the plan gives this rank. The first time that sizes are seen the ranks ask
                each other, and what is wrong on one is said on all; later only on this one.
        """
        leaves, spec = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        key = (training, tuple([tuple(tensor.shape) for tensor in tensors]))
        step = self._ready.get(key)
        if step is None or key not in self._agreed:
            step = self._first_time(key, spec, leaves, tensors)
        else:
            wrong = _misfit(step, spec, leaves)
            if wrong:
                raise ApplyError(wrong)
        return step, tensors

    def _first_time(self, key: _Key, spec: Any, leaves: list[Any], tensors: list[torch.Tensor]) -> Step:
        """The step for sizes that were not seen yet."""
        training, shapes = key
        ready = self._ready.get(key)
        like = ready or self._like(training)
        batch, wrong = self._batch_of(like.lowered, tensors)
        wrong = _misfit(like, spec, leaves) or wrong
        if torch.compiler.is_compiling():
            if ready is None or wrong:
                raise ApplyError(
                    wrong
                    or f"no step is ready for inputs of sizes {list(map(list, shapes))}: call the module once without "
                    "torch.compile, or apply the plan to inputs of these sizes"
                )
            return ready
        about = ", ".join(f"{one.name} {list(shape)}" for one, shape in zip(like.lowered.inputs, shapes, strict=False))
        expected = ", ".join(f"{one.name} {list(one.shape)}" for one in self.first().inputs)
        self._council.agree(batch, wrong, about, expected)
        if ready is None:
            graph = self._trace(self._at_batch(batch), training)
            try:
                check_nodes(self.plan, graph)
            except ApplyError as error:
                if all(mode == training for mode, _ in self._ready):
                    raise
                here, there = ("training", "evaluation") if training else ("evaluation", "training")
                raise ApplyError(
                    f"in {here} mode the model has other operations than in {there} mode, which the plan is of "
                    f"(dropout, for one): apply a plan that was searched for the model in {here} mode to it. {error}"
                ) from None
            ready = self._add(graph, training)
        self._agreed.add(key)
        return ready

    def _like(self, training: bool) -> Step:
        """A step for other sizes, of this mode if there is one."""
        steps = self._ready.items()
        return next((step for (mode, _), step in steps if mode == training), next(iter(self._ready.values())))

    def _batch_of(self, base: Lowered, tensors: list[torch.Tensor]) -> tuple[int, str]:
        """The global batch size that the inputs are parts of; and what is wrong with them."""
        if len(tensors) != len(base.inputs):
            return 0, f"{len(tensors)} tensors for {len(base.inputs)} inputs"
        batch = planned = self._planned_batch()
        for one, tensor in zip(base.inputs, tensors, strict=True):
            if self._follows(one, tensor):
                shards = 1
                for code, size in zip(one.placement, self._place.sizes, strict=True):
                    shards *= size if code == codes.shard(0) else 1
                even = -(-planned // shards) * shards == planned
                if not even and tensor.shape[0] == self._place.shape(one.whole, one.placement)[0]:
                    break
                batch = tensor.shape[0] * shards
                break
        wrong = []
        for one, tensor in zip(base.inputs, tensors, strict=True):
            whole = one.whole
            if self._follows(one, tensor):
                whole = (batch, *whole[1:])
            expected = self._place.shape(whole, one.placement)
            if tuple(tensor.shape) != expected:
                expected = one.shape
                wrong.append(
                    f"{one.name}: expected {list(expected)}, got {list(tensor.shape)} (this rank's part of "
                    f"{list(one.whole)} placed {codes.format(one.placement)})"
                )
        return batch, "; ".join(wrong)

    def _follows(self, one: LocalTensor, tensor: torch.Tensor) -> bool:
        """Whether the first dimension of an input is the batch."""
        return bool(one.whole) and one.whole[0] == self._planned_batch() and tensor.dim() == len(one.whole)

    def _at_batch(self, batch: int) -> Any:
        """The example with another batch size."""
        leaves, spec = pytree.tree_flatten(self._example)
        first = next((t.shape[0] for t in leaves if isinstance(t, torch.Tensor) and t.dim()), 0)
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == first and batch != first:
                shape = (batch, *leaf.shape[1:])
                leaves[i] = torch.empty(shape, dtype=leaf.dtype, device="meta", requires_grad=leaf.requires_grad)
        return pytree.tree_unflatten(leaves, spec)


def _misfit(step: Step, spec: Any, leaves: list[Any]) -> str:
    """What is wrong with arguments besides their sizes; "" when nothing is."""
    known = step.arguments
    if spec != known.spec:
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return (
            f"expected the arguments {', '.join(known.names)} as in the trace, got {len(args)} positional "
            f"arguments and the keywords {', '.join(kwargs) or 'none'}"
        )
    for expected, leaf in zip(known.leaves, leaves, strict=True):
        if isinstance(expected, Slot):
            one = step.lowered.inputs[expected.index]
            if not isinstance(leaf, torch.Tensor):
                return f"{one.name}: expected a tensor, got {leaf!r}"
            if leaf.dtype != torch_dtype(one.dtype):
                return f"{one.name}: expected {one.dtype}, got {leaf.dtype}"
        elif isinstance(leaf, torch.Tensor) or expected != leaf:
            return f"the model was traced with an argument {expected!r}, and is called with {leaf!r}"
    return ""


def _meta(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta", requires_grad=leaf.requires_grad)


def _arguments(plan: Plan, inputs: Any, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments, from what the caller gave or from what the plan names."""
    if inputs is None:
        return _named_by(plan, kwargs)
    if callable(inputs) and not isinstance(inputs, torch.Tensor):
        with torch.device("meta"):
            inputs = inputs()
    if isinstance(inputs, Mapping):
        return (), {**inputs, **kwargs}
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), dict(kwargs)


def _named_by(plan: Plan, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Tensors by the names ``args[0]``, ``args[1]``, ..., and by keyword.

    Raises:
        ApplyError: An input is inside a container, of which the plan does not say the kind.
    """
    args: list[Any] = []
    named: dict[str, Any] = {}
    for one in plan.settings.inputs:
        name = one.name.removeprefix("input:")
        tensor = torch.empty(one.shape, dtype=torch_dtype(one.dtype), device="meta")
        if name == f"args[{len(args)}]":
            args.append(tensor)
        elif name.isidentifier():
            named[name] = tensor
        else:
            raise ApplyError(
                f"the plan does not say in which container {name!r} is: give the inputs, apply(model, inputs)"
            )
    if not args and not named:
        raise ApplyError("the plan does not say what its inputs are: give them, apply(model, inputs)")
    return tuple(args), {**named, **kwargs}
