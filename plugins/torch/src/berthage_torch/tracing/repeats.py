"""Repeated layers are run once: a later call of a layer just like it is recorded as one operation, copied in later.

A layer counts as repeated when it sits in a ``ModuleList`` or ``Sequential``, and type, settings, parameters and
buffers of all its modules, and the arguments of the call, are those of an earlier one. Everything around the
layers runs as the model says. Where anything is in doubt the layer is traced like any other code.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from berthage_torch import ops
from berthage_torch.marks import LocalMapped, Recorder, Template

from .state import call_with, places

__all__ = ["Repeater", "UnrepeatableError", "find_layers"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)
_INTERNAL = frozenset(vars(nn.Module())) - {"training"}


class UnrepeatableError(Exception):
    """A repeated layer does not copy; trace everything."""


def find_layers(model: nn.Module, least: int = 3) -> dict[nn.Module, tuple[str, Any]]:
    """The layers that are repeated at least ``least`` times: each with its path and its signature."""
    found: dict[nn.Module, tuple[str, Any]] = {}
    for path, container in model.named_modules():
        if not isinstance(container, (nn.ModuleList, nn.Sequential)) or len(container) < least:
            continue
        held = list(container._modules.values())
        once = [(name, child) for name, child in container.named_children() if held.count(child) == 1]
        signed = [(name, child, _signature(child)) for name, child in once]
        for name, child, signature in signed:
            alike = sum(signature == other for _, _, other in signed)
            if signature is not None and alike >= least and any(True for _ in child.parameters()):
                found.setdefault(child, (f"{path}.{name}" if path else name, signature))
    return found


class Repeater:
    """Calls layers; what a `Recorder` holds of it is read when the graph is converted.

    Layers get their parameters as they are stored, and see them cast: so a layer that is not run casts nothing.
    """

    def __init__(
        self, recorder: Recorder, layers: dict[nn.Module, tuple[str, Any]], cast: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        self._recorder = recorder
        self._layers = layers
        self._cast = cast
        self._keys: dict[Any, int] = {}
        self._called: set[nn.Module] = set()
        self._inside = False

    def clear(self) -> None:
        """Forget the calls of an earlier pass."""
        self._keys.clear()
        self._called.clear()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stand in for the layers' ``forward``."""
        with ExitStack() as stack:
            for layer in self._layers:
                layer.__dict__["forward"] = self._stand_in(layer, layer.forward)
                stack.callback(layer.__dict__.pop, "forward", None)
            yield

    def _stand_in(self, layer: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return forward(*args, **kwargs)
            return self._call(layer, forward, args, kwargs)

        return call

    def _call(self, layer: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        path, signature = self._layers[layer]
        if layer in self._called:
            raise UnrepeatableError("a layer is called twice, and its parameters are cast once")
        self._called.add(layer)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        parameters, buffers = places(layer)
        state = {**parameters, **buffers}
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        rest = tuple(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor))
        if not all(isinstance(leaf, _PLAIN) for leaf in rest):
            return self._run(layer, state, parameters, args, kwargs)
        arguments = len(tensors)
        held = {id(t): t for t in state.values()}
        tensors += held.values()
        key = (signature, str(spec), repr(rest), torch.is_grad_enabled(), _kinds(tensors))
        if key in self._keys:
            template = self._recorder.templates[self._keys[key]]
            call = len(self._recorder.calls)
            self._recorder.calls.append((self._keys[key], path))
            outputs = _Repeat.apply(template, call, *tensors)  # type: ignore[no-untyped-call]
            return pytree.tree_unflatten(list(outputs), template.spec)
        number = len(self._recorder.templates)
        self._recorder.templates.append(Template(path))
        marked = [self._recorder.mark(t, "t-in", "t-grad-in", number, i) for i, t in enumerate(tensors)]
        supply = iter(marked)
        values = [next(supply) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        again_args, again_kwargs = pytree.tree_unflatten(values, spec)
        before = _signature(layer)
        inside = dict(zip(held, marked[arguments:], strict=True))
        inner = {name: inside[id(t)] for name, t in state.items()}
        result = self._run(layer, inner, parameters, again_args, again_kwargs)
        outputs, out_spec = pytree.tree_flatten(result)
        after, after_spec = pytree.tree_flatten((again_args, again_kwargs))
        if after_spec != spec or any(one is not two for one, two in zip(after, values, strict=True)):
            raise UnrepeatableError("a layer changes the containers that it is given")
        if all(isinstance(output, torch.Tensor) for output in outputs) and _signature(layer) == before:
            self._keys[key] = number
            self._recorder.templates[number] = Template(
                path,
                out_spec,
                tuple((tuple(o.shape), tuple(o.stride()), o.dtype, o.device, o.requires_grad) for o in outputs),
            )
        marked = [
            self._recorder.mark(o, "t-out", "t-grad-out", number, i) if isinstance(o, torch.Tensor) else o
            for i, o in enumerate(outputs)
        ]
        return pytree.tree_unflatten(marked, out_spec)

    def _run(
        self, layer: nn.Module, state: dict[str, torch.Tensor], parameters: Iterable[str], args: Any, kwargs: Any
    ) -> Any:
        cast = {key: self._cast(t) for key, t in {id(state[name]): state[name] for name in parameters}.items()}
        inner = {**state, **{name: cast[id(state[name])] for name in parameters}}
        self._inside = True
        try:
            return call_with(layer, inner, args, kwargs)
        finally:
            self._inside = False


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, template: Template, call: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        outputs = [
            torch.empty_strided(shape, stride, dtype=dtype, device=device)
            for shape, stride, dtype, device, _ in template.outputs
        ]
        outputs = ops.repeat(tensors, outputs, call)
        fixed = [out for out, (*_, differs) in zip(outputs, template.outputs, strict=True) if not differs]
        ctx.mark_non_differentiable(*fixed)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        wanted = [i for i in range(len(tensors)) if ctx.needs_input_grad[i + 2]]
        given = [(i, gradient) for i, gradient in enumerate(gradients) if gradient is not None]
        made = ops.repeat_backward(
            [gradient for _, gradient in given],
            [tensors[i] for i in wanted],
            ctx.call,
            [i for i, _ in given],
            wanted,
        )
        result: list[torch.Tensor | None] = [None] * len(tensors)
        for i, gradient in zip(wanted, made, strict=True):
            result[i] = gradient
        return None, None, *result


def _kinds(tensors: list[torch.Tensor]) -> tuple[Any, ...]:
    """What is known of tensors without their values, and which of them are the same."""
    first: dict[int, int] = {}
    return tuple(
        (
            tuple(str(size) for size in t.shape),
            tuple(str(size) for size in t.stride()),
            t.dtype,
            t.device,
            t.requires_grad,
            first.setdefault(id(t), i),
        )
        for i, t in enumerate(tensors)
    )


def _signature(module: nn.Module) -> Any:
    """Equal for modules that do the same with their parameters and arguments; None when nobody can tell."""
    parts: list[Any] = []
    for name, inner in module.named_modules(remove_duplicate=False):
        hooks = (inner._forward_hooks, inner._forward_pre_hooks, inner._backward_hooks, inner._backward_pre_hooks)
        settings = {key: value for key, value in vars(inner).items() if key not in _INTERNAL and key != "forward"}
        seen = _settled(settings)
        if seen is None or any(not _ours(hook) for table in hooks for hook in table.values()):
            return None
        state = tuple(
            (key, tuple(t.shape), str(t.dtype)) if t is not None else (key,)
            for table in (inner._parameters, inner._buffers)
            for key, t in table.items()
        )
        parts.append((name, type(inner), inner.training, seen, state))
    return tuple(parts)


def _ours(hook: Any) -> bool:
    return str(getattr(hook, "__module__", "")).startswith("berthage_torch.")


def _settled(value: Any) -> Any:
    """A value that can be compared, or None when it may change or cannot be compared."""
    if isinstance(value, _PLAIN):
        return (type(value), repr(value))
    if isinstance(value, (tuple, list, set, frozenset)):
        items = [_settled(item) for item in value]
        return None if None in items else (type(value), tuple(items))
    if isinstance(value, dict):
        items = [_settled(item) for item in value.values()]
        return None if None in items else (dict, tuple(map(repr, value)), tuple(items))
    if isinstance(value, LocalMapped):
        return value
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
        return (id(value),)
    if isinstance(value, types.FunctionType) and value.__closure__ is None:
        return (id(value),)
    if hasattr(value, "__dataclass_fields__") and value.__dataclass_params__.frozen:
        return (type(value), _settled({key: getattr(value, key) for key in value.__dataclass_fields__}))
    return None
