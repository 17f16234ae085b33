"""What a seed was, what was searched near it, and what that proves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from berthage import SolveResult
from berthage.seeding import Solved

__all__ = ["SeedReport", "seed_document"]


@dataclass(frozen=True, eq=False)
class SeedReport:
    """What a seed was and what was searched near it.

    Attributes:
        mode: As in `Seeding`.
        radius: The greatest distance that was searched; None when everything was.
        asked: The radius that was asked for; `radius` is greater where nothing feasible was that near.
        objective: Predicted time of the seed itself, µs; None when it breaks a demand or some node has no witness.
        bound: A lower bound on the unrestricted problem, µs; -inf when none is known.
        labels: Labels of the problem that was solved.
        combinations: How many all combinations of single-dimension strategies would be, before those are left out
            whose shards would not fit.
        restored: Names of what got a witness back that the enumeration does not offer.
        moved: Names of what the single dimensions place as it cannot be on all together; see `MeshSeed`.
        empty: Names of what keeps everything because a demand excludes everything that lies where its seed is.
        dimensions: The solved problem of each mesh dimension.
        ball: The solver's result within the radius; None when everything was searched.
    """

    mode: str
    radius: int | None
    asked: int
    objective: float | None
    bound: float
    labels: int
    combinations: int
    restored: tuple[str, ...]
    moved: tuple[str, ...]
    empty: tuple[str, ...]
    dimensions: Mapping[str, Solved] = field(default_factory=lambda: MappingProxyType({}))
    ball: SolveResult | None = None

    @property
    def lost_at_most(self) -> float:
        """The most that the restriction can have cost, µs: the best within it, less a bound on everything."""
        if self.ball is None or self.ball.objective is None:
            return 0.0 if self.ball is None else math.inf
        return max(0.0, float(self.ball.objective) - self.bound)

    @property
    def coverage(self) -> float:
        """Labels as a share of all combinations."""
        return self.labels / max(1, self.combinations)


def seed_document(report: SeedReport) -> dict[str, Any]:
    """A report as JSON has it: infinities are null."""
    ball = report.ball
    return {
        "mode": report.mode,
        "radius": report.radius,
        "asked_radius": report.asked,
        "objective": report.objective,
        "bound": _finite(report.bound),
        "lost_at_most": _finite(report.lost_at_most),
        "labels": report.labels,
        "combinations": report.combinations,
        "coverage": report.coverage,
        "restored": list(report.restored),
        "moved": len(report.moved),
        "empty": list(report.empty),
        "dimensions": {
            name: {"objective": solved.objective, "bound": _finite(solved.bound), "reason": solved.reason}
            for name, solved in report.dimensions.items()
        },
        "ball": None
        if ball is None
        else {
            "reason": ball.termination.reason.value,
            "limit": None if ball.termination.limit is None else ball.termination.limit.value,
            "objective": ball.objective,
            "bound": _finite(ball.bound),
            "gap": _finite(ball.relative_gap),
        },
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
