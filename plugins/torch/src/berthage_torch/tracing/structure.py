"""What a model takes and returns, with its tensors left out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

__all__ = ["Arguments", "Slot", "fill", "outline", "tensors_in"]


@dataclass(frozen=True, slots=True)
class Slot:
    """Stands for a tensor: which of them."""

    index: int


@dataclass(frozen=True, slots=True)
class _Held:
    """A container that pytree does not know, and what is in it by key or field."""

    container: Any
    items: Mapping[str, Any]


@dataclass(frozen=True)
class Arguments:
    """How a module was called.

    Attributes:
        spec: Of ``(args, kwargs)``, as pytree has it.
        leaves: What is in them; `Slot` for tensors.
        names: Of the tensors.
    """

    spec: Any
    leaves: tuple[Any, ...]
    names: tuple[str, ...]


def tensors_in(result: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors in what a model returned, with names; containers that pytree does not know are looked into."""
    return list(_tensors(result))


def _tensors(result: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for path, leaf in pytree.tree_flatten_with_path(result)[0]:
        name = pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            yield f"output{name}", leaf
            continue
        held = _held(leaf)
        if held is not None:
            for inner, tensor in _tensors(held):
                yield f"output{name}{inner[6:]}", tensor


def outline(result: Any) -> Any:
    """``result`` with slots for its tensors, numbered as `tensors_in` gives them."""
    return _outline(result, iter(range(len(tensors_in(result)))))


def _outline(result: Any, numbers: Iterator[int]) -> Any:
    leaves, spec = pytree.tree_flatten(result)
    for i, leaf in enumerate(leaves):
        held = None if isinstance(leaf, torch.Tensor) else _held(leaf)
        if isinstance(leaf, torch.Tensor):
            leaves[i] = Slot(next(numbers))
        elif held is not None:
            leaves[i] = _Held(leaf, {key: _outline(value, numbers) for key, value in held.items()})
    return pytree.tree_unflatten(leaves, spec)


def fill(shape: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """What `outline` made with tensors in its slots."""
    leaves, spec = pytree.tree_flatten(shape)
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, Slot):
            leaves[i] = tensors[leaf.index]
        elif isinstance(leaf, _Held):
            made = copy.copy(leaf.container)
            for key, value in leaf.items.items():
                if isinstance(made, Mapping):
                    made[key] = fill(value, tensors)  # type: ignore[index]
                else:
                    object.__setattr__(made, key, fill(value, tensors))
            leaves[i] = made
    return pytree.tree_unflatten(leaves, spec)


def _held(leaf: Any) -> dict[str, Any] | None:
    if isinstance(leaf, Mapping):
        return dict(leaf)
    if is_dataclass(leaf) and not isinstance(leaf, type):
        return {each.name: getattr(leaf, each.name) for each in fields(leaf)}
    return None
