"""Small changes to a `LinearProgram`: more rows, coarser ones, and columns left out with a way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from berthage.linear import LinearProgram

__all__ = ["Compressed", "Cut", "coarse_budgets", "compress", "drop_useless", "with_cuts"]


@dataclass(frozen=True, slots=True)
class Cut:
    """A row with coefficients 1: ``Σ columns <= limit``."""

    columns: NDArray[np.int64]
    limit: float


def with_cuts(program: LinearProgram, cuts: Sequence[Cut]) -> LinearProgram:
    """The program with more rows; a column named twice in a cut counts twice."""
    if not cuts:
        return program
    index, value, ptr = [program.col_index], [program.value], [program.row_ptr]
    last = int(program.row_ptr[-1])
    for cut in cuts:
        columns, counts = np.unique(cut.columns, return_counts=True)
        index.append(columns.astype(np.int64))
        value.append(counts.astype(np.float64))
        last += len(columns)
        ptr.append(np.array([last], dtype=np.int64))
    return replace(
        program,
        row_ptr=np.concatenate(ptr),
        col_index=np.concatenate(index),
        value=np.concatenate(value),
        row_lower=np.append(program.row_lower, np.full(len(cuts), -np.inf)),
        row_upper=np.append(program.row_upper, [cut.limit for cut in cuts]),
        row_budget=np.append(program.row_budget, np.full(len(cuts), -1, dtype=np.int32)),
    )


def drop_useless(program: LinearProgram) -> LinearProgram:
    """Fix label columns to 0 that alone exceed a budget row's upper side (all its coefficients being non-negative)."""
    owner = np.repeat(np.arange(program.num_rows), np.diff(program.row_ptr))
    mixed = np.zeros(program.num_rows, dtype=bool)
    mixed[owner[(program.value < 0.0) | (program.lower[program.col_index] < 0.0)]] = True
    rows = (program.row_budget >= 0) & ~mixed & np.isfinite(program.row_upper)
    # Half a unit of the smallest step would do; the row's own tolerance keeps this away from any rounding.
    over = rows[owner] & (program.value > program.row_upper[owner] * (1 + 1e-9) + 1e-6)
    columns = program.col_index[over]
    columns = columns[program.integer[columns]]
    if not len(columns):
        return program
    upper = program.upper.copy()
    upper[columns] = 0.0
    return replace(program, upper=upper)


def coarse_budgets(program: LinearProgram) -> LinearProgram:
    """Relax budget rows to whole coefficients of at most 2^17.

    ``Σ w·x <= u`` implies ``Σ floor(w)·x <= floor(u)`` for 0/1 columns, and likewise with ceilings for a lower side. An
    engine that calls finely graded rows infeasible, or that misses their optimum, is exact on such rows; what they let
    through is for the caller to cut off. Rows that are whole already, and rows with auxiliary columns, stay.
    """
    owner = np.repeat(np.arange(program.num_rows), np.diff(program.row_ptr))
    size = np.zeros(program.num_rows)
    np.maximum.at(size, owner, program.value)
    fit = (program.row_budget >= 0) & (size > 0.0)
    fit[owner[(program.value < 0.0) | ~program.integer[program.col_index]]] = False
    broken = np.zeros(program.num_rows, dtype=bool)
    broken[owner[program.value != np.floor(program.value)]] = True
    fit &= broken
    if not fit.any():
        return program
    factor = np.where(fit, np.exp2(17.0 - np.frexp(np.where(fit, size, 1.0))[1]), 1.0)
    # Limits are rounded outwards by more than their own rounding error.
    upper = np.where(fit, np.floor(program.row_upper * factor + 1e-6), program.row_upper)
    below = np.flatnonzero(fit & np.isfinite(program.row_lower))
    lower = np.where(fit, -np.inf, program.row_lower)
    scaled = program.value * factor[owner]
    value = np.where(fit[owner], np.floor(scaled), program.value)
    again = np.flatnonzero(np.isin(owner, below))
    ends = int(program.row_ptr[-1]) + np.cumsum(np.diff(program.row_ptr)[below])
    return replace(
        program,
        row_ptr=np.append(program.row_ptr, ends),
        col_index=np.append(program.col_index, program.col_index[again]),
        value=np.append(value, np.ceil(scaled[again])),
        row_lower=np.append(lower, np.ceil((program.row_lower * factor)[below] - 1e-6)),
        row_upper=np.append(upper, np.full(len(below), np.inf)),
        row_budget=np.append(program.row_budget, program.row_budget[below]),
    )


@dataclass(frozen=True, slots=True)
class Compressed:
    """A program without its columns that are fixed to 0 and without the rows that then say nothing.

    Attributes:
        program: The smaller program. Only what engines read is compressed: decode with the original.
        kept: int64[c'] original column of each column.
        columns: Number of original columns.
        impossible: Whether some row cannot hold whatever the columns, so that nothing is feasible.
    """

    program: LinearProgram
    kept: NDArray[np.int64]
    columns: int
    impossible: bool

    def expand(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of all original columns."""
        full = np.zeros(self.columns)
        full[self.kept] = values
        return full


def compress(program: LinearProgram) -> Compressed:
    """Leave out the columns fixed to 0 and the rows that become empty."""
    keep = (program.upper > 0.0) | (program.lower < 0.0)
    kept = np.flatnonzero(keep)
    number = np.cumsum(keep) - 1
    owner = np.repeat(np.arange(program.num_rows), np.diff(program.row_ptr))
    live = keep[program.col_index] & (program.value != 0.0)
    counts = np.bincount(owner[live], minlength=program.num_rows)
    full = counts > 0
    broken = ~full & ((program.row_lower > 1e-9) | (program.row_upper < -1e-9))
    broken |= program.row_lower > program.row_upper + 1e-9
    ptr = np.zeros(int(full.sum()) + 1, dtype=np.int64)
    np.cumsum(counts[full], out=ptr[1:])
    small = replace(
        program,
        cost=program.cost[kept],
        lower=program.lower[kept],
        upper=program.upper[kept],
        integer=program.integer[kept],
        block=program.block[kept],
        row_ptr=ptr,
        col_index=number[program.col_index[live]],
        value=program.value[live],
        row_lower=program.row_lower[full],
        row_upper=program.row_upper[full],
        row_budget=program.row_budget[full],
    )
    return Compressed(small, kept, program.num_cols, bool(broken.any()))
