"""What model code may say about placements: `local_map` regions and `hint`. They do nothing but be recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch

from . import ops
from .graph import Placements

__all__ = ["LocalMapped", "Recorder", "hint", "local_map", "recording", "to_codes", "with_sharding_constraint"]

_REPLICATE, _SUM, _SHARD = 0, 1, 8
_WORDS = {"R": _REPLICATE, "P": _SUM, "P(sum)": _SUM, "P(avg)": 2, "P(max)": 3, "P(min)": 4}


@dataclass(frozen=True, slots=True)
class Body:
    """What runs in a region, as a function of tensors only.

    Attributes:
        fn: The function.
        arguments: Its arguments; None in the places of tensors.
        at: The places of its tensors.
    """

    fn: Callable[..., Any]
    arguments: tuple[Any, ...]
    at: tuple[int, ...]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results for other tensors in these places."""
        arguments = list(self.arguments)
        for place, tensor in zip(self.at, tensors, strict=True):
            arguments[place] = tensor
        result = self.fn(*arguments)
        return list(result) if isinstance(result, (tuple, list)) else [result]


@dataclass(slots=True)
class Declared:
    """One use of `local_map`: what was declared, by tensor argument and tensor result, and what runs."""

    inputs: tuple[Placements, ...]
    outputs: tuple[Placements, ...] = ()
    gradients: tuple[Placements | None, ...] = ()
    body: Body | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """The first call of a repeated layer.

    Attributes:
        path: Its module.
        spec: How its results are put together; None when it is not to be repeated.
        outputs: For each result shape, stride, dtype, device and whether it is differentiable.
    """

    path: str
    spec: Any = None
    outputs: tuple[Any, ...] = ()


@dataclass(slots=True)
class Recorder:
    """What one trace has seen of `local_map` and `hint`.

    A mark in the graph is ``berthage.mark(tensor, tag)``; ``tags[tag]`` is ``(what, which, position)``: what is
    ``in``, ``out``, ``grad-out``, ``grad-in`` (which: the region), the same after ``t-`` (which: the template) or
    ``hint`` (which: the hint). ``calls`` are the repeated layers: template and module.
    """

    regions: list[Declared] = field(default_factory=list)
    hints: list[Placements] = field(default_factory=list)
    tags: list[tuple[str, int, int]] = field(default_factory=list)
    templates: list[Template] = field(default_factory=list)
    calls: list[tuple[int, str]] = field(default_factory=list)

    def clear(self) -> None:
        """Forget everything."""
        for what in (self.regions, self.hints, self.tags, self.templates, self.calls):
            what.clear()

    def mark(self, tensor: torch.Tensor, forward: str, backward: str, which: int, position: int) -> torch.Tensor:
        """Mark a tensor, and its gradient on the way back."""
        self.tags += [(forward, which, position), (backward, which, position)]
        return _Mark.apply(tensor, len(self.tags) - 2)  # type: ignore[no-any-return, no-untyped-call]


class _Mark(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, tag: int) -> torch.Tensor:
        ctx.tag = tag
        return ops.mark(tensor, tag)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ops.mark(gradient, ctx.tag + 1), None


