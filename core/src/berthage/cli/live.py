"""The live line of a long solve: best objective, bound, gap, elapsed. Silent where nobody watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from berthage.cli import words
from berthage.solving.params import Progress
from berthage.solving.results import relative_gap

if TYPE_CHECKING:
    from rich.console import Console

DELAY: Final = 0.5
"""Seconds before the line appears, so that short solves stay quiet."""


class LiveLine:
    """What is known so far, as one line."""

    def __init__(self, solver: str) -> None:
        self.solver = solver
        self._start = time.monotonic()
        self._last: Progress | None = None

    def observe(self, progress: Progress) -> None:
        """Remember the newest progress."""
        self._last = progress

    def text(self) -> str:
        """The line; empty until some time has gone by."""
        elapsed = time.monotonic() - self._start
        if elapsed < DELAY:
            return ""
        last = self._last
        if last is None:
            return f"{self.solver}  {elapsed:.0f} s"
        gap = words.gap(relative_gap(last.objective, last.bound))
        return (
            f"{self.solver}  objective {words.number(last.objective)}  bound {words.bound(last.bound)}"
            f"  gap {gap}  {elapsed:.0f} s"
        )


@contextmanager
def live_line(solver: str, console: Console | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """Show the line on standard error while the body runs.

    Yields:
        The observer to hand to the solve; None when standard error is no terminal.
    """
    if console is None and not sys.stderr.isatty():  # without rich, whose import takes a while
        yield None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = console or Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    line = LiveLine(solver)

    def render() -> Text:
        return Text(line.text(), no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=render, console=console, refresh_per_second=4, transient=True):
        yield line.observe
