"""`run_plan` and `compare_plans`: what ``berthage run`` does on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import torch.distributed as dist

from berthage_torch.applying.module import apply_plan
from berthage_torch.plans.plan import Plan
from berthage_torch.plans.settings import policy_of
from berthage_torch.policy import MixedPrecision
from berthage_torch.searching.memory import memory_of

from .comparing import Distance, Numbers, distance, numbers_of, numbers_on_one, tolerances
from .data import Sample
from .ranks import Ranks
from .training import PHASES, Measured, train

__all__ = ["Compared", "Spread", "Trained", "as_right", "compare_plans", "run_plan", "shared_plan"]


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the ranks."""

    least: float
    mean: float
    most: float


@dataclass(frozen=True, eq=False)
class Trained:
    """A plan that was trained with, predicted and measured.

    Attributes:
        predicted: Microseconds of a step, of its forward and of its backward part; of the device and fabric that the
            cost model is of, whatever it ran on.
        measured: Microseconds by phase and of the ``step``, over the ranks.
        predicted_bytes: Of parameters, gradients and optimizer state on the rank with the largest shards, and the peak
            of all that a step holds.
        measured_bytes: Likewise over the ranks; ``peak`` is what the process or the device had.
        losses: Of every step.
    """

    predicted: Mapping[str, float]
    measured: Mapping[str, Spread]
    predicted_bytes: Mapping[str, int]
    measured_bytes: Mapping[str, Spread]
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A plan beside one device and beside the first plan.

    Attributes:
        solver: Who found it.
        objective: Microseconds.
        placement_hash: Of its placements.
        to_one: How far its numbers are from those of one device.
        to_first: How far from those of the first plan.
        rounding: How far one device is from itself when it computes without the policy, in the parameters' own dtype:
            what the narrow dtype does to this model, whoever computes.
    """

    solver: str
    objective: float
    placement_hash: str
    to_one: Distance
    to_first: Distance
    rounding: Distance


def shared_plan(ranks: Ranks, find: Callable[[], Plan]) -> Plan:
    """Find a plan on rank 0; every rank has the same.

    Raises:
        RankError: It failed there; rank 0 raises its own error.
    """
    return Plan.from_json(ranks.once(lambda: find().to_json().encode()).decode())


def run_plan(plan: Plan, sample: Sample, ranks: Ranks, *, steps: int, warmup: int = 2, rate: float = 1e-3) -> Trained:
    """Apply a plan and train with it. Every rank calls it alike, and has the result.

    Args:
        plan: The plan.
        sample: Model and batch.
        ranks: The ranks.
        steps: How many steps are measured.
        warmup: How many run before them.
        rate: Learning rate of AdamW.

    Raises:
        ApplyError: The plan is not of this model or mesh.
        InvalidProblemError: A loss cannot be computed from the outputs as they are placed.
    """
    parallel = apply_plan(plan, sample.model, sample.args, sample.kwargs)
    measured = train(parallel, sample, ranks.device, steps=steps, warmup=warmup, rate=rate)
    told = [Measured(**{**one, "losses": tuple(one["losses"])}) for one in ranks.gather(asdict(measured))]
    timeline = memory_of(plan, parallel.traced)
    rows = plan.costs()
    predicted = {name: sum(row.us for row in rows if row.phase == name) for name in ("forward", "backward")}
    held = {name: timeline.peak_of(name) for name in ("parameters", "gradients", "optimizer")}
    return Trained(
        {**predicted, "step": plan.objective},
        {name: _spread([one.microseconds[name] for one in told]) for name in (*PHASES, "step")},
        {**held, "peak": timeline.peak},
        {
            "parameters": _spread([one.parameter_bytes for one in told]),
            "gradients": _spread([one.gradient_bytes for one in told]),
            "optimizer": _spread([one.optimizer_bytes for one in told]),
            "peak": _spread([one.peak_bytes for one in told]),
        },
        measured.losses,
    )


def compare_plans(plans: Sequence[Plan], sample: Sample, ranks: Ranks) -> list[Compared]:
    """Run one step by each plan and on one device. Every rank calls it alike; rank 0 has the result, others nothing.

    Args:
        plans: Plans of the same model and mesh.
        sample: Model and batch.
        ranks: The ranks.

    Raises:
        ApplyError: A plan is not of this model or mesh.
    """
    found: list[Numbers] = []
    for plan in plans:
        parallel = apply_plan(plan, sample.model, sample.args, sample.kwargs)
        found.append(numbers_of(parallel, sample, ranks.device))
    dist.barrier()
    if not ranks.first:
        return []
    policy = policy_of(plans[0].settings.policy)
    one = numbers_on_one(sample, policy, ranks.device)
    rounding = distance(one, numbers_on_one(sample, None, ranks.device)) if policy else Distance(0.0, 0.0, "")
    return [
        Compared(
            plan.solver,
            plan.objective,
            plan.placement_hash(),
            distance(numbers, one),
            distance(numbers, found[0]),
            rounding,
        )
        for plan, numbers in zip(plans, found, strict=True)
    ]


def as_right(compared: Compared, policy: MixedPrecision | None) -> bool:
    """Whether a plan's numbers are those of one device, as far as the precision lets one tell.

    Within `tolerances`, or not further off than rounding alone moves one device: twice, for both round. A model with
    kinks (a ReLU near zero) can lose per cents of a gradient to rounding.
    """
    outputs, gradients = tolerances(policy)
    return compared.to_one.output <= max(outputs, 2.0 * compared.rounding.output) and compared.to_one.gradient <= max(
        gradients, 2.0 * compared.rounding.gradient
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(min(values), sum(values) / len(values), max(values))
