"""A bound that holds for any dual values: what a solver's tolerance cannot spoil."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from berthage.linear.program import LinearProgram

__all__ = ["dual_bound"]

_EPS = float(np.finfo(np.float64).eps)


def dual_bound(program: LinearProgram, row_dual: NDArray[np.float64]) -> float:
    """Lagrangian lower bound of a program from row duals, in the problem's own units.

    For any ``y``: ``min cost·x >= Σ_r y_r·(row_lower or row_upper) + min over x of (cost - Aᵀy)·x``. The
    inner minimum is taken over blocks (the columns of a block sum to 1) and over the boxes of the auxiliary
    columns, so small dual infeasibilities cost little. Rounding of the sums is bounded and subtracted.

    Args:
        program: The program that the duals belong to.
        row_dual: ``float64[r]`` any values; a positive one prices the lower side of its row.

    Returns:
        A valid lower bound on the objective of every feasible point, integral or not; -inf when the duals
        give none.
    """
    y = np.where(np.isfinite(row_dual), row_dual, 0.0)
    side = np.where(y > 0.0, program.row_lower, program.row_upper)
    y = np.where(np.isfinite(side), y, 0.0)
    side = np.where(np.isfinite(side), side, 0.0)
    owner = np.repeat(np.arange(program.num_rows), np.diff(program.row_ptr))
    product = program.value * y[owner]
    columns = program.num_cols
    cost = program.cost - program.cost_error
    reduced = cost - np.bincount(program.col_index, weights=product, minlength=columns)
    depth = np.bincount(program.col_index, minlength=columns) + 2.0
    magnitude = np.abs(program.cost) + np.bincount(program.col_index, weights=np.abs(product), minlength=columns)
    reduced -= 2.0 * _EPS * depth * magnitude
    in_block = (program.block >= 0) & (program.upper > 0.0)
    least = np.full(program.num_blocks, np.inf)
    np.minimum.at(least, program.block[in_block], reduced[in_block])
    if np.isinf(least).any():  # a block without columns: no point is feasible, and any value is a bound
        least[np.isinf(least)] = 0.0
    loose = program.block < 0
    low, high = program.lower[loose], program.upper[loose]
    rest = reduced[loose]
    picked = np.where(rest > 0.0, low, high)
    inner = np.where(rest == 0.0, 0.0, rest * np.where(np.isfinite(picked), picked, 0.0))
    if (np.isinf(picked) & (rest != 0.0)).any():
        return -np.inf
    terms = np.concatenate([y * side, least, inner])
    total = math.fsum(terms.tolist())  # correctly rounded; what is left is the rounding of each product
    total -= 2.0 * _EPS * (float(np.abs(y * side).sum() + np.abs(inner).sum()) + abs(total))
    return program.finish_bound(total, program.offset_error)
