"""HiGHS as both front doors use it: options, an interruptible run, and status decoding from the engine itself.

PuLP and Pyomo each flatten HiGHS' answer (PuLP says "Optimal" after a time limit, Pyomo raises on an infeasible
model), so status, bound and values are read from the `highspy` object that they leave behind.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from berthage_ilp.backend import BackendResult, BackendSettings, BackendStatus, Monitor

__all__ = ["configure", "read_result", "reorder", "run", "set_start", "silence", "silent_highs"]

_POLL_SECONDS = 0.05
# HiGHS looks at interrupts between the steps of its search, not inside the LP of the root node: after this long
# its thread is left to end at the next look, and the best answer so far is returned.
_GRACE_SECONDS = 0.6
# At exit, running engines get this long to look once more.
_EXIT_WAIT_SECONDS = 0.2

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
    with _no_banner():
        highs = highspy.Highs()
    silence(highs)
    return highs


def silence(highs: Any) -> None:
    """Turn HiGHS' own log off."""
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("log_to_console", False)


@contextmanager
def _no_banner() -> Iterator[None]:
    """Keep HiGHS' banner, printed when the first object is made, off the program's standard output.

    File descriptor 1 belongs to the whole process: two threads that swap it at once would leave it closed for good.
    The lock therefore hangs on the `highspy` module, where everything that does this can find it.
    """
    lock: threading.Lock = vars(highspy).setdefault("berthage_standard_output_lock", threading.Lock())
    with lock:
        try:
            saved = os.dup(1)
        except OSError:  # there is no standard output
            yield
            return
        try:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                yield
        finally:
            os.dup2(saved, 1)
            os.close(saved)


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


class _EngineThread(threading.Thread):
    """Runs one engine; may outlive the call that started it, and the interpreter."""

    def __init__(self, highs: Any, work: Callable[[], object]) -> None:
        super().__init__(target=work, name="berthage-highs", daemon=True)
        self.highs = highs
        self.asked = threading.Event()
        """Set when the engine is to stop at its next look."""
        self.parked = threading.Event()
        """Set when the interpreter is going away: a callback that sees it never returns."""

    def run(self) -> None:
        """Run the engine, then let go of it, so that what it held is freed even if nobody waits any more."""
        try:
            super().run()
        finally:
            del self.highs

    def heed(self, reply: Any) -> None:
        """From a callback: pass on a request to stop."""
        if self.parked.is_set():
            threading.Event().wait()
        if reply is not None and self.asked.is_set():
            reply.user_interrupt = True

    def detach(self) -> None:
        """Cut a run that does not stop off from Python, so that the process can end under it.

        A thread that asks for the interpreter while that is being taken down is killed in the middle of the engine,
        which aborts the process. So no callback is made any more, and the engine's own time limit, at which it would
        return, is lifted; one that returns all the same is held (see `_hold_instead_of_aborting`).
        """
        self.parked.set()
        _hold_instead_of_aborting()
        with suppress(AttributeError):  # it has ended meanwhile
            highs = self.highs
            for kind in _CALLBACKS:
                highs.stopCallback(kind)
            highs.setOptionValue("time_limit", math.inf)


def _hold_instead_of_aborting() -> None:
    """Let a C++ thread that cannot go on wait for the end of the process, where it would abort the process.

    Up to Python 3.13 a thread that comes back to an interpreter being taken down is unwound through C++ code that
    allows no unwinding, and the C++ runtime calls its handler for that: it becomes POSIX ``pause``, at exit only.
    """
    for name in ("libstdc++.so.6", "libc++.1.dylib"):
        with suppress(OSError, AttributeError):
            pause = ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p)
            ctypes.CDLL(name)["_ZSt13set_terminatePFvvE"](pause)
            return


def _detach_engines() -> None:
    """At exit: give engines a moment to end by themselves, then leave them behind."""
    workers = [thread for thread in threading.enumerate() if isinstance(thread, _EngineThread)]
    deadline = time.monotonic() + _EXIT_WAIT_SECONDS
    for worker in workers:
        worker.asked.set()
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.detach()


atexit.register(_detach_engines)


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
    for wanted in _CALLBACKS:
        highs.startCallback(wanted)

    def work() -> None:
        try:
            highs.run()
            events.put(("done", None))
        except BaseException as error:  # handed to the waiting thread
            events.put(("error", error))

    worker = _EngineThread(highs, work)
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
