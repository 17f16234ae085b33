"""The one place where numba is told how to compile.

Kernels are cached on disk. numba itself falls back from the package folder to a per-user cache folder when the
package folder is read-only; where neither can be written it refuses, and the kernel is then compiled in memory.
No ``fastmath``: infinities occur in the tables, and with NaN-free assumptions they would be undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``function`` with numba on first call, cached on disk where any cache folder is writable."""
    return _compiled(function, {})


def inner_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, for what only other kernels call: no entry from Python is compiled, which is much of the work."""
    return _compiled(function, {"no_cpython_wrapper": True, "no_cfunc_wrapper": True})


def _compiled(function: Callable[..., Any], more: dict[str, Any]) -> Callable[..., Any]:
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, **more}
    compiled: Callable[..., Any]
    try:
        compiled = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = numba.njit(**settings)(function)
    return compiled
