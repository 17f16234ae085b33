"""The clock of a solve and the line between a solver and core while it runs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.evaluation import Evaluation, evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.solving.params import SolveParams
from berthage.solving.results import Limit, Timing

__all__ = ["Clock", "RunContext", "SolveContext"]


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class Clock:
    """Wall and CPU time by phase, the time limit, and whether the user interrupted. One a call of `solve`.

    Args:
        limit: Wall seconds, or None.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.start = time.perf_counter()
        self.limit = limit
        self.interrupted = False
        self.finishing = False  # the answer is being put together: an interrupt must wait for it
        self.last_poll = -math.inf
        self.timings: dict[str, Timing] = {}
        self._start_cpu = cpu_seconds()
        self._uncharged = 0.0
        self._uncharged_depth = 0

    def elapsed(self) -> float:
        """Wall seconds since the start, uncharged phases included."""
        return time.perf_counter() - self.start

    def remaining(self) -> float:
        """Wall seconds left of the limit; inf without one. Never negative."""
        if self.limit is None:
            return math.inf
        return max(0.0, self.limit + self._uncharged - self.elapsed())

    def stop_reason(self) -> Limit | None:
        """Why to stop now, or None."""
        self.last_poll = time.perf_counter()
        if self.interrupted:
            return Limit.INTERRUPTED
        return Limit.TIME if self.remaining() <= 0.0 else None

    def polled_lately(self, seconds: float = 1.0) -> bool:
        """Whether the solver asked `stop_reason` within the last seconds."""
        return time.perf_counter() - self.last_poll < seconds

    @contextmanager
    def phase(self, name: str, *, charged: bool = True) -> Iterator[None]:
        """Time a phase; phases of one name add up. Time in an uncharged one does not count against the limit."""
        wall, cpu = time.perf_counter(), cpu_seconds()
        self._uncharged_depth += not charged
        try:
            yield
        finally:
            spent = Timing(cpu_seconds() - cpu, time.perf_counter() - wall)
            self._uncharged_depth -= not charged
            if not charged and not self._uncharged_depth:
                self._uncharged += spent.wall
            self.add_timing(name, spent)

    def add_timing(self, name: str, spent: Timing) -> None:
        """Add seconds to a phase."""
        before = self.timings.get(name, Timing(0.0, 0.0))
        self.timings[name] = Timing(before.cpu + spent.cpu, before.wall + spent.wall)

    def total(self) -> Timing:
        """CPU and wall seconds since the start."""
        return Timing(cpu_seconds() - self._start_cpu, self.elapsed())


class RunContext:
    """What a reduction may ask core for: time left, whether to stop, timed phases."""

    def __init__(self, params: SolveParams, clock: Clock) -> None:
        self.params = params
        self._clock = clock

    def remaining(self) -> float:
        """Wall seconds left of the time limit; inf without one."""
        return self._clock.remaining()

    def stop_reason(self) -> Limit | None:
        """`Limit.TIME` or `Limit.INTERRUPTED` when it is time to stop, else None. Poll it often."""
        return self._clock.stop_reason()

    @contextmanager
    def phase(self, name: str, charged: bool = True) -> Iterator[None]:
        """Time a phase of the work under a name that appears in the result's timings.

        Args:
            name: For instance ``"build"`` or ``"compile"``.
            charged: False for JIT compilation: it is reported but not charged to the time limit.
        """
        with self._clock.phase(name, charged=charged):
            yield


class SolveContext(RunContext):
    """What a solver may ask and tell while it runs. Core evaluates every incumbent itself.

    Attributes:
        params: Parameters of the solve, as they apply to the problem the solver was given.
        best_objective: Least objective of a feasible incumbent so far, or None.
        best_bound: Greatest lower bound told so far; -inf when none was.
    """

    def __init__(
        self,
        problem: PlacementProblem,
        params: SolveParams,
        clock: Clock | None = None,
        notify: Callable[[str, SolveContext], None] | None = None,
    ) -> None:
        super().__init__(params, clock or Clock(params.time_limit))
        self._problem = problem
        self._notify = notify
        self.best_objective: int | float | None = None
        self.best_bound: float = -math.inf
        self._best: Int32Array | None = None
        self.messages: list[str] = []

    @property
    def best_assignment(self) -> Int32Array | None:
        """The best feasible incumbent so far, int32[n], or None."""
        return self._best

    def incumbent(self, assignment: npt.ArrayLike) -> int | float | None:
        """Offer an assignment; it is evaluated, and kept when it is feasible and better than the best.

        Args:
            assignment: int[n].

        Returns:
            Its objective, or None when it is infeasible or above the cutoff.
        """
        try:
            checked = self._problem.check_assignment(assignment)
        except InvalidProblemError:
            return None
        return self.offer(checked, evaluate(self._problem, checked))

    def offer(self, assignment: Int32Array, evaluation: Evaluation) -> int | float | None:
        """As `incumbent`, for an assignment that was evaluated already."""
        cutoff = self.params.cutoff
        if not evaluation.feasible or (cutoff is not None and evaluation.objective > cutoff):
            return None
        if self.best_objective is None or evaluation.objective < self.best_objective:
            self.best_objective = evaluation.objective
            self._best = assignment.copy()
            if self._notify:
                self._notify("incumbent", self)
        return evaluation.objective

    def bound(self, value: float) -> None:
        """Tell a valid lower bound on the objective of every feasible assignment."""
        if value > self.best_bound:  # also false for NaN
            self.best_bound = float(value)
            if self._notify:
                self._notify("bound", self)

    def log(self, message: str) -> None:
        """Keep a sentence for the result's detail."""
        self.messages.append(message)
