"""Compiles (or loads from numba's disk cache) ahead of time, so that a solve does not."""

from __future__ import annotations


def warmup(dtype: str = "f64", *, binary: bool = False, budgets: bool = False) -> None:
    """Make the kernels of one kind of problem ready, by solving a tiny one.

    Args:
        dtype: ``"f64"`` or ``"f32"``, as in the options.
        binary: Whether no variable has more than two labels.
        budgets: Whether there are budgets.
    """
    import numpy as np
    from berthage import ProblemBuilder

    from .engine import Engine
    from .layout import compile_layout

    size = 2 if binary else 3
    builder = ProblemBuilder("warm-up")
    for name in ("a", "b", "c"):
        builder.add_variable(name, size, np.arange(size, dtype=np.float64))
    table = builder.add_table(np.ones((size, size)))
    builder.add_pairwise(0, 1, table)
    builder.add_pairwise(1, 2, table)
    layout = compile_layout(builder.build(), np.arange(3), dtype == "f32")
    assert not isinstance(layout, int)
    engine = Engine(layout, lambda: False)
    engine.sweep()
    state = engine.assign(True)
    engine.improve(state, pairs=True)
    engine.energy(state)
    engine.bound()
