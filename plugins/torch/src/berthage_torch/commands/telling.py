"""What commands say beside their result: warnings as lines, and the phase they are in."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

__all__ = ["progress", "spoken_warnings"]


@contextmanager
def spoken_warnings() -> Iterator[None]:
    """Warnings, an operation without a rule for one, as a line each instead of a place in our code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught if _ours(warning.category)):
                click.echo(f"warning: {text}", err=True)


def _ours(category: type[Warning]) -> bool:
    """Whether a warning is for the user of this command, and not for developers of some library."""
    return category.__module__.startswith("berthage")


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Tell the phase on standard error when it is a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda phase: None
        return
    from rich.console import Console

    with Console(stderr=True).status("", spinner="line") as status:
        yield lambda phase: status.update(phase)
