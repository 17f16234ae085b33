"""HiGHS as both front doors use it: options, an interruptible run, and status decoding from the engine itself.

PuLP and Pyomo each flatten HiGHS' answer (PuLP says "Optimal" after a time limit, Pyomo raises on an infeasible
model), so status, bound and values are read from the `highspy` object that they leave behind.
"""

from __future__ import annotations

import math
import queue
import time
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from berthage.linear import EngineThread, silent_output
from berthage_ilp.backend import BackendResult, BackendSettings, BackendStatus, Monitor

__all__ = ["configure", "read_result", "reorder", "run", "set_start", "silence", "silent_highs"]

_POLL_SECONDS = 0.05
# HiGHS looks at interrupts between the steps of its search, not inside the LP of the root node: after this long
# its thread is left to end at the next look, and the best answer so far is returned.
_GRACE_SECONDS = 0.6

_STATUS = {
    "kOptimal": BackendStatus.OPTIMAL,
    "kInfeasible": BackendStatus.INFEASIBLE,
    "kModelEmpty": BackendStatus.OPTIMAL,
    "kTimeLimit": BackendStatus.TIME,
    "kSolutionLimit": BackendStatus.NODES,
    "kIterationLimit": BackendStatus.NODES,
    "kInterrupt": BackendStatus.INTERRUPTED,
    "kHighsInterrupt": BackendStatus.INTERRUPTED,
    "kMemoryLimit": BackendStatus.MEMORY,
}


def silent_highs() -> Any:
    """A HiGHS object that writes nothing."""
    with silent_output(highspy):
        highs = highspy.Highs()
    silence(highs)
    return highs


def silence(highs: Any) -> None:
    """Turn HiGHS' own log off."""
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("log_to_console", False)


def configure(highs: Any, settings: BackendSettings) -> None:
    """Set the options that make an answer a proof, the same one at every run.

    One thread always: with more, HiGHS may return another optimum, and the same seed must give the same assignment
    whatever the thread count.
    """
    options: dict[str, Any] = {
        "threads": 1,
        "random_seed": int(settings.seed) % 2**31,
        "mip_rel_gap": float(settings.gap),
        "mip_abs_gap": 0.0,
        "mip_feasibility_tolerance": settings.tolerance,
        "primal_feasibility_tolerance": max(settings.tolerance, 1e-10),
        "presolve": "choose" if settings.presolve else "off",
    }
    if math.isfinite(settings.time_limit):
        options["time_limit"] = max(0.0, float(settings.time_limit))
    if settings.node_limit is not None:
        options["mip_max_nodes"] = int(settings.node_limit)
    for key, value in options.items():
        if highs.setOptionValue(key, value) == highspy.HighsStatus.kError:
            raise ValueError(f"HiGHS refuses option {key} = {value!r}")


def set_start(highs: Any, settings: BackendSettings) -> None:
    """Hand HiGHS a partial start; it completes the other columns itself."""
    if settings.start is not None and len(settings.start[0]):
        columns, values = settings.start
        highs.setSolution(len(columns), columns.astype(np.int32), values.astype(np.float64))


_CALLBACKS = (
    highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution,
    highspy.cb.HighsCallbackType.kCallbackMipInterrupt,
    highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
    highspy.cb.HighsCallbackType.kCallbackIpmInterrupt,
)


def run(highs: Any, monitor: Monitor, order: NDArray[np.int64] | None = None) -> bool:
    """Run HiGHS on its own thread while this one relays progress and keeps the right to stop.

    Args:
        highs: The engine, with its model.
        monitor: What is told of incumbents and bounds, and asked whether to stop.
        order: The engine's column for each column of the program, -1 for none; None when they are the same.

    Returns:
        True when HiGHS finished; False when it had to be abandoned because it did not look at the request to stop.
        An abandoned object must not be touched again.

    Raises:
        StopRequested: When it is time to stop already.
    """
    monitor.checkpoint()
    events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    kinds = highspy.cb.HighsCallbackType
    improving = int(kinds.kCallbackMipImprovingSolution)
    sent = [-math.inf]

    def callback(kind: Any, message: str, out: Any, reply: Any, data: Any) -> None:
        del message, data
        worker.heed(reply)
        if int(kind) == improving:
            events.put(("incumbent", np.array(out.mip_solution, dtype=np.float64)))
            return
        if int(kind) == int(kinds.kCallbackMipInterrupt) and out.mip_dual_bound > sent[0]:
            sent[0] = out.mip_dual_bound
            events.put(("bound", float(out.mip_dual_bound)))

    highs.setCallback(callback, None)

    def work() -> None:
        try:
            highs.run()
            events.put(("done", None))
        except BaseException as error:  # handed to the waiting thread
            events.put(("error", error))

    worker = EngineThread(highs, work, _CALLBACKS)
    worker.start()
    deadline = math.inf
    try:
        while True:
            try:
                kind, value = events.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                kind, value = "", None
            if kind == "done":
                worker.join()
                return True
            if kind == "error":
                worker.join()
                raise value
            if kind == "incumbent":
                monitor.incumbent(value if order is None else reorder(value, order))
            elif kind == "bound":
                monitor.bound(value)
            if not worker.asked.is_set() and monitor.stop_reason() is not None:
                worker.asked.set()
                deadline = time.monotonic() + _GRACE_SECONDS
            if time.monotonic() > deadline:
                break
    finally:
        worker.asked.set()
    return False


def reorder(values: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Values by the program's columns from values by the engine's; 0 for a column the engine does not have."""
    return np.where(order >= 0, values[np.maximum(order, 0)], 0.0)


def read_result(highs: Any, *, is_mip: bool) -> BackendResult:
    """Decode status, values and dual bound of a finished HiGHS run."""
    name = highs.getModelStatus().name
    status = _STATUS.get(name, BackendStatus.ERROR)
    info = highs.getInfo()
    solution = highs.getSolution()
    # 2 is kSolutionStatusFeasible; values stay readable after "infeasible" and mean nothing then.
    feasible = int(info.primal_solution_status) == 2 and bool(solution.value_valid)
    values = (
        np.array(solution.col_value, dtype=np.float64) if feasible and status is not BackendStatus.INFEASIBLE else None
    )
    if name == "kModelEmpty":
        values = np.zeros(highs.getNumCol(), dtype=np.float64)
    bound = -math.inf
    if status is BackendStatus.INFEASIBLE:
        bound = math.inf
    elif name == "kModelEmpty":
        bound = float(highs.getObjectiveValue())
    elif is_mip and int(info.mip_node_count) >= 0:
        bound = float(info.mip_dual_bound)
    elif status is BackendStatus.OPTIMAL:
        bound = float(info.objective_function_value)
    stats: dict[str, int | float | str | bool] = {
        "engine": f"HiGHS {highs.version()}",
        "nodes": max(int(info.mip_node_count), 0),
        "lp_iterations": max(int(info.simplex_iteration_count), 0),
    }
    return BackendResult(status, values, bound if not math.isnan(bound) else -math.inf, name.removeprefix("k"), stats)
