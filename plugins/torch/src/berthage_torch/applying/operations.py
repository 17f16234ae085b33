"""One operation of the graph on the shards of one rank: arguments that are sizes become those of the shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx

from berthage_torch.errors import ApplyError
from berthage_torch.graph import Named, Node, Ref, TensorMeta
from berthage_torch.policy import torch_dtype
from berthage_torch.pricing.rules import torch_op

from .extents import Place, Shape
from .kernels import on_cpu
from .writing import Writer

__all__ = ["Operation", "write_operation"]

aten = torch.ops.aten
Placement = Sequence[int]

_VIEWS: Final = frozenset(f"aten.{name}.default" for name in ("view", "_unsafe_view", "reshape"))
_SIZES: Final = frozenset({"size", "sizes", "self_sizes", "input_size", "input_sizes", "shape"})
"""How the schemas of operations call a list of sizes."""
_LIKE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "aten.zeros_like.default": aten.new_zeros.default,
        "aten.ones_like.default": aten.new_ones.default,
        "aten.full_like.default": aten.new_full.default,
        "aten.empty_like.default": aten.new_empty.default,
    }
)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation and where its tensors lie.

    Attributes:
        node: The node.
        metas: What is known of its tensor arguments.
        inputs: Their placements.
        outputs: Placements of its outputs.
        masked: Whether it must look up only what lies in the rank's part of its table.
        device: The device that runs it.
    """

    node: Node
    metas: tuple[TensorMeta, ...]
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    masked: bool
    device: torch.device


def write_operation(write: Writer, place: Place, operation: Operation, tensors: Sequence[fx.Node]) -> fx.Node:
    """The operation on what the rank holds of its arguments; a list where it has several results.

    Raises:
        ApplyError: It cannot run on shards; the message names it.
    """
    node = operation.node
    if operation.masked:
        return _masked_lookup(write, place, operation, tensors)
    args, kwargs = _arguments(node, tensors, operation.device)
    out = node.outputs[0] if node.outputs else None
    local = place.shape(out.shape, operation.outputs[0]) if out is not None else ()
    if node.op in _VIEWS:
        return write.call(aten.reshape.default, args[0], list(local))
    if (
        node.op in _LIKE
        and out is not None
        and tuple(local) != place.shape(operation.metas[0].shape, operation.inputs[0])
    ):
        kwargs.pop("memory_format", None)
        return write.call(_LIKE[node.op], args[0], list(local), *args[1:], **kwargs)
    if node.op.startswith("aten.native_group_norm"):
        at = 3 if node.op == "aten.native_group_norm.default" else 5
        args[at] = place.shape(operation.metas[0].shape, operation.inputs[0])[0]
    if node.op.startswith("aten.as_strided") and not all(map(_plain, operation.metas)):
        raise ApplyError(f"{node.name}: {node.op} looks at memory that shards lay out in another way")
    op = torch_op(node.op)
    if op is None:
        raise ApplyError(f"{node.name}: this torch has no operation {node.op}")
    if out is not None and tuple(local) != out.shape:
        _localise(op, args, kwargs, out.shape, local)
    return write.call(_kernel(node.op, op, operation.device), *args, **kwargs)


def _kernel(name: str, op: Any, device: torch.device) -> Callable[..., Any]:
    """What runs an operation on a device."""
    if device.type == "cpu":
        found = on_cpu(name)
        if found is not None:
            return found
    return op  # type: ignore[no-any-return]


def _localise(op: Any, args: list[Any], kwargs: dict[str, Any], whole: Shape, local: Shape) -> None:
    """Put the sizes of the shard where an argument holds those of the whole result, in place."""
    for position, argument in enumerate(op._schema.arguments):
        if argument.name not in _SIZES and argument.name != "stride":
            continue
        given = args[position] if position < len(args) else kwargs.get(argument.name)
        if argument.name == "stride":
            new = _strides_like(given, local) if isinstance(given, list) else None
        else:
            new = _sizes_like(given, whole, local) if isinstance(given, list) else None
        if new is None:
            continue
        if position < len(args):
            args[position] = new
        else:
            kwargs[argument.name] = new


def _sizes_like(given: list[int], whole: Shape, local: Shape) -> list[int] | None:
    """The local form of sizes that are those of the result; -1, as in an expand, keeps a size."""
    same = len(given) == len(whole) and all(size in (-1, full) for size, full in zip(given, whole, strict=True))
    return list(local) if same else None


def _strides_like(given: list[int], local: Shape) -> list[int] | None:
    """Strides without gaps in the order of ``given``."""
    if len(given) != len(local):
        return None
    found, step = [0] * len(local), 1
    for d in sorted(range(len(local)), key=lambda d: (given[d], -d)):
        found[d] = step
        step *= local[d]
    return found


def _masked_lookup(write: Writer, place: Place, operation: Operation, tensors: Sequence[fx.Node]) -> fx.Node:
    """Rows of an embedding table of which the rank holds a part; zeros for the rows of others."""
    if operation.node.op != "aten.embedding.default":
        raise ApplyError(f"{operation.node.name}: {operation.node.op} cannot look up a part of a sharded table")
    table, indices = tensors
    start, length = place.extents(operation.metas[0].shape, operation.inputs[0])[0]
    inside = write.call(
        aten.logical_and.default,
        write.call(aten.ge.Scalar, indices, start),
        write.call(aten.lt.Scalar, indices, start + length),
    )
    outside = write.call(aten.logical_not.default, inside)
    shifted = write.call(aten.sub.Tensor, indices, start)
    rows = write.call(aten.embedding.default, table, write.call(aten.masked_fill.Scalar, shifted, outside, 0))
    return write.call(aten.masked_fill.Scalar, rows, write.call(aten.unsqueeze.default, outside, -1), 0)


def _arguments(node: Node, tensors: Sequence[fx.Node], device: torch.device) -> tuple[list[Any], dict[str, Any]]:
    left = iter(tensors)

    def read(value: Any) -> Any:
        if isinstance(value, Ref):
            return next(left)
        if isinstance(value, Named):
            return _constant(value, device)
        if isinstance(value, tuple):
            if len(value) == 3 and value[0] == "complex":
                return complex(value[1], value[2])
            return [read(item) for item in value]
        return value

    return [read(value) for value in node.args], {name: read(value) for name, value in node.kwargs}


def _constant(named: Named, device: torch.device) -> Any:
    if named.kind == "device":
        return device  # a trace names its own
    if named.kind == "dtype":
        return torch_dtype(named.value)
    return getattr(torch, named.value.removeprefix("torch."))


def _plain(meta: TensorMeta) -> bool:
    """Whether a tensor is contiguous."""
    step = 1
    for size, stride in zip(reversed(meta.shape), reversed(meta.stride), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
