"""A bound that holds for any dual values: what a solver's tolerance cannot spoil."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from berthage.linear.program import LinearProgram

__all__ = ["dual_bound"]

_EPS = float(np.finfo(np.longdouble).eps)
"""Sums are taken in extended precision where the platform has it: large duals cancel, and every bound must allow for
the rounding of its sums."""


def dual_bound(program: LinearProgram, row_dual: NDArray[np.float64]) -> float:
    """Lagrangian lower bound of a program from row duals, in the problem's own units.

    For any ``y``: ``min cost·x >= Σ_r y_r·(row_lower or row_upper) + min over x of (cost - Aᵀy)·x``. The inner minimum
    is taken over blocks (the columns of a block sum to 1) and over the boxes of the auxiliary columns, so small dual
    infeasibilities cost little. Rounding of the sums is bounded and subtracted.

    Args:
        program: The program that the duals belong to.
        row_dual: ``float64[r]`` any values; a positive one prices the lower side of its row.

    Returns:
        A valid lower bound on the objective of every feasible point, integral or not; -inf when the duals give none.
    """
    y = np.where(np.isfinite(row_dual), row_dual, 0.0)
    side = np.where(y > 0.0, program.row_lower, program.row_upper)
    y = np.where(np.isfinite(side), y, 0.0).astype(np.longdouble)
    side = np.where(np.isfinite(side), side, 0.0)
    reduced = _reduced_costs(program, y)
    in_block = (program.block >= 0) & (program.upper > 0.0)
    least = np.full(program.num_blocks, np.inf, dtype=np.longdouble)
    np.minimum.at(least, program.block[in_block], reduced[in_block])
    # A block without columns: no point is feasible, and any value is a bound.
    least[np.isinf(least)] = 0.0
    loose = program.block < 0
    rest = reduced[loose]
    picked = np.where(rest > 0.0, program.lower[loose], program.upper[loose])
    if (np.isinf(picked) & (rest != 0.0)).any():
        return -np.inf
    inner = rest * np.where(np.isfinite(picked), picked, 0.0)
    terms = np.concatenate([y * side, least, inner])
    total = np.sum(terms) - _EPS * (len(terms).bit_length() + 16) * np.sum(np.abs(terms))
    # Twice down: the conversion and the additions that follow round to nearest.
    value = np.nextafter(np.nextafter(float(total), -np.inf), -np.inf)
    return program.finish_bound(float(value), program.offset_error)


def _reduced_costs(program: LinearProgram, y: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
    """``cost - Aᵀy``, each less a bound on its rounding error and on that of its cost."""
    reduced = program.cost.astype(np.longdouble) - program.cost_error
    if not y.any():
        return reduced
    magnitude = np.abs(reduced)
    col_ptr, row_index, value = program.to_csc()
    product = value * y[row_index]
    full = np.flatnonzero(np.diff(col_ptr) > 0)
    if len(full):
        reduced[full] -= np.add.reduceat(product, col_ptr[full])
        magnitude[full] += np.add.reduceat(np.abs(product), col_ptr[full])
    result: NDArray[np.longdouble] = reduced - 2.0 * _EPS * (np.diff(col_ptr) + 2.0) * magnitude
    return result
