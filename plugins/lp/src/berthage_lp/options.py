"""Options of the solver `lp`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LpOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LpOptions:
    """Options of the solver `lp`.

    Attributes:
        round: Turn a fractional solution into an assignment, by fixing labels step by step and solving again.
        method: ``simplex``, ``ipm`` (interior point), or ``auto``: simplex, and interior point where simplex needs
            unusually many iterations.
        crossover: After interior point, move on to a vertex. Slow on large problems; without it a relaxation with
            several optima can look fractional.
        intervals: How interval budgets are written: ``dense`` rows, ``running`` sums, or ``auto`` by size.
    """

    round: bool = field(default=False, metadata={"help": "Round a fractional solution to an assignment with a gap."})
    method: Literal["auto", "simplex", "ipm"] = field(
        default="auto",
        metadata={"choices": ("auto", "simplex", "ipm"), "help": "Algorithm that solves the relaxation."},
    )
    crossover: bool = field(default=False, metadata={"help": "Find a vertex after interior point."})
    intervals: Literal["auto", "dense", "running"] = field(
        default="auto",
        metadata={"choices": ("auto", "dense", "running"), "help": "How interval budgets are written."},
    )
