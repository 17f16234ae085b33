"""The one place where numba is told how to compile.

Kernels are cached on disk. numba itself falls back from the package folder to a per-user cache folder when the package
folder is read-only; where neither can be written it refuses, and kernels are then compiled in memory. A shared
temporary folder is no alternative: whoever can write there could plant code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` on first use, without the GIL, keeping the machine code between processes where possible."""
    settings: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False}
    try:
        compiled = numba.njit(cache=True, **settings)(function)
    except RuntimeError:  # "cannot cache function: no locator available"
        compiled = numba.njit(**settings)(function)
    return cast(Callable[P, R], compiled)


def is_compiled(function: Any) -> bool:
    """Whether a kernel has been compiled or loaded in this process."""
    return bool(function.signatures)
