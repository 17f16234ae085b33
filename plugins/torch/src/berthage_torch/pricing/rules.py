"""Every single-dimension strategy of an operation, from DTensor's own rules, as placement codes.

The only module that touches private names of `torch.distributed.tensor`. Two tables of torch's sharding propagator are
read: the single-dimension rules, and the registered operation strategies on a mesh of one dimension. Neither needs a
process group. Sizes of meshes play no part: what a rule needs to hold on so many ranks is said by `OneDim.even`.

An embedding whose table is sharded by rows gives a sum over the ranks of rows that are zero where another rank has
the entry. DTensor calls that placement a masked Partial; here it is Partial(sum) and the strategy is `OneDim.masked`:
whoever runs it must look up only what lies in the shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._dtensor_spec import TensorMeta as TorchMeta
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy, TupleStrategy
from torch.distributed.tensor._ops.single_dim_strategy import _ShardingPlaceholder
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard

from berthage_nccl.placements import (
    PARTIAL_AVG,
    PARTIAL_MAX,
    PARTIAL_MIN,
    PARTIAL_SUM,
    REPLICATE,
    is_partial,
    is_shard,
    shard,
)
from berthage_torch.graph import Named, Node, Ref, TensorMeta

from .own_rules import OWN, Rule, placements_of

__all__ = ["OneDim", "one_dim", "torch_op"]

_PARTIALS = {"sum": PARTIAL_SUM, "avg": PARTIAL_AVG, "max": PARTIAL_MAX, "min": PARTIAL_MIN}
_FACTORIES = ("constant", "parameter", "buffer", "input", "tangent", "output")


@dataclass(frozen=True, slots=True)
class OneDim:
    """The strategies of an operation on one mesh dimension: k of them, the first replicates everything.

    Attributes:
        inputs: ``int8[k, A]``, the placement wanted of each tensor argument, in the order of `Node.inputs`.
        outputs: ``int8[k, O]``, of each output; Replicate for one that does not exist.
        even: ``bool[k]``: holds only when the ranks divide every sharded size (an average over ranks, a view that
            splits or merges the sharded dimension). The others hold for uneven shards too.
        masked: ``bool[k]``: an embedding that must look up only what lies in the shard of its table.
        source: ``single-dim``, ``op-strategy``, ``own``, ``free`` (parameters, inputs, results: any shard),
            ``replicate`` (nothing to shard) or ``missing`` (an operation without a rule: replicated).
    """

    inputs: npt.NDArray[np.int8]
    outputs: npt.NDArray[np.int8]
    even: npt.NDArray[np.bool_]
    masked: npt.NDArray[np.bool_]
    source: str


def one_dim(node: Node, inputs: tuple[TensorMeta, ...]) -> OneDim:
    """The strategies of a node on one mesh dimension of any size.

    Partial kinds other than sum appear only where an operation makes them (a mean makes Partial(avg)): no operation is
    offered one as input, so they are reduced at once.

    Args:
        node: Any node but a `local_map` region, whose placements are declared.
        inputs: What is known of the tensors of `Node.inputs`.
    """
    if node.kind != "op":
        meta = node.outputs[0]
        codes = placements_of(meta) if meta is not None else [REPLICATE]
        free = [((code,) * len(inputs), (code,) * len(node.outputs)) for code in codes]
        return _assemble(node, inputs, [(rule, False) for rule in free], "free")
    if not inputs:
        return _assemble(node, inputs, [], "replicate")
    if node.op in OWN:
        return _assemble(node, inputs, [(rule, False) for rule in OWN[node.op](node, inputs)], "own")
    propagator = DTensor._op_dispatcher.sharding_propagator
    op = torch_op(node.op)
    if op is None:
        return _assemble(node, inputs, [], "missing")
    if op in propagator.op_single_dim_strategy_funcs:
        args, kwargs = _arguments(node, [_torch_meta(meta) for meta in inputs])
        found = propagator.op_single_dim_strategy_funcs[op].func(op, args, kwargs)
        return _assemble(node, inputs, list(_single_dim(found, node, len(inputs), inputs)), "single-dim")
    if op in propagator.op_strategy_funcs:
        specs = _op_strategies(propagator.op_strategy_funcs[op], op, node, inputs)
        return _assemble(node, inputs, list(_from_specs(specs, node, inputs)), "op-strategy")
    return _assemble(node, inputs, [], "missing")


def torch_op(name: str) -> Any:
    """The torch operation of a name such as ``aten.mm.default``; None when torch has none."""
    try:
        return reduce(getattr, name.split("."), torch.ops)
    except AttributeError:
        return None


# -- from torch's placements to rules -------------------------------------------------------------

_Found = tuple[Rule, bool]


def _single_dim(
    found: Iterable[Sequence[Any]], node: Node, count: int, inputs: tuple[TensorMeta, ...]
) -> Iterator[_Found]:
    """From ``[output, ..., input, ...]`` rows."""
    metas = (*node.outputs, *inputs)
    for row in found:
        outputs = len(row) - count
        if outputs < len(node.outputs):
            continue
        placements = (*row[: len(node.outputs)], *row[outputs:])
        made = _rule(placements, metas, len(node.outputs))
        if made is not None:
            yield made


def _from_specs(specs: Iterable[OpSpec], node: Node, inputs: tuple[TensorMeta, ...]) -> Iterator[_Found]:
    metas = (*node.outputs, *inputs)
    for spec in specs:
        out = spec.output_specs
        outputs = [out] * len(node.outputs) if not isinstance(out, (tuple, list)) else list(out)
        outputs += [None] * (len(node.outputs) - len(outputs))
        wanted = [outputs[0]] * len(inputs) if spec.input_specs is None else list(spec.input_specs)
        if len(wanted) != len(inputs):
            continue
        placements = [None if one is None else one.placements[0] for one in (*outputs[: len(node.outputs)], *wanted)]
        made = _rule(placements, metas, len(node.outputs))
        if made is not None:
            yield made


def _rule(placements: Sequence[Any], metas: tuple[TensorMeta | None, ...], outputs: int) -> _Found | None:
    """A rule from torch placements, outputs first; None when it cannot be written or is useless."""
    codes: list[int] = []
    masked = False
    for position, (placement, meta) in enumerate(zip(placements, metas, strict=True)):
        mask = isinstance(placement, _MaskPartial)
        masked = masked or mask
        code = REPLICATE if mask and position >= outputs else _code(placement, meta)
        if code is None:
            return None
        if position >= outputs and is_partial(code) and (code != PARTIAL_SUM or meta is None or meta.dtype == "bool"):
            return None
        codes.append(code)
    return (tuple(codes[outputs:]), tuple(codes[:outputs])), masked


def _code(placement: Any, meta: TensorMeta | None) -> int | None:
    """The code of a torch placement; None when there is none, or the dimension is of length one."""
    if placement is None or meta is None or isinstance(placement, Replicate):
        return REPLICATE
    if isinstance(placement, _StridedShard):
        return None
    if isinstance(placement, (Shard, _ShardingPlaceholder)):
        rank = len(meta.shape)
        dim = placement.dim + rank if placement.dim < 0 else placement.dim
        return shard(dim) if dim < rank and meta.shape[dim] > 1 else None
    if type(placement) in (Partial, _MaskPartial):
        return _PARTIALS.get(placement.reduce_op)
    return None


def _assemble(node: Node, inputs: tuple[TensorMeta, ...], found: list[_Found], source: str) -> OneDim:
    """Arrays of the distinct rules, all-replicate first, then ordered by outputs and inputs."""
    whole: Rule = ((REPLICATE,) * len(inputs), (REPLICATE,) * len(node.outputs))
    flags: dict[Rule, bool] = {}
    for rule, masked in found:
        if rule != whole:
            flags[rule] = flags.get(rule, True) and masked
    rules = [whole, *sorted(flags, key=lambda rule: (rule[1], rule[0]))]
    even = [_needs_even(rule, inputs, node.outputs) for rule in rules]
    return OneDim(
        np.array([rule[0] for rule in rules], dtype=np.int8).reshape(len(rules), len(inputs)),
        np.array([rule[1] for rule in rules], dtype=np.int8).reshape(len(rules), len(node.outputs)),
        np.array(even, dtype=np.bool_),
        np.array([flags.get(rule, False) for rule in rules], dtype=np.bool_),
        source,
    )


def _needs_even(rule: Rule, inputs: tuple[TensorMeta, ...], outputs: tuple[TensorMeta | None, ...]) -> bool:
    """Whether shards must be even.

    Averages weigh ranks alike, an empty shard has no maximum, and differing sharded sizes are cut at other places.
    """
    codes = (*rule[0], *rule[1])
    metas = (*inputs, *outputs)
    sizes = {m.shape[code - shard(0)] for code, m in zip(codes, metas, strict=True) if m is not None and is_shard(code)}
    return len(sizes) > 1 or not {PARTIAL_AVG, PARTIAL_MAX, PARTIAL_MIN}.isdisjoint(rule[1])


# -- calling torch's registered strategies --------------------------------------------------------


def _op_strategies(func: Any, op: Any, node: Node, inputs: tuple[TensorMeta, ...]) -> list[OpSpec]:
    """All strategies, with every placement offered of every argument, or one at a time where torch refuses one."""
    mesh = DeviceMesh("cpu", torch.arange(1), mesh_dim_names=("d",), _init_backend=False, _rank=0)
    offers = [_offers(mesh, meta) for meta in inputs]
    try:
        return _call(func, op, node, offers)
    except Exception:  # torch's rules raise anything when a candidate is not for them
        found: list[OpSpec] = []
        for first in offers[0]:
            try:
                found += _call(func, op, node, [[first], *offers[1:]])
            except Exception:  # an illegal candidate: the others may be legal
                continue
        return found


def _offers(mesh: DeviceMesh, meta: TensorMeta) -> list[OpSpec]:
    candidates = [Replicate(), Partial(), *(Shard(d) for d, size in enumerate(meta.shape) if size > 1)]
    return [OpSpec(DTensorSpec(mesh, (one,), tensor_meta=_torch_meta(meta)), ()) for one in candidates]


def _call(func: Any, op: Any, node: Node, offers: list[list[OpSpec]]) -> list[OpSpec]:
    args, kwargs = _arguments(node, [OpStrategy(list(offer)) for offer in offers])
    args = tuple(
        TupleStrategy(list(arg)) if isinstance(arg, (tuple, list)) and arg and isinstance(arg[0], OpStrategy) else arg
        for arg in args
    )
    result = func(OpSchema(op, args, kwargs))
    if isinstance(result, TupleStrategy):
        return []
    return list(result.strategies)


def _arguments(node: Node, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The node's arguments with ``tensors`` in the places of its refs, in order, and torch's own constants."""
    left = iter(tensors)

    def read(value: Any) -> Any:
        if isinstance(value, Ref):
            return next(left)
        if isinstance(value, Named):
            return _constant(value)
        if isinstance(value, tuple):
            return [read(item) for item in value]
        return value

    args = tuple(read(value) for value in node.args)
    return args, {name: read(value) for name, value in node.kwargs}


def _constant(named: Named) -> Any:
    value = named.value.removeprefix("torch.")
    return torch.device(value) if named.kind == "device" else getattr(torch, value)


def _torch_meta(meta: TensorMeta) -> TorchMeta:
    return TorchMeta(torch.Size(meta.shape), meta.stride, getattr(torch, meta.dtype))
