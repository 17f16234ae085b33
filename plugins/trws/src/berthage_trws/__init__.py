"""TRW-S message passing for Berthage: the solver ``trws``.

Importing this package imports no numba; `warmup` and the solver do.
"""

from __future__ import annotations

from .options import TrwsOptions


__all__ = ["TrwsOptions"]
