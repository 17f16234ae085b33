"""Keeping what solvers print out of our own output."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send to standard error whatever the body prints on standard output, compiled libraries included.

    Solver libraries print banners; on standard output they would spoil JSON that goes there.
    """
    try:
        descriptor, errors = sys.stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, io.UnsupportedOperation):  # captured in memory: only Python's own
        with redirect_stdout(sys.stderr):
            yield
        return
    sys.stdout.flush()
    saved = os.dup(descriptor)
    try:
        os.dup2(errors, descriptor)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, descriptor)
        os.close(saved)
