"""`ProblemBuilder`: makes a `PlacementProblem` from named pieces, with errors that name the piece that is wrong."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from berthage.problem.arrays import Float64Array, Int64Array, frozen
from berthage.problem.building.budgets import BudgetBuilder
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import Relations

Item = TypeVar("Item")

__all__ = ["ProblemBuilder"]


class ProblemBuilder(BudgetBuilder):
    """Collects variables, costs and constraints, checks each as it comes, and builds the immutable problem.

    Variables and labels may be given by index or by name everywhere. Integer costs of any size are kept exactly.

    Example:
        >>> from berthage import ProblemBuilder, evaluate
        >>> b = ProblemBuilder("two tensors")
        >>> x = b.add_variable("weight", ["R", "S(0)"], [4, 1])
        >>> y = b.add_variable("activation", ["R", "S(0)"], [0, 2])
        >>> e = b.add_pairwise(x, y, [[0, 3], [5, 0]])
        >>> evaluate(b.build(), [1, 1]).objective
        3
    """

    def build(self) -> PlacementProblem:
        """The immutable problem of everything added so far; the builder can go on."""
        unary, residual = self._flat_unary()
        columns = [np.concatenate([edge[i] for edge in self._edges]) if self._edges else np.zeros(0) for i in range(4)]
        names: tuple[str, ...] | None = None
        if self._edge_names:
            ends = zip(columns[0].tolist(), columns[1].tolist(), strict=True)
            names = tuple(
                self._edge_names.get(e) or f"{self._names[int(u)]} -- {self._names[int(v)]}"
                for e, (u, v) in enumerate(ends)
            )
        # What a refused call or a folded edge left behind is dropped.
        label_sets, variable_label_set = _used(self._sets, np.array(self._variable_set, dtype=np.int64))
        tables, edge_table = _used(self._tables, columns[2].astype(np.int64))
        rows = self._rows
        relations = Relations(
            frozen(np.array([int(r[0]) for r in rows]), np.int8),
            frozen(np.array([r[1] for r in rows]), np.int32),
            frozen(np.array([r[2] for r in rows]), np.int32),
            frozen(np.array([r[3] for r in rows]), np.int32),
            tuple(self._arrays),
            tuple(r[4] for r in rows),
        )
        return PlacementProblem(
            name=self._name,
            label_sets=label_sets,
            variable_names=tuple(self._names),
            variable_label_set=frozen(variable_label_set, np.int32),
            multiplicity=frozen(np.array(self._multiplicity), np.int64),
            unary=unary,
            tables=tables,
            edge_u=frozen(columns[0], np.int32),
            edge_v=frozen(columns[1], np.int32),
            edge_table=frozen(edge_table, np.int32),
            edge_multiplicity=frozen(columns[3], np.int64),
            unary_residual=residual,
            edge_names=names,
            relations=relations,
            linear_budgets=tuple(self._linear),
            interval_budgets=tuple(self._interval),
            constant=self._constant,
        )

    def _flat_unary(self) -> tuple[Float64Array, Int64Array | None]:
        # Blocks are appended in variable order, so their concatenation is the flat array.
        flat: Float64Array = frozen(np.concatenate(self._unary) if self._unary else np.zeros(0), np.float64)
        if all(residual is None or not residual.any() for residual in self._residual):
            return flat, None
        parts = [
            np.zeros(len(u), dtype=np.int64) if r is None else r
            for u, r in zip(self._unary, self._residual, strict=True)
        ]
        return flat, frozen(np.concatenate(parts), np.int64)


def _used(items: list[Item], index: Int64Array) -> tuple[tuple[Item, ...], Int64Array]:
    """The items that an index refers to, in order, and the index into them."""
    used = np.bincount(index, minlength=len(items)) > 0
    if used.all():
        return tuple(items), index
    place: Int64Array = np.cumsum(used) - 1
    return tuple(items[i] for i in np.flatnonzero(used).tolist()), place[index]
