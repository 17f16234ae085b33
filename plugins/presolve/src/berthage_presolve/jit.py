"""Compiling kernels, cached on disk: in a directory of our own where the package is read-only."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on first use with numba, without the GIL, keeping the machine code between processes."""
    try:
        return _compiled(function)
    except RuntimeError:  # no directory that numba tries is writable, for instance an installed package without a home
        numba.config.CACHE_DIR = os.path.join(tempfile.gettempdir(), f"berthage-numba-{os.getuid()}")
    try:
        return _compiled(function)
    except (RuntimeError, OSError):
        return cast(Callable[P, R], numba.njit(nogil=True)(function))


def _compiled(function: Callable[P, R]) -> Callable[P, R]:
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))


def is_compiled(function: Any) -> bool:
    """Whether a kernel has been compiled or loaded in this process."""
    return bool(function.signatures)
