"""TRW-S message passing for Berthage: the solver ``trws``.

Importing this package imports no numba; `warmup` and the solver do.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .options import TrwsOptions

if TYPE_CHECKING:
    from berthage import PlacementProblem, SolveContext, SolveParams

    from .handover import Relaxation, RowPrices

__all__ = ["Relaxation", "RowPrices", "TrwsOptions", "relax", "warmup"]


def warmup(dtypes: Sequence[str] = ("f64",)) -> None:
    """Compile every kernel for the given dtypes (``"f64"``, ``"f32"``), or load it from numba's disk cache.

    Solving does this by itself, for what it needs, outside the time limit. Call it where a first solve must be as
    quick as the next.
    """
    from .ready import warm_kernels

    for dtype in dtypes:
        for binary in (False, True):
            warm_kernels(dtype, binary=binary, budgets=True, ordering="bfs")


def relax(
    problem: PlacementProblem, params: SolveParams, context: SolveContext, options: TrwsOptions | None = None
) -> Relaxation:
    """Run ``trws`` on a problem and hand over where it ended: for solvers that build on its bound.

    Args:
        problem: Any problem that ``trws`` takes.
        params: As for a solver; the warm start, the seed, the gap, the cutoff and the iteration limit apply.
        context: Gets the assignments and bounds on the way, and says when to stop.
        options: Options of ``trws``.

    Returns:
        The certified bound, with the messages and prices that gave it.
    """
    from .relaxation import relax as run

    return run(problem, params, context, options)


def __getattr__(name: str) -> Any:
    """Import what needs numpy when it is asked for: listing solvers must not."""
    if name not in ("Relaxation", "RowPrices"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".handover", __name__), name)
