"""Any problem whose labels have coordinates, seen along one coordinate at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import (
    ClassedTable,
    CostTable,
    LabelSet,
    LazyTable,
    PlacementProblem,
    ProblemBuilder,
    UnsupportedProblemError,
)
from berthage.problem import RelationKind
from berthage.seeding import possible_labels

__all__ = ["Projected"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Projected:
    """The single-dimension problems of a problem: a provider of dimensions.

    On dimension d a variable has one label for each value that coordinate d takes among its labels, priced by the
    cheapest label with that value; an edge between two values costs what the cheapest pair of labels with them does,
    and a relation or budget holds when some such labels keep it. So everything that can be had in the whole problem
    can be had here for no more: the optimum of each dimension is a lower bound of the whole. Variables whose labels
    have no coordinates keep them all. Entries of lazy tables count with their cheap bounds; none is priced.

    Args:
        problem: The whole problem.

    Raises:
        UnsupportedProblemError: No label has coordinates, or they differ in length.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        lengths = {s.coordinates.shape[1] for s in problem.label_sets if s.coordinates is not None}
        if len(lengths) != 1:
            why = "none of its labels has any" if not lengths else f"they have {sorted(lengths)} dimensions"
            raise UnsupportedProblemError(
                f"split-dim needs coordinates of one length on the labels of problem {problem.name!r}; {why}. Give "
                "them to ProblemBuilder.add_variable, or seed with something else"
            )
        self.whole = problem
        self.names: tuple[str, ...] = tuple(f"dimension {d}" for d in range(lengths.pop()))
        self._possible = possible_labels(problem)

    @cached_property
    def centred(self) -> npt.NDArray[np.bool_]:
        """bool[n], the variables whose labels have coordinates."""
        has = np.array([s.coordinates is not None for s in self.whole.label_sets])
        return np.asarray(has[self.whole.variable_label_set])

    def key(self, dimension: int) -> str:
        """The whole problem's content and the dimension."""
        return hashlib.sha256(f"projected {self.whole.digest} {dimension}".encode()).hexdigest()

    def problem(self, dimension: int) -> PlacementProblem:
        """The problem of one dimension."""
        return _Projection(self.whole, self._possible, dimension).build()

    def piece(self, dimension: int, assignment: npt.NDArray[np.int32]) -> Ints:
        """int64[n], the value of the coordinate of each variable that has one, 0 for others."""
        found = np.zeros(self.whole.num_variables, dtype=np.int64)
        for s, label_set in enumerate(self.whole.label_sets):
            if label_set.coordinates is not None:
                here = np.flatnonzero(self.whole.variable_label_set == s)
                found[here] = np.unique(label_set.coordinates[:, dimension])[assignment[here]]
        found.flags.writeable = False
        return found

    def compose(self, pieces: Sequence[Ints]) -> npt.NDArray[np.int32]:
        """int32[n, D], coordinates of every variable."""
        centres = np.stack(pieces, axis=1).astype(np.int32)
        centres.flags.writeable = False
        return centres


