"""Compiles (or loads from numba's disk cache) what ``trws-lazy`` needs beyond ``trws``, ahead of time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berthage import LazyTable, ProblemBuilder
from berthage_trws.layout import compile_layout

from .engine import LazyEngine
from .pool import lazy_pool

__all__ = ["warm_lazy_kernels"]


class _Zeros:
    """An oracle whose prices are all zero, and known to be above -1."""

    def __init__(self, size: int) -> None:
        self.shape = (size, size)
        self.key = b"zeros"
        self.is_integral = True

    def price(self, rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.zeros(len(rows))

    def lower_bound(self, rows: npt.NDArray[np.int64], cols: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return np.full(len(rows), -1.0)


def warm_lazy_kernels(dtype: str, *, binary: bool) -> None:
    """Make the kernels ready, by running them on a tiny problem.

    Args:
        dtype: ``"f64"`` or ``"f32"``, as in the options.
        binary: Whether no variable has more than two labels.
    """
    size = 2 if binary else 3
    builder = ProblemBuilder("warm-up")
    builder.add_variable("a", size, np.arange(size, dtype=np.float64))
    builder.add_variable("b", size, np.arange(size, dtype=np.float64))
    builder.add_pairwise(0, 1, LazyTable(_Zeros(size)))
    problem = builder.build()
    pool = lazy_pool(problem.tables, np.ones(1))
    layout = compile_layout(problem, np.arange(2), dtype == "f32", pool.pool)
    assert not isinstance(layout, int)
    engine = LazyEngine(layout, lambda: False, pool)
    engine.refine(1.0)
    engine.energy(engine.assign(True))
    engine.price_relevant(0.0)
    if not binary:
        engine.pass_messages()
