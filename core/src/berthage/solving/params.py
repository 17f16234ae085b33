"""What a caller may ask of any solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage.errors import OptionError

__all__ = ["Progress", "SolveParams"]


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a solve, given to observers.

    Attributes:
        event: ``"solve_started"``, ``"incumbent"``, ``"bound"`` or ``"solve_finished"``.
        time: Wall seconds since the start.
        objective: Best objective so far, or None.
        bound: Best lower bound so far; -inf when nothing is known.
        solver: Name of the solver.
        problem: Name of the problem.
    """

    event: str
    time: float
    objective: int | float | None
    bound: float
    solver: str
    problem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SolveParams:
    """Parameters common to all solvers; what only one solver knows goes into its own options.

    Attributes:
        time_limit: Wall seconds, or None. JIT compilation is not charged to it.
        iteration_limit: Iterations of whatever the solver iterates (sweeps, nodes), or None.
        gap: Relative gap at which the solver may stop and call its assignment optimal.
        cutoff: Only assignments that cost at most this count; None for all.
        seed: Seed of every random choice.
        threads: Threads the solver may use; the answer does not depend on it.
        warm_start: An assignment to start from, int[n], or None. It need not be feasible.
        observer: Called with a `Progress` at every incumbent and bound.
    """

    time_limit: float | None = None
    iteration_limit: int | None = None
    gap: float = 0.0
    cutoff: int | float | None = None
    seed: int = 0
    threads: int = 1
    warm_start: npt.ArrayLike | None = None
    observer: Callable[[Progress], None] | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        self._check("time_limit", self.time_limit, 0.0)
        self._check("iteration_limit", self.iteration_limit, 0, whole=True)
        self._check("gap", self.gap, 0.0)
        self._check("threads", self.threads, 1, whole=True)
        self._check("seed", self.seed, 0, whole=True)
        self._check("cutoff", self.cutoff, -math.inf)

    @staticmethod
    def _check(name: str, value: object, least: float, *, whole: bool = False) -> None:
        if value is None:
            return
        kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
        if not isinstance(value, kinds) or isinstance(value, bool) or not value >= least:  # also refuses NaN
            raise OptionError(f"{name} must be a {'whole ' if whole else ''}number of at least {least}, got {value!r}")
