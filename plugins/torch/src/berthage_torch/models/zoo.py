"""The models by name: ``build("llama3-1b", layers=2)``."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from berthage import OptionError, UnknownNameError

from .deepseek import DeepSeek, DeepSeekSizes
from .gpt2 import Gpt2, Gpt2Sizes
from .llama import Llama, LlamaSizes
from .mlp import Mlp, MlpSizes
from .spec import LOGITS, AxisRule, ModelSpec, by_kind

__all__ = ["build", "names", "sizes_of"]


@dataclass(frozen=True, slots=True)
class _Entry:
    summary: str
    sizes: Any
    model: Callable[[Any], nn.Module]
    inputs: Callable[[Any], tuple[torch.Tensor, ...]]
    outputs: tuple[AxisRule, ...] = LOGITS


def _tokens(sizes: Any) -> tuple[torch.Tensor, ...]:
    return (torch.zeros(sizes.batch, sizes.sequence, dtype=torch.int64),)


def _features(sizes: MlpSizes) -> tuple[torch.Tensor, ...]:
    return (torch.zeros(sizes.batch, sizes.dim),)


_ZOO: Mapping[str, _Entry] = MappingProxyType(
    {
        "llama3-1b": _Entry("Llama 3.2 of 1 billion parameters", LlamaSizes(), Llama, _tokens),
        "llama3-8b": _Entry(
            "Llama 3 of 8 billion parameters",
            LlamaSizes(dim=4096, layers=32, ffn_multiplier=1.3, multiple_of=1024),
            Llama,
            _tokens,
        ),
        "dsv3": _Entry("DeepSeek-V3 in small, 64 experts", DeepSeekSizes(), DeepSeek, _tokens),
        "dsv3-tiny": _Entry("DeepSeek-V3 in small, 8 experts", DeepSeekSizes(experts=8, batch=32), DeepSeek, _tokens),
        "gpt2": _Entry("GPT-2 of 124 million parameters", Gpt2Sizes(), Gpt2, _tokens),
        "mlp": _Entry(
            "a stack of linear layers",
            MlpSizes(),
            Mlp,
            _features,
            (AxisRule(by_kind(dp="S(0)", ep="S(0)")),),
        ),
    }
)


def names() -> dict[str, str]:
    """The models' names, each with one line about it."""
    return {name: entry.summary for name, entry in _ZOO.items()}


def sizes_of(name: str, **sizes: Any) -> Any:
    """The sizes of a model, some of them replaced.

    Raises:
        UnknownNameError: No such model.
        OptionError: The model has no such size.
    """
    entry = _entry(name)
    known = [field.name for field in dataclasses.fields(entry.sizes)]
    unknown = sorted(set(sizes) - set(known))
    if unknown:
        raise OptionError(f"{name} has no size {unknown[0]!r}; it has {', '.join(known)}")
    for size, value in sizes.items():
        _check(name, size, value, getattr(entry.sizes, size))
    return dataclasses.replace(entry.sizes, **sizes)


def _check(model: str, name: str, value: object, usual: object) -> None:
    """Refuse a size of another kind than usual."""
    if isinstance(usual, bool):
        good, kind = isinstance(value, bool), "True or False"
    elif isinstance(usual, int):
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
        kind = "a whole number"
    else:
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
        kind = "a number"
    if not good:
        raise OptionError(f"{model}: the size {name} is {kind} such as {usual!r}, not {value!r}")


def build(name: str, *, device: str = "meta", **sizes: Any) -> ModelSpec:
    """Build a model, without allocating it unless asked.

    Args:
        name: One of `names`.
        device: Where its parameters lie.
        **sizes: Sizes that differ from the named ones, e.g. ``layers=2, batch=64``.

    Raises:
        UnknownNameError: No such model.
        OptionError: The model has no such size.
    """
    entry = _entry(name)
    chosen = sizes_of(name, **sizes)
    with torch.device(device):
        model = entry.model(chosen)
    return ModelSpec(
        name=name,
        model=model,
        make_inputs=lambda: entry.inputs(chosen),
        sizes=MappingProxyType(dataclasses.asdict(chosen)),
        outputs=entry.outputs,
    )


def _entry(name: str) -> _Entry:
    if name in _ZOO:
        return _ZOO[name]
    near = difflib.get_close_matches(name, _ZOO, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownNameError(f"no model {name!r}; {meant}there are {', '.join(_ZOO)}, or 'package.module:factory'")
