"""What a MILP engine is asked and what it answers: settings, a monitor that relays progress, a decoded result."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from berthage import InvalidProblemError, Limit

if TYPE_CHECKING:
    from berthage import SolveContext
    from berthage.linear import LinearProgram

__all__ = ["Backend", "BackendResult", "BackendSettings", "BackendStatus", "Monitor", "StopRequested"]

Float64Array = NDArray[np.float64]
Int64Array = NDArray[np.int64]


class BackendStatus(enum.Enum):
    """Why an engine stopped, decoded from its own words."""

    OPTIMAL = "optimal"
    """The engine claims an optimum within the gap it was given."""
    INFEASIBLE = "infeasible"
    """The engine claims that no solution exists."""
    TIME = "time"
    """The time limit was reached."""
    NODES = "nodes"
    """The node limit was reached."""
    INTERRUPTED = "interrupted"
    """It was asked to stop."""
    MEMORY = "memory"
    """It ran out of memory."""
    ERROR = "error"
    """It failed; the detail says how."""


@dataclass(frozen=True, slots=True)
class BackendResult:
    """An engine's decoded answer.

    Attributes:
        status: Why it stopped.
        values: float64[c] column values of its best solution, or None.
        bound: Lower bound on the program's objective (offset included); -inf when unknown.
        detail: The engine's own words, for messages.
        stats: Counters such as nodes and LP iterations.
    """

    status: BackendStatus
    values: Float64Array | None
    bound: float
    detail: str = ""
    stats: Mapping[str, int | float | str | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """How an engine is to run.

    Attributes:
        time_limit: Seconds left, inf without limit.
        gap: Relative gap at which it may stop; 0 asks for a proof.
        node_limit: Branch-and-bound nodes, or None.
        seed: Random seed.
        tolerance: Feasibility and integrality tolerance.
        presolve: Whether the engine's own presolve may run.
        start: (columns, values) of a partial or whole starting solution, or None.
    """

    time_limit: float
    gap: float = 0.0
    node_limit: int | None = None
    seed: int = 0
    tolerance: float = 1e-9
    presolve: bool = True
    start: tuple[Int64Array, Float64Array] | None = None


class StopRequested(Exception):
    """Raised while a model is being built, when it is time to stop."""


class Monitor:
    """Relays an engine's progress to core and core's wish to stop to the engine. Used from one thread."""

    def __init__(
        self,
        context: SolveContext,
        decode: Callable[[Float64Array], NDArray[Any]],
        valid_bound: Callable[[float], float],
        done: Callable[[], bool],
    ) -> None:
        """Relay to `context`.

        Args:
            context: Core's side of the solve.
            decode: Turns column values into an assignment.
            valid_bound: Turns an engine's bound into one that holds for the problem.
            done: Whether what is known already settles the question, so that the engine may stop.
        """
        self._context = context
        self._decode = decode
        self._valid_bound = valid_bound
        self._done = done

    def stop_reason(self) -> Limit | None:
        """Why the engine should stop now, or None."""
        reason = self._context.stop_reason()
        return Limit.OTHER if reason is None and self._done() else reason

    def checkpoint(self) -> None:
        """Give up building a model when it is time to stop.

        Raises:
            StopRequested: When there is a reason to stop.
        """
        if self.stop_reason() is not None:
            raise StopRequested

    def incumbent(self, values: Float64Array) -> None:
        """Report a solution of the program; core evaluates it and keeps it when it is feasible and best."""
        with suppress(InvalidProblemError):  # costs more than a float can hold: no incumbent, but no failure either
            self._context.incumbent(self._decode(values))

    def bound(self, value: float) -> None:
        """Report an engine's dual bound."""
        if np.isfinite(value):
            self._context.bound(self._valid_bound(value))


class Backend(Protocol):
    """An engine that minimises a `LinearProgram`."""

    @property
    def name(self) -> str:
        """Engine and version, for statistics."""
        ...

    @property
    def trusts_text(self) -> bool:
        """Whether the program goes through rounded text, so that "infeasible" wants a second opinion."""
        ...

    def solve(self, program: LinearProgram, settings: BackendSettings, monitor: Monitor) -> BackendResult:
        """Minimise the program; an infeasible model or a limit is a status, never an exception.

        Raises:
            StopRequested: When it was time to stop before the engine had its model.
        """
        ...
