"""A few steps of training as a plan says: what each phase takes, and what a rank holds."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from berthage import InvalidProblemError
from berthage_nccl import placements as codes
from berthage_torch.applying.lowering import LocalTensor
from berthage_torch.applying.module import ParallelModule
from berthage_torch.usage import peak_rss_bytes

from .data import Sample, part_of

__all__ = ["PHASES", "Measured", "train"]

PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a rank measured.

    Attributes:
        microseconds: By phase and as ``step``, the median over the measured steps.
        losses: The loss of every step, warm-up included: equal on all ranks.
        parameter_bytes: What the rank holds of parameters.
        gradient_bytes: What it holds of gradients after a backward pass.
        optimizer_bytes: What the optimizer holds.
        peak_bytes: Most memory at once: of the device's allocator on a GPU, of the whole process on a CPU.
    """

    microseconds: dict[str, float]
    losses: tuple[float, ...]
    parameter_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    peak_bytes: int


def train(
    parallel: ParallelModule, sample: Sample, device: torch.device, *, steps: int, warmup: int, rate: float
) -> Measured:
    """Train with AdamW towards random targets, by the mean of squared differences.

    Args:
        parallel: The module that a plan was applied to.
        sample: The whole batch; every rank takes its part.
        device: Where this rank computes.
        steps: How many steps are measured.
        warmup: How many run before them.
        rate: Learning rate.

    Raises:
        InvalidProblemError: An output is a pending sum on the plan's mesh, so no rank could compare it with a target.
    """
    lowered = parallel.lowered
    whole = zip(sample.tensors(), lowered.inputs, strict=True)
    args, kwargs = sample.with_tensors([part_of(parallel, tensor, one, device) for tensor, one in whole])
    outputs = [one for k, one in enumerate(lowered.outputs) if k in lowered.tangents]
    for one in outputs:
        if any(codes.is_partial(code) for code in one.placement):
            raise InvalidProblemError(
                f"{one.name} is placed {codes.format(one.placement)}: a training loss needs its values. Demand another "
                "placement, --output PLACEMENT"
            )
    wanted = [
        part_of(parallel, whole, one, device) for whole, one in zip(sample.targets(outputs), outputs, strict=True)
    ]
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=rate)
    taken: dict[str, list[float]] = {name: [] for name in (*PHASES, "step")}
    losses = []
    gradient_bytes = 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    for number in range(warmup + steps):
        optimizer.zero_grad()
        clock = _Clock(device)
        results = [t for t in _tensors(parallel(*args, **kwargs)) if t.requires_grad]
        loss = torch.stack([_loss(t, w, one) for t, w, one in zip(results, wanted, outputs, strict=True)]).sum()
        clock.lap("forward")
        loss.backward()  # type: ignore[no-untyped-call]
        clock.lap("backward")
        gradient_bytes = _bytes(p.grad for p in parallel.parameters() if p.grad is not None)
        optimizer.step()
        clock.lap("optimizer")
        losses.append(_over_ranks(parallel, list(zip(results, wanted, outputs, strict=True))))
        if number >= warmup:
            for name, microseconds in clock.microseconds().items():
                taken[name].append(microseconds)
    return Measured(
        {name: statistics.median(values) for name, values in taken.items() if values},
        tuple(losses),
        _bytes(parallel.parameters()),
        gradient_bytes,
        _bytes(value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)),
        _peak(device),
    )


class _Clock:
    """Wall time by phase; on a GPU all that was started before a phase ends is waited for."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._laps: dict[str, float] = {}
        self._since = self._now()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def lap(self, name: str) -> None:
        now = self._now()
        self._laps[name] = (now - self._since) * 1e6
        self._since = now

    def microseconds(self) -> dict[str, float]:
        return {**self._laps, "step": math.fsum(self._laps.values())}


def _tensors(result: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _loss(output: torch.Tensor, wanted: torch.Tensor, about: LocalTensor) -> torch.Tensor:
    """The rank's share of the mean over the whole output."""
    return (output.float() - wanted.float()).square().sum() / math.prod(about.whole)


def _over_ranks(parallel: ParallelModule, results: Sequence[tuple[torch.Tensor, torch.Tensor, LocalTensor]]) -> float:
    """The whole loss. Ranks that hold the same part count once."""
    total = torch.zeros((), dtype=torch.float32, device=results[0][0].device)
    with torch.no_grad():
        for output, wanted, about in results:
            sizes = zip(about.placement, parallel.device_mesh.shape, strict=True)
            copies = math.prod(size for code, size in sizes if not codes.is_shard(code))
            total += _loss(output, wanted, about) / copies
        dist.all_reduce(total)
    return float(total)


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes that this rank holds of tensors, shards and whole ones."""
    held = {}
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        held[local.untyped_storage().data_ptr()] = local.untyped_storage().nbytes()
    return sum(held.values())


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return peak_rss_bytes() or 0
