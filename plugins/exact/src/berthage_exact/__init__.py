"""Branch and bound with soft arc consistency for Berthage: the solver ``exact``.

Importing this package imports no numba; `warmup` and the solver do.
"""

from __future__ import annotations

from .options import ExactOptions

__all__ = ["ExactOptions", "warmup"]


def warmup() -> None:
    """Compile every kernel of the search, or load it from numba's disk cache.

    Solving does this by itself, outside the time limit, when it comes to a search. Call it, and
    `berthage_trws.warmup`, where a first solve must be as quick as the next.
    """
    from .ready import warm_kernels

    warm_kernels()