# Per context, set only while a trace runs.
_RECORDER: ContextVar[Recorder | None] = ContextVar("berthage_torch_recorder", default=None)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Let model code that runs in this context record into ``recorder``."""
    token = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def local_map(
    fn: Callable[..., Any],
    in_placements: Sequence[Any],
    out_placements: Any,
    *,
    in_grad_placements: Sequence[Any] | None = None,
) -> LocalMapped:
    """Say that ``fn`` works on each rank's own shards, at placements that are fixed here.

    Without a plan the result just calls ``fn``. A plan runs ``fn`` on local shards; ``fn`` must give the
    declared outputs when it does, and take every tensor it uses as an argument.

    Args:
        fn: Takes positional arguments, returns a tensor or a tuple or list of tensors.
        in_placements: One entry an argument, None for one that is no tensor. An entry is a placement for each mesh
            dimension, ``("S(0)", "R")``, or placements by axis name, ``{"dp": "S(0)"}``, where axes left out are
            replicated. A placement is ``"R"``, ``"S(d)"``, ``"P"`` (``"P(avg)"`` ...) or a torch ``Placement``.
        out_placements: Likewise for the result: one entry, or a tuple or list of entries for several tensors.
        in_grad_placements: Of the gradients of the inputs, None where derived. Derived is: of a shard the same shard,
            of a partial sum replicated, of a replicated input a partial sum wherever any
            declared placement of the region on that mesh dimension is not replicated, otherwise replicated.

    Returns:
        A function of the same arguments as ``fn``.
    """
    several = isinstance(out_placements, (tuple, list)) and any(_is_entry(entry) for entry in out_placements)
    outs = tuple(to_codes(entry) for entry in (out_placements if several else [out_placements]))
    ins = tuple(None if entry is None else to_codes(entry) for entry in in_placements)
    grads: tuple[Placements | None, ...] = (None,) * len(ins)
    if in_grad_placements is not None:
        if len(in_grad_placements) != len(ins):
            raise ValueError(f"local_map: {len(in_grad_placements)} gradient placements for {len(ins)} inputs")
        grads = tuple(None if entry is None else to_codes(entry) for entry in in_grad_placements)
    return LocalMapped(fn, ins, outs, grads)


@dataclass(frozen=True, slots=True)
class LocalMapped:
    """A function with declared placements; made by `local_map`."""

    fn: Callable[..., Any]
    inputs: tuple[Placements | None, ...]
    outputs: tuple[Placements, ...]
    gradients: tuple[Placements | None, ...]

    def __call__(self, *args: Any) -> Any:
        """Call the function, and record the call while a trace runs."""
        recorder = _RECORDER.get()
        if recorder is None:
            return self.fn(*args)
        name = getattr(self.fn, "__qualname__", repr(self.fn))
        if len(args) != len(self.inputs):
            raise ValueError(f"local_map: {len(args)} arguments for {len(self.inputs)} placements of {name}")
        region = len(recorder.regions)
        placements: list[Placements] = []
        gradients: list[Placements | None] = []
        at: list[int] = []
        inner = list(args)
        for position, argument in enumerate(args):
            if not isinstance(argument, torch.Tensor):
                continue
            declared = self.inputs[position]
            if declared is None:
                raise ValueError(f"local_map: argument {position} of {name} is a tensor without a placement")
            inner[position] = recorder.mark(argument, "in", "grad-in", region, len(placements))
            placements.append(declared)
            gradients.append(self.gradients[position])
            at.append(position)
        plain = tuple(None if isinstance(argument, torch.Tensor) else argument for argument in args)
        body = Body(self.fn, plain, tuple(at))
        recorder.regions.append(Declared(tuple(placements), self.outputs, tuple(gradients), body))
        result = self.fn(*inner)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(results) != len(self.outputs) or not all(isinstance(tensor, torch.Tensor) for tensor in results):
            raise ValueError(f"local_map: {name} must return {len(self.outputs)} tensors, one for each placement")
        marked = [recorder.mark(t, "out", "grad-out", region, position) for position, t in enumerate(results)]
        return type(result)(marked) if isinstance(result, (tuple, list)) else marked[0]


def hint(tensor: torch.Tensor, placements: Any) -> torch.Tensor:
    """Ask for placements of a tensor in model code; returns the tensor.

    A search keeps to it as to any demand, by the name ``hint NODE``, unless `Constraints.hints` is false.

    Args:
        tensor: Any tensor of the forward pass.
        placements: A placement for each mesh dimension, or by axis name, as in `local_map`.
    """
    recorder = _RECORDER.get()
    if recorder is None:
        return tensor
    recorder.hints.append(to_codes(placements))
    return recorder.mark(tensor, "hint", "pass", len(recorder.hints) - 1, 0)


def with_sharding_constraint(tensor: torch.Tensor, placements: Any) -> torch.Tensor:
    """`hint` under the name that users of JAX know."""
    return hint(tensor, placements)


def to_codes(entry: Any) -> Placements:
    """Placement codes of an entry: a sequence with one placement a mesh dimension, or a mapping by axis name.

    Raises:
        ValueError: A placement is not one.
    """
    if isinstance(entry, Mapping):
        return tuple((str(axis), _code(placement)) for axis, placement in sorted(entry.items()))
    if isinstance(entry, str) or not isinstance(entry, Sequence):
        return (_code(entry),)
    return tuple(_code(placement) for placement in entry)


def derived_gradients(declared: Declared) -> tuple[Placements, ...]:
    """The placements of the gradients of a region's inputs, by the rule that `local_map` states."""
    axes = None
    everything = [*declared.inputs, *declared.outputs]
    if any(p and isinstance(p[0], tuple) for p in everything):
        axes = sorted({axis for p in everything for axis, _ in _pairs(p)})
    size = len(axes) if axes is not None else max((len(p) for p in everything), default=0)
    dense = [_dense(p, axes, size) for p in everything]
    local = [any(row[d] != _REPLICATE for row in dense) for d in range(size)]
    found: list[Placements] = []
    for position, row in enumerate(dense[: len(declared.inputs)]):
        given = declared.gradients[position] if declared.gradients else None
        if given is not None:
            found.append(given)
            continue
        codes = tuple(_gradient(code, local[d]) for d, code in enumerate(row))
        found.append(tuple(zip(axes, codes, strict=True)) if axes is not None else codes)
    return tuple(found)


