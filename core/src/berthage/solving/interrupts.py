"""Ctrl-C during a solve."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from berthage.solving.context import Clock

__all__ = ["interruptible"]


@contextmanager
def interruptible(clock: Clock) -> Iterator[None]:
    """First Ctrl-C asks the solver to stop; a second, or one that the solver would not notice, raises.

    Signals reach the main thread only; elsewhere nothing is installed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(signum: int, frame: object) -> None:
        soon = clock.finishing or (not clock.interrupted and clock.polled_lately())
        clock.interrupted = True
        if not soon:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # the program has its own way with Ctrl-C: leave it alone
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
