"""The one place where numba is told how to compile.

Kernels are cached on disk. numba itself falls back from the package folder to a per-user cache folder when the
package folder is read-only; where neither can be written it refuses, and the kernel is then compiled in memory.
No ``fastmath``: infinities occur in the tables, and with NaN-free assumptions they would be undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function`` with numba on first call, cached on disk where any cache folder is writable."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    try:
        return numba.njit(cache=True, **settings)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return numba.njit(**settings)(function)  # type: ignore[no-any-return]