def cotangents(placements: Sequence[Placements]) -> tuple[Placements, ...]:
    """The placements in which a region takes the gradients of its outputs: those of a partial sum are replicated."""

    def of(code: int) -> int:
        return code if code >= _SHARD else _REPLICATE

    return tuple(
        tuple((axis, of(code)) for axis, code in _pairs(p))
        if p and isinstance(p[0], tuple)
        else tuple(of(code) for code in p)  # type: ignore[arg-type]
        for p in placements
    )


def _gradient(code: int, local: bool) -> int:
    if code >= _SHARD:
        return code
    return _SUM if code == _REPLICATE and local else _REPLICATE


def _pairs(placements: Placements) -> tuple[tuple[str, int], ...]:
    if placements and not isinstance(placements[0], tuple):
        raise ValueError("local_map: placements are either all by axis name or all by position")
    return placements  # type: ignore[return-value]


def _dense(placements: Placements, axes: list[str] | None, size: int) -> tuple[int, ...]:
    if axes is not None:
        named = dict(_pairs(placements))
        return tuple(named.get(axis, _REPLICATE) for axis in axes)
    if len(placements) != size:
        raise ValueError("local_map: all placements of a region need the same number of mesh dimensions")
    return placements  # type: ignore[return-value]


def _is_entry(value: object) -> bool:
    return isinstance(value, (Mapping, tuple, list))


def _code(placement: Any) -> int:
    if isinstance(placement, str):
        if placement in _WORDS:
            return _WORDS[placement]
        shard = re.fullmatch(r"S\((\d+)\)", placement)
        if shard:
            return _SHARD + int(shard.group(1))
    # torch's placements are told by their methods, so that model code need not import torch.distributed.
    elif hasattr(placement, "is_replicate"):
        if placement.is_replicate():
            return _REPLICATE
        if placement.is_partial():
            return _WORDS[f"P({placement.reduce_op})"]
        if placement.is_shard() and placement.dim >= 0:
            return _SHARD + int(placement.dim)
    raise ValueError(f"{placement!r} is no placement: use 'R', 'S(0)', 'P', or a torch Placement with a dimension >= 0")
