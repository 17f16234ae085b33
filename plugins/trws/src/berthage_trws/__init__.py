"""TRW-S message passing for Berthage: the solver ``trws``.

Importing this package imports no numba; `warmup` and the solver do.
"""

from __future__ import annotations

from collections.abc import Sequence

from .options import TrwsOptions

__all__ = ["TrwsOptions", "warmup"]


def warmup(dtypes: Sequence[str] = ("f64",)) -> None:
    """Compile every kernel for the given dtypes (``"f64"``, ``"f32"``), or load it from numba's disk cache.

    Solving does this by itself, for what it needs, outside the time limit. Call it where a first solve must be as
    quick as the next.
    """
    from .ready import warm_kernels

    for dtype in dtypes:
        for binary in (False, True):
            warm_kernels(dtype, binary=binary, budgets=True, ordering="bfs")