class _Projection:
    """One projection under construction.

    Args:
        whole: The problem.
        possible: bool[ΣK], labels that count.
        dimension: The coordinate that is kept.
    """

    def __init__(self, whole: PlacementProblem, possible: npt.NDArray[np.bool_], dimension: int) -> None:
        self.whole = whole
        self.cost = np.where(possible, whole.unary, np.inf)
        self.values: list[Ints] = []
        """For each label set the new label of each old one."""
        self.sets: list[LabelSet] = []
        for label_set in whole.label_sets:
            if label_set.coordinates is None:
                self.values.append(np.arange(label_set.size))
                self.sets.append(label_set)
            else:
                kept, value = np.unique(label_set.coordinates[:, dimension], return_inverse=True)
                self.values.append(value.reshape(-1).astype(np.int64))
                self.sets.append(LabelSet.of(len(kept), kept[:, None]))

    def build(self) -> PlacementProblem:
        whole = self.whole
        builder = ProblemBuilder(whole.name)
        builder.add_constant(whole.constant)
        owner = whole.variable_label_set.tolist()
        for v, name in enumerate(whole.variable_names):
            cells = self.cost[whole.label_ptr[v] : whole.label_ptr[v + 1]]
            s = owner[v]
            least = _least(cells[:, None], self.values[s], self.sets[s].size)[:, 0]
            builder.add_variable(name, self.sets[s], least, multiplicity=int(whole.multiplicity[v]))
        self._edges(builder)
        self._relations(builder)
        self._budgets(builder)
        return builder.build()

    def _edges(self, builder: ProblemBuilder) -> None:
        """Edges that share table and label sets share the projected table."""
        whole = self.whole
        if not whole.num_edges:
            return
        ends = whole.variable_label_set
        keys = np.stack([whole.edge_table, ends[whole.edge_u], ends[whole.edge_v]], axis=1)
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        tables = [
            builder.add_table(
                _least_pairs(whole.tables[t], (self.values[a], self.values[b]), (self.sets[a].size, self.sets[b].size))
            )
            for t, a, b in kinds.tolist()
        ]
        table = np.array(tables)[which.reshape(-1)]
        builder.add_edges(whole.edge_u, whole.edge_v, table, whole.edge_multiplicity)

    def _relations(self, builder: ProblemBuilder) -> None:
        """Pairs and ties; labels that are forbidden by themselves do not count already."""
        ends = self.whole.variable_label_set
        for number, relation in enumerate(self.whole.relations):
            if relation.kind is RelationKind.LABELS:
                continue
            a, b = int(ends[relation.u]), int(ends[relation.v])
            allowed = np.zeros((self.sets[a].size, self.sets[b].size), dtype=np.bool_)
            if relation.kind is RelationKind.PAIRS:
                rows, columns = np.nonzero(relation.array)
            else:
                rows = np.flatnonzero(relation.array >= 0)
                columns = relation.array[rows]
            allowed[self.values[a][rows], self.values[b][columns]] = True
            builder.allow_pairs(relation.u, relation.v, allowed, name=f"{relation.name} ({number})")

    def _budgets(self, builder: ProblemBuilder) -> None:
        whole = self.whole
        for linear in whole.linear_budgets:
            for sign, limit, word in ((1, linear.upper, "most"), (-1, linear.lower, "least")):
                if not np.isfinite(limit):
                    continue
                rows: dict[int | str, npt.ArrayLike] = {}
                for i, v in enumerate(linear.variables.tolist()):
                    rows[v] = sign * self._weigh(v, sign * linear.weights[linear.ptr[i] : linear.ptr[i + 1]])
                name, price = f"{linear.name} ({word})", linear.price
                if sign > 0:
                    builder.add_budget(name, rows, upper=limit, price=price)
                else:
                    builder.add_budget(name, rows, lower=limit, price=price)
        for live in whole.interval_budgets:
            uses = []
            for i, v in enumerate(live.variables.tolist()):
                weights = self._weigh(v, live.weights[live.ptr[i] : live.ptr[i + 1]])
                uses.append((v, int(live.start[i]), int(live.stop[i]), weights))
            builder.add_interval_budget(live.name, uses, limit=live.limit, price=live.price)

    def _weigh(self, v: int, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The least weight of each new label of a variable, in the kind of number it had."""
        s = int(self.whole.variable_label_set[v])
        value, size = self.values[s], self.sets[s].size
        order = np.argsort(value, kind="stable")
        starts = np.searchsorted(value[order], np.arange(size))
        return np.asarray(np.minimum.reduceat(weights[order], starts))


def _least(matrix: Floats, value: Ints, size: int) -> Floats:
    """float64[size, C]: for each value the least of the rows that have it."""
    order = np.argsort(value, kind="stable")
    starts = np.searchsorted(value[order], np.arange(size))
    return np.asarray(np.minimum.reduceat(matrix[order], starts, axis=0))


def _least_pairs(table: CostTable, values: tuple[Ints, Ints], sizes: tuple[int, int]) -> Floats:
    """The cheapest entry for each pair of values.

    Args:
        table: Costs of pairs of labels.
        values: The value of each row's and of each column's label.
        sizes: How many values there are.
    """
    rows, columns = values
    if isinstance(table, ClassedTable):
        # A label matters through its class only, so distinct pairs of value and class stand for all labels.
        row_pairs = np.unique(np.stack([rows, table.row_class], axis=1), axis=0)
        column_pairs = np.unique(np.stack([columns, table.col_class], axis=1), axis=0)
        inner = table.table.take(row_pairs[:, 1], column_pairs[:, 1])
        return _least_pairs(inner, (row_pairs[:, 0], column_pairs[:, 0]), sizes)
    if isinstance(table, LazyTable):
        count = table.shape
        entries = table.bounds(np.arange(count[0])[:, None], np.arange(count[1])[None])
    else:
        entries = table.to_dense()
    by_row = _least(entries, rows, sizes[0])
    return np.ascontiguousarray(_least(np.ascontiguousarray(by_row.T), columns, sizes[1]).T)
