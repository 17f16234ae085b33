"""The costs of a problem under construction."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import MOST_COPIES, Array, Float64Array, Int64Array, plain_number, split_exact
from berthage.problem.building.variables import Variable, VariableBuilder, check_multiplicity
from berthage.problem.tables import CostTable, DenseTable


class CostBuilder(VariableBuilder):
    """Collects constants, unary and pairwise costs."""

    def __init__(self, name: str = "problem") -> None:
        super().__init__(name)
        self._constant: int | float = 0
        self._tables: list[CostTable] = []
        self._table_by_id: dict[int, int] = {}
        self._edges: list[tuple[Array, Array, Array, Array]] = []
        self._edge_names: dict[int, str] = {}
        self._num_edges = 0

    def add_constant(self, value: int | float) -> None:
        """Add a number to every objective."""
        number = plain_number(value, "a constant")
        if not math.isfinite(number):
            raise InvalidProblemError(f"a constant must be finite, got {value!r}")
        self._constant += number

    def add_unary(self, variable: Variable, costs: npt.ArrayLike) -> None:
        """Add unary costs, one a label and per copy, to those a variable has."""
        v = self.variable(variable)
        values, residual = split_exact(costs, f"the cost of variable {self._names[v]!r}")
        if values.shape != (self._labels(v).size,):
            raise InvalidProblemError(
                f"variable {self._names[v]!r} has {self._labels(v).size} labels but {values.shape} costs; "
                "give one cost a label"
            )
        self._accumulate(v, values, residual, self._copies[v] // self._multiplicity[v], 1)

    def _accumulate(
        self, v: int, values: Float64Array, residual: Int64Array | None, scale: int, own_scale: int
    ) -> None:
        """unary_v ← own_scale·unary_v + scale·values, exactly where the numbers are whole."""
        block, start, stop = self._block[v]
        old, old_residual = self._unary[block][start:stop], self._residual[block]
        exact = old_residual is not None or residual is not None or _large(old, own_scale) or _large(values, scale)
        if not exact:
            old[:] = own_scale * old + scale * values
            return
        zero = np.zeros(stop - start, dtype=np.int64)
        mine = _exact_list(old, zero if old_residual is None else old_residual[start:stop])
        theirs = _exact_list(values, zero if residual is None else residual)
        total = [own_scale * a + scale * b for a, b in zip(mine, theirs, strict=True)]
        new, new_residual = split_exact(np.array(total, dtype=object), f"the cost of variable {self._names[v]!r}")
        old[:] = new
        if old_residual is None and new_residual is not None:
            old_residual = self._residual[block] = np.zeros(len(self._unary[block]), dtype=np.int64)
        if old_residual is not None:
            if not old_residual.flags.writeable:
                old_residual = self._residual[block] = old_residual.copy()
            old_residual[start:stop] = 0 if new_residual is None else new_residual

    def add_table(self, table: npt.ArrayLike | CostTable) -> int:
        """Add a cost table that many edges may share, and return its index."""
        value = table if isinstance(table, CostTable) else DenseTable(table)
        if id(value) not in self._table_by_id:
            self._table_by_id[id(value)] = len(self._tables)
            self._tables.append(value)
        return self._table_by_id[id(value)]

    def add_pairwise(
        self,
        u: Variable,
        v: Variable,
        table: int | npt.ArrayLike | CostTable,
        *,
        name: str | None = None,
        multiplicity: int = 1,
    ) -> int | None:
        """Add a pairwise cost and return the edge's index.

        Args:
            u: First end: rows of the table.
            v: Second end: columns of the table. The same variable twice folds the diagonal into its unary cost.
            table: An index from `add_table`, a matrix, or a `CostTable`.
            name: Name of the edge in breakdowns; derived from the ends when left out.
            multiplicity: How many times the cost counts.

        Returns:
            The edge's index, or None when it was folded.

        Raises:
            InvalidProblemError: When the table does not have one row a label of u and one column a label of v.
        """
        a, b = self.variable(u), self.variable(v)
        what = name or f"{self._names[a]} -- {self._names[b]}"
        if not isinstance(table, int | np.integer):
            try:
                table = self.add_table(table)
            except InvalidProblemError as error:
                raise InvalidProblemError(f"edge {what!r}: {error}") from None
        if not 0 <= table < len(self._tables):
            raise InvalidProblemError(f"edge {what!r}: there is no table {table}; {len(self._tables)} were added")
        check_multiplicity(f"edge {what!r}", multiplicity)
        expected = (self._labels(a).size, self._labels(b).size)
        if self._tables[table].shape != expected:
            raise InvalidProblemError(
                f"edge {what!r}: its table has shape {self._tables[table].shape}, its ends have {expected} labels"
            )
        if a == b:
            self._fold_self_edge(a, int(table), int(multiplicity))
            return None
        if name is not None:
            self._edge_names[self._num_edges] = name
        self._append_edges(np.array([a]), np.array([b]), np.array([table]), np.array([multiplicity]))
        return self._num_edges - 1

    def add_edges(
        self,
        u: npt.ArrayLike,
        v: npt.ArrayLike,
        table: npt.ArrayLike,
        multiplicity: npt.ArrayLike | None = None,
    ) -> None:
        """Add many pairwise costs at once; self edges are folded as in `add_pairwise`.

        Args:
            u: int[k], first ends.
            v: int[k], second ends.
            table: int[k], indices from `add_table`.
            multiplicity: int[k]; 1 when left out.
        """
        a, b, t = (np.asarray(x, dtype=np.int64) for x in (u, v, table))
        copies = np.ones(len(a), dtype=np.int64) if multiplicity is None else np.asarray(multiplicity, dtype=np.int64)
        if not a.shape == b.shape == t.shape == copies.shape or a.ndim != 1:
            raise InvalidProblemError("add_edges needs vectors of one length")
        if not len(a):
            return
        for what, index, count in (
            ("variable", a, len(self._names)),
            ("variable", b, len(self._names)),
            ("table", t, len(self._tables)),
        ):
            if index.min() < 0 or index.max() >= count:
                bad = int(np.flatnonzero((index < 0) | (index >= count))[0])
                raise InvalidProblemError(f"edge {bad}: there is no {what} {index[bad]}; there are {count}")
        for e in np.flatnonzero((copies < 1) | (copies > MOST_COPIES))[:1].tolist():
            check_multiplicity(f"edge {e}", int(copies[e]))
        sizes = np.array([s.size for s in self._sets])[np.array(self._variable_set)]
        shapes = np.array([table.shape for table in self._tables])[t]
        wrong = np.flatnonzero((shapes[:, 0] != sizes[a]) | (shapes[:, 1] != sizes[b]))
        if len(wrong):
            e = int(wrong[0])
            raise InvalidProblemError(
                f"edge {e} ({self._names[a[e]]} -- {self._names[b[e]]}): its table has shape "
                f"{tuple(shapes[e].tolist())}, "
                f"its ends have {(int(sizes[a[e]]), int(sizes[b[e]]))} labels"
            )
        for e in np.flatnonzero(a == b).tolist():
            self._fold_self_edge(int(a[e]), int(t[e]), int(copies[e]))
        real = a != b
        self._append_edges(a[real], b[real], t[real], copies[real])

    def _append_edges(self, u: Array, v: Array, table: Array, multiplicity: Array) -> None:
        self._edges.append((u, v, table, multiplicity))
        self._num_edges += len(u)

    def _fold_self_edge(self, v: int, table: int, multiplicity: int) -> None:
        diagonal = np.arange(self._labels(v).size)
        values, residual = self._tables[table].exact(diagonal, diagonal)
        own = self._multiplicity[v]
        self._multiplicity[v] = 1  # the diagonal has its own multiplicity, so both are written out
        self._accumulate(v, values, residual, multiplicity, own)


def _large(values: Float64Array, scale: int) -> bool:
    """Whether whole numbers among the scaled values may leave the range where floats are exact (sums doubled)."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return False
    whole = finite[finite == np.floor(finite)]
    return bool(whole.size) and float(np.abs(whole).max()) * scale >= 2.0**52


def _exact_list(values: Float64Array, residual: Int64Array) -> list[int | float]:
    return [
        int(value) + extra if np.isfinite(value) and value == np.floor(value) else value
        for value, extra in zip(values.tolist(), residual.tolist(), strict=True)
    ]
