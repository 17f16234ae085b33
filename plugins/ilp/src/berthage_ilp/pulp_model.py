"""A `LinearProgram` as a PuLP model, with generated names only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pulp

if TYPE_CHECKING:
    from berthage.linear import LinearProgram

__all__ = ["pulp_problem"]

_CHECK_EVERY = 2048


def pulp_problem(
    program: LinearProgram, checkpoint: Callable[[], None]
) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """Translate a program.

    Columns are ``x0, x1, …`` and rows ``r0, r1, …``: PuLP merges or refuses names that differ only in ``-+[] ->/``,
    so no name of the problem reaches it. A row with two finite, unequal sides becomes two rows.

    Args:
        program: The program.
        checkpoint: Called now and then; may raise to give up.

    Returns:
        The PuLP problem and its variables in column order (PuLP itself sorts them by name).
    """
    model = pulp.LpProblem("program")
    lower = _bounds(program.lower)
    upper = _bounds(program.upper)
    categories = np.where(program.integer, pulp.LpInteger, pulp.LpContinuous).tolist()
    columns: list[pulp.LpVariable] = []
    for j, (lo, hi, category) in enumerate(zip(lower, upper, categories, strict=True)):
        if j % _CHECK_EVERY == 0:
            checkpoint()
        columns.append(model.add_variable(f"x{j}", lo, hi, category))
    # One term at least: PuLP adds a column of its own to an empty objective. The constant part stays with the caller.
    priced = np.flatnonzero(program.cost).tolist() or [0]
    model.setObjective(
        pulp.LpAffineExpression(list(zip((columns[j] for j in priced), program.cost[priced].tolist(), strict=True)))
    )
    ptr = program.row_ptr.tolist()
    index = program.col_index.tolist()
    value = program.value.tolist()
    sides = zip(program.row_lower.tolist(), program.row_upper.tolist(), strict=True)
    for i, (low, high) in enumerate(sides):
        if i % _CHECK_EVERY == 0:
            checkpoint()
        span = slice(ptr[i], ptr[i + 1])
        terms = list(zip((columns[j] for j in index[span]), value[span], strict=True))
        if low == high:
            rows = [(f"r{i}", pulp.LpConstraintEQ, high)]
        else:
            rows = [(f"r{i}u", pulp.LpConstraintLE, high)] if high < math.inf else []
            rows += [(f"r{i}l", pulp.LpConstraintGE, low)] if low > -math.inf else []
        for name, sense, side in rows:
            model.addConstraint(pulp.LpConstraint(pulp.LpAffineExpression(terms), sense, rhs=side), name)
    return model, columns


def _bounds(values: np.ndarray) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]
