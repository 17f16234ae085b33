"""Compiled engines on threads of their own: asked to stop from Python, and left behind when the process ends.

Written for HiGHS through `highspy`, which core does not import: an engine is any object with `startCallback`,
`stopCallback` and `setOptionValue`, and the kinds of callbacks are the caller's.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

__all__ = ["EngineThread", "silent_output"]

# At exit, running engines get this long to look once more.
_EXIT_WAIT_SECONDS = 0.2


class EngineThread(threading.Thread):
    """Runs one engine; may outlive the call that started it, and the interpreter.

    Args:
        engine: The engine; the thread lets go of it when the work is done.
        work: What to run, usually the engine's `run`.
        callbacks: The kinds of callbacks that are switched on when the thread starts, and off before the process
            ends. The engine's callback is to call :meth:`heed` with its reply.

    Attributes:
        asked: Set when the engine is to stop at its next look.
        parked: Set when the interpreter is going away: a callback that sees it never returns.
    """

    def __init__(self, engine: Any, work: Callable[[], object], callbacks: Sequence[Any] = ()) -> None:
        super().__init__(target=work, name="berthage-engine", daemon=True)
        self._engine = engine
        self._callbacks = tuple(callbacks)
        self.asked = threading.Event()
        self.parked = threading.Event()

    def start(self) -> None:
        """Switch the callbacks on, and begin."""
        for kind in self._callbacks:
            self._engine.startCallback(kind)
        super().start()

    def run(self) -> None:
        """Run the engine, then let go of it, so that what it held is freed even if nobody waits any more."""
        try:
            super().run()
        finally:
            del self._engine

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
            engine = self._engine
            for kind in self._callbacks:
                engine.stopCallback(kind)
            engine.setOptionValue("time_limit", math.inf)


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
    workers = [thread for thread in threading.enumerate() if isinstance(thread, EngineThread)]
    deadline = time.monotonic() + _EXIT_WAIT_SECONDS
    for worker in workers:
        worker.asked.set()
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.detach()


atexit.register(_detach_engines)


@contextmanager
def silent_output(owner: ModuleType) -> Iterator[None]:
    """Keep what compiled code prints, a banner say, off the program's standard output.

    File descriptor 1 belongs to the whole process: two threads that swap it at once would leave it closed for good.
    The lock therefore hangs on the module whose code prints, where everything that does this can find it.

    Args:
        owner: That module.
    """
    lock: threading.Lock = vars(owner).setdefault("berthage_standard_output_lock", threading.Lock())
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
