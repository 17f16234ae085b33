"""`LinearProgram`: a placement problem as arrays that any LP or MILP solver takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from berthage.linear.ragged import segment_argmax, starts_of

__all__ = ["Decoded", "LinearProgram"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column vector read back as labels.

    Attributes:
        assignment: ``int32[n]`` the label with the largest value, the first one on equality.
        fractional: Number of variables (tied ones counted once) with no label within the tolerance of 1.
        certainty: ``float64[n]`` the largest value among the labels of each variable.
    """

    assignment: NDArray[np.int32]
    fractional: int
    certainty: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram:
    """Minimise ``cost @ x + offset`` over ``lower <= x <= upper`` and ``row_lower <= A x <= row_upper``.

    With integrality on the columns marked in `integer` this is the placement problem exactly; without it, its
    local-polytope relaxation. Columns come as label columns (one per allowed label; variables joined by
    one-to-one ties share theirs), then pair columns (one per allowed pair of label classes), then auxiliary
    ones (overuse of soft budgets, running sums). Costs of label and pair columns are non-negative; what they
    were shifted by is in `offset`.

    Attributes:
        cost: ``float64[c]`` cost of each column, times `scale`.
        lower, upper: ``float64[c]`` bounds of the columns; all are finite or implied by rows.
        integer: ``bool[c]`` True for label columns. The other columns need no integrality.
        row_ptr, col_index, value: the matrix ``A`` in CSR form, ``int64[r+1]``, ``int64[nnz]``,
            ``float64[nnz]``.
        row_lower, row_upper: ``float64[r]`` bounds of the rows, possibly infinite.
        row_budget: ``int32[r]`` index of the budget (linear budgets first, then interval budgets) that a row
            comes from, -1 for the others. Integer budgets are divided by their greatest common divisor and
            scaled to coefficients of at most 1e5: solvers work to a tolerance, so check what they return and
            tighten these rows.
        offset: Constant part of the objective, times `scale`.
        scale: Power of two that all costs were multiplied with, 1.0 unless they are near the end of float64.
        cost_error: ``float64[c]`` bound on the rounding error of each cost; zero for integers of usual size.
        offset_error: Bound on the rounding error of `offset`.
        col_of_label: ``int64[sum K]`` label column of each flat label, -1 where the label is forbidden.
        block: ``int64[c]`` the columns of one block sum to exactly 1 in every feasible point; -1 for
            auxiliary columns.
        num_blocks: Number of blocks.
        label_ptr: ``int64[n+1]`` offsets of the flat labels.
        group_of, group_ptr, sel_ptr, sel: the label columns of variable ``v`` are those of its group
            ``g = group_of[v]``, ``group_ptr[g]:group_ptr[g+1]``; the i-th stands for label
            ``sel[sel_ptr[v]+i]``.
        pair_first, pair_second: ``int64[P]`` groups that pair ``p`` joins.
        pair_classes: class of every label of the first and then the second group, at ``pair_class_ptr[p]``.
        pair_class_ptr: ``int64[P+1]``.
        pair_width: ``int64[P]`` classes on the second side.
        pair_cell_ptr: ``int64[P+1]`` offsets into `pair_cells`.
        pair_cells: column of each pair of classes, row-major, -1 where the pair is forbidden.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    integer: NDArray[np.bool_]
    row_ptr: Ints
    col_index: Ints
    value: Floats
    row_lower: Floats
    row_upper: Floats
    row_budget: NDArray[np.int32]
    offset: float
    scale: float
    cost_error: Floats
    offset_error: float
    col_of_label: Ints
    block: Ints
    num_blocks: int
    label_ptr: Ints
    group_of: Ints
    group_ptr: Ints
    sel_ptr: Ints
    sel: Ints
    pair_first: Ints = field(repr=False)
    pair_second: Ints = field(repr=False)
    pair_classes: Ints = field(repr=False)
    pair_class_ptr: Ints = field(repr=False)
    pair_width: Ints = field(repr=False)
    pair_cell_ptr: Ints = field(repr=False)
    pair_cells: Ints = field(repr=False)

    @property
    def num_cols(self) -> int:
        """Number of columns."""
        return len(self.cost)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_lower)

    @property
    def num_nonzeros(self) -> int:
        """Number of matrix entries."""
        return len(self.value)

    @property
    def impossible(self) -> bool:
        """Whether some variable has no label left, so that no point is feasible."""
        return bool((np.diff(self.group_ptr) == 0).any())

    def objective(self, x: Floats) -> float:
        """Objective of a column vector, in the problem's own units."""
        return (float(self.cost @ x) + self.offset) / self.scale

    def bound_of(self, value: float) -> float:
        """A bound in the problem's own units from one on ``cost @ x`` (without `offset`), less rounding."""
        if np.isnan(value) or value == -np.inf:
            return -np.inf
        error = self.offset_error
        if self.offset_error or self.cost_error.any():
            # An assignment that takes a column dearer than twice the value is beyond the bound anyway.
            held = np.flatnonzero((self.block >= 0) & (self.upper > 0.0) & (self.cost <= 2.0 * abs(value)))
            worst = np.zeros(self.num_blocks)
            np.maximum.at(worst, self.block[held], self.cost_error[held])
            error += float(worst.sum())
        return self.finish_bound(value, error)

    def finish_bound(self, value: float, error: float) -> float:
        """``value + offset - error`` in the problem's own units, never above the largest float."""
        total = (value + self.offset - error) / self.scale
        return min(total, float(np.finfo(np.float64).max))

    def activity(self, x: Floats) -> Floats:
        """Row activities ``A x``."""
        product = self.value * x[self.col_index]
        activity = np.zeros(self.num_rows)
        full = np.flatnonzero(np.diff(self.row_ptr) > 0)
        if len(full):
            activity[full] = np.add.reduceat(product, self.row_ptr[full])
        return activity

    def decode(self, x: Floats, tolerance: float = 1e-6) -> Decoded:
        """Read a column vector back as an assignment.

        Args:
            x: ``float64[c]`` column values (at least the label columns).
            tolerance: A variable counts as fractional when no label is within this of 1.

        Raises:
            ValueError: When some variable has no allowed label (`impossible`).
        """
        if self.impossible:
            raise ValueError("a variable has no allowed label: there is no assignment to decode")
        num_labels = int(self.group_ptr[-1])
        best = segment_argmax(np.asarray(x[:num_labels], dtype=np.float64), self.group_ptr)
        value = x[best] if len(best) else np.zeros(0)
        at = self.sel_ptr[:-1] + (best - self.group_ptr[:-1])[self.group_of]
        return Decoded(
            assignment=self.sel[at].astype(np.int32),
            fractional=int((value < 1.0 - tolerance).sum()),
            certainty=value[self.group_of],
        )

    def encode(self, assignment: NDArray[np.int32]) -> Floats | None:
        """The column vector of an assignment; auxiliary columns take the least values the rows allow.

        Returns:
            ``float64[c]``, or None when the assignment breaks a relation, takes a forbidden label or pair.
            Hard budgets are not checked.
        """
        chosen = self.col_of_label[self.label_ptr[:-1] + assignment]
        if (chosen < 0).any():
            return None
        column = np.full(len(self.group_ptr) - 1, -1, dtype=np.int64)
        column[self.group_of] = chosen
        if not np.array_equal(column[self.group_of], chosen) or (self.upper[column] < 1.0).any():
            return None
        x = np.zeros(self.num_cols)
        x[column] = 1.0
        local = column - self.group_ptr[:-1]
        sizes = np.diff(self.group_ptr)
        row = self.pair_classes[self.pair_class_ptr[:-1] + local[self.pair_first]]
        col = self.pair_classes[self.pair_class_ptr[:-1] + sizes[self.pair_first] + local[self.pair_second]]
        if (row < 0).any() or (col < 0).any():
            return None
        cells = self.pair_cells[self.pair_cell_ptr[:-1] + row * self.pair_width + col]
        if (cells < 0).any():
            return None
        x[cells] = 1.0
        return self._fill_auxiliary(x)

    def _fill_auxiliary(self, x: Floats) -> Floats:
        """Set running sums, whose rows give their change between instants, then overuse columns."""
        auxiliary = self.block < 0
        if not auxiliary.any():
            return x
        full = np.flatnonzero(np.diff(self.row_ptr) > 0)
        last = self.col_index[self.row_ptr[full + 1] - 1]
        running = auxiliary[last] & (self.cost[last] == 0.0) & (self.row_lower[full] == self.row_upper[full])
        rows, column = full[running], last[running]
        change = -self.activity(x)[rows]
        for budget in np.unique(self.row_budget[rows]).tolist():
            own = self.row_budget[rows] == budget
            x[column[own]] = np.cumsum(change[own])
        owner = np.repeat(np.arange(self.num_rows), np.diff(self.row_ptr))
        at = np.flatnonzero((auxiliary & (self.cost > 0.0))[self.col_index])
        use = self.activity(x)[owner[at]]
        gap = np.where(self.value[at] < 0, use - self.row_upper[owner[at]], self.row_lower[owner[at]] - use)
        np.maximum.at(x, self.col_index[at], gap)
        return x

    def without_costs_above(self, limit: float) -> LinearProgram:
        """The same program with every label and pair column that costs more than `limit` fixed to 0.

        Costs are non-negative, so an assignment whose objective is at most ``(offset + limit) / scale`` is
        feasible here as well; see `berthage.linear.cost_levels`.
        """
        dear = (self.block >= 0) & (self.cost > limit)
        return replace(self, upper=np.where(dear, 0.0, self.upper), cost=np.where(dear, 0.0, self.cost))

    def to_csc(self) -> tuple[Ints, Ints, Floats]:
        """The matrix by columns: ``(col_ptr, row_index, value)``."""
        owner = np.repeat(np.arange(self.num_rows, dtype=np.int64), np.diff(self.row_ptr))
        order = np.argsort(self.col_index * max(self.num_rows, 1) + owner)
        return starts_of(np.bincount(self.col_index, minlength=self.num_cols)), owner[order], self.value[order]
