"""HiGHS in memory: one model, runs that can be interrupted, arrays out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from berthage.linear import EngineThread, LinearProgram, silent_output

__all__ = ["Engine", "Run", "Status"]

Floats = NDArray[np.float64]

_POLL_SECONDS = 0.02
# HiGHS looks at requests to stop between iterations, which on large models can take seconds each. After this long
# its thread is left to end by itself, and the engine is not touched again.
_GRACE_SECONDS = 0.5


class Status(Enum):
    """How a run ended."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"
    """The caller asked to stop (time or interruption)."""
    ITERATIONS = "iterations"
    """The iteration limit."""
    FAILED = "failed"


_STATUS = {
    "kOptimal": Status.OPTIMAL,
    "kModelEmpty": Status.OPTIMAL,
    "kInfeasible": Status.INFEASIBLE,
    "kTimeLimit": Status.STOPPED,
    "kInterrupt": Status.STOPPED,
    "kHighsInterrupt": Status.STOPPED,
    "kIterationLimit": Status.ITERATIONS,
}


@dataclass(frozen=True, slots=True)
class Run:
    """What a run left.

    Attributes:
        status: How it ended.
        x: ``float64[c]`` column values, or None.
        row_dual: ``float64[r]`` row duals in the costs of the program, or None.
        iterations: Simplex or interior-point iterations.
        engine_status: HiGHS' own word for the end.
    """

    status: Status
    x: Floats | None
    row_dual: Floats | None
    iterations: int
    engine_status: str


_CALLBACKS = (
    highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
    highspy.cb.HighsCallbackType.kCallbackIpmInterrupt,
)


class Engine:
    """A linear program loaded into HiGHS; bounds of columns and rows can be changed between runs.

    Args:
        program: The program; integrality is left out.
        factor: What costs are multiplied with inside HiGHS.
        seed: Seed of HiGHS.
    """

    def __init__(self, program: LinearProgram, factor: float = 1.0, seed: int = 0) -> None:
        self._factor = factor
        self._columns, self._rows = program.num_cols, program.num_rows
        self.abandoned = False
        with silent_output(highspy):
            self._highs: Any = highspy.Highs()
        # One thread always: the answer must not depend on the thread count.
        self.options(output_flag=False, log_to_console=False, threads=1, random_seed=int(seed) % 2**31)
        # Label and pair columns are at most 1 by their rows; a column bound would only add degeneracy.
        upper = np.where((program.block >= 0) & (program.upper > 0.0), np.inf, program.upper)
        status = self._highs.passModel(
            program.num_cols,
            program.num_rows,
            program.num_nonzeros,
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            program.cost * factor,
            program.lower,
            upper,
            program.row_lower,
            program.row_upper,
            program.row_ptr[:-1].astype(np.int32),
            program.col_index.astype(np.int32),
            program.value,
            np.zeros(program.num_cols, dtype=np.int32),
        )
        if status == highspy.HighsStatus.kError:
            raise RuntimeError("HiGHS refuses the model")

    def options(self, **values: Any) -> None:
        """Set options of HiGHS."""
        for name, value in values.items():
            if self._highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
                raise RuntimeError(f"HiGHS refuses the option {name} = {value!r}")

    def set_column_bounds(self, columns: NDArray[np.int64], lower: Floats, upper: Floats) -> None:
        """Change the bounds of some columns."""
        self._highs.changeColsBounds(len(columns), columns.astype(np.int32), lower, upper)

    def set_row_bounds(self, rows: NDArray[np.int64], lower: Floats, upper: Floats) -> None:
        """Change the bounds of some rows."""
        self._highs.changeRowsBounds(len(rows), rows.astype(np.int32), lower, upper)

    def reset(self) -> None:
        """Forget basis and solution, so that the next run starts with presolve."""
        self._highs.clearSolver()

    def run(self, stop: Callable[[], bool], remaining: float = np.inf) -> Run:
        """Solve, polling `stop`.

        HiGHS works on a thread of its own, so that a limit is kept and an interruption noticed even inside its long
        steps; a run that does not stop in time is abandoned, and the engine with it.

        Args:
            stop: Whether to stop now; polled from the calling thread.
            remaining: Seconds left, or inf.
        """
        if self.abandoned:
            raise RuntimeError("this engine was abandoned")
        if stop():
            return Run(Status.STOPPED, None, None, 0, "not started")
        self.options(time_limit=float(min(remaining, 1e10)) + self._highs.getRunTime())
        worker = EngineThread(self._highs, self._highs.run, _CALLBACKS)

        def callback(kind: Any, message: str, out: Any, reply: Any, data: Any) -> None:
            del kind, message, out, data
            worker.heed(reply)

        self._highs.setCallback(callback, None)
        worker.start()
        deadline = None
        try:
            while worker.is_alive():
                worker.join(_POLL_SECONDS)
                if deadline is None and stop():
                    worker.asked.set()
                    deadline = time.monotonic() + _GRACE_SECONDS
                if deadline is not None and time.monotonic() > deadline and worker.is_alive():
                    return Run(Status.STOPPED, None, None, 0, "abandoned")
        finally:  # also when the caller's `stop`, or Ctrl-C, raises
            worker.asked.set()
            self.abandoned = worker.is_alive()
        return self._read()

    def _read(self) -> Run:
        name = self._highs.getModelStatus().name
        status = _STATUS.get(name, Status.FAILED)
        info = self._highs.getInfo()
        iterations = max(0, info.simplex_iteration_count) + max(0, info.ipm_iteration_count)
        solution = self._highs.getSolution()
        x = np.array(solution.col_value, dtype=np.float64)
        dual = np.array(solution.row_dual, dtype=np.float64)
        return Run(
            status,
            x if len(x) == self._columns and solution.value_valid else None,
            # Any duals give a valid bound, so those of an unfinished run are worth having too.
            dual / self._factor if len(dual) == self._rows and len(dual) else None,
            iterations,
            name,
        )

    def ray(self) -> Floats | None:
        """``float64[r]`` the dual ray that proves infeasibility, after a simplex run without presolve; or None."""
        _, exists, values = self._highs.getDualRay()
        return np.array(values, dtype=np.float64) if exists else None
