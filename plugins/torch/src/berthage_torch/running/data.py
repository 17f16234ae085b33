"""Values for a run: parameters, inputs and targets, the same whatever the plan, and each rank's part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from berthage import InvalidProblemError
from berthage_torch.applying.extents import Place
from berthage_torch.applying.lowering import LocalTensor
from berthage_torch.applying.module import ParallelModule
from berthage_torch.models import zoo
from berthage_torch.models.spec import ModelSpec

__all__ = ["Sample", "part_of", "sample_of"]

Tensor = torch.Tensor


class Sample:
    """A model with values and a batch for it, the same on every rank.

    Attributes:
        model: The module, with data, on the CPU.
        args: Positional arguments, whole.
        kwargs: Keyword arguments, whole.
        seed: Seed of all values.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], seed: int) -> None:
        self.model, self.args, self.kwargs, self.seed = model, args, dict(kwargs), seed

    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, in order."""
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, Tensor)]

    def with_tensors(self, tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors, a rank's parts for instance."""
        leaves, spec = pytree.tree_flatten((self.args, self.kwargs))
        left = iter(tensors)
        filled = [next(left) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return args, kwargs

    def targets(self, about: Sequence[LocalTensor]) -> list[Tensor]:
        """Random targets for outputs, whole."""
        blanks = [torch.empty(one.whole, dtype=getattr(torch, one.dtype), device="meta") for one in about]
        return [_values(blank, self.seed + 1 + i, 2) for i, blank in enumerate(blanks)]


def sample_of(model: nn.Module | ModelSpec, inputs: Any, seed: int) -> Sample:
    """Values for a model and its inputs. Inputs that have data keep them.

    Args:
        model: The model: of the zoo, which is made anew on the CPU, or one that has values.
        inputs: As `trace` takes them; None with a model of the zoo.
        seed: Seed of all values.

    Raises:
        InvalidProblemError: A parameter of the model has no value.
    """
    vocabulary = 2
    if isinstance(model, ModelSpec):
        vocabulary = int(model.sizes.get("vocab", vocabulary))
        torch.manual_seed(seed)
        module = zoo.build(model.name, device="cpu", **model.sizes).model
        with torch.device("meta"):
            inputs = model.make_inputs()
    else:
        module = model
        empty = [name for name, tensor in [*module.named_parameters(), *module.named_buffers()] if tensor.is_meta]
        if empty:
            raise InvalidProblemError(
                f"{empty[0]!r} has no value (of {len(empty)} such): a model that is to run is made with data, not on "
                "the meta device"
            )
        inputs = inputs() if callable(inputs) and not isinstance(inputs, Tensor) else inputs
    if isinstance(inputs, Mapping):
        given: tuple[tuple[Any, ...], dict[str, Any]] = (), dict(inputs)
    else:
        given = (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}
    leaves, spec = pytree.tree_flatten(given)
    leaves = [
        _values(leaf, seed - 1 - i, vocabulary) if isinstance(leaf, Tensor) and leaf.is_meta else leaf
        for i, leaf in enumerate(leaves)
    ]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return Sample(module, args, kwargs, seed)


def part_of(parallel: ParallelModule, whole: Tensor, about: LocalTensor, device: torch.device) -> Tensor:
    """This rank's part of a tensor that every rank has whole."""
    mesh = parallel.device_mesh
    coordinate = mesh.get_coordinate()
    assert coordinate is not None  # apply_plan refuses ranks outside
    place = Place(tuple(mesh.shape), tuple(coordinate))
    for d, (start, length) in enumerate(place.extents(tuple(whole.shape), about.placement)):
        whole = whole.narrow(d, start, length)
    return whole.contiguous().to(device)


def _values(tensor: Tensor, seed: int, vocabulary: int) -> Tensor:
    """Random values of a tensor's shape and dtype: integers below ``vocabulary``, or normal numbers."""
    generator = torch.Generator().manual_seed(seed % 2**63)
    if tensor.dtype.is_floating_point:
        return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
    if tensor.dtype == torch.bool:
        return torch.randint(0, 2, tensor.shape, generator=generator).bool()
    return torch.randint(0, vocabulary, tensor.shape, generator=generator, dtype=tensor.dtype)
