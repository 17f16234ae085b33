"""Changes whose effect on the answer is known: scaling, shifting, permuting, relabelling, turning edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, CostTable, DenseTable, LabelSet, LazyTable, PlacementProblem
from berthage.problem import IntervalBudget, LinearBudget, RelationKind
from berthage.testing.lazy import ArrayOracle

__all__ = ["Transformed", "permuted", "relabelled", "scaled", "shifted", "turned"]

Budget = TypeVar("Budget", LinearBudget, IntervalBudget)


@dataclass(frozen=True, eq=False)
class Transformed:
    """A changed problem, and what its answers mean for the original.

    Attributes:
        problem: the changed problem.
        scale: its objective is ``scale * original + shift``.
        shift: see ``scale``.
        variables: int[n], original index of each of its variables.
        labels: for each of its variables, the original label of each label.
    """

    problem: PlacementProblem
    scale: int
    shift: int
    variables: npt.NDArray[np.int64]
    labels: tuple[npt.NDArray[np.int64], ...]

    def back(self, assignment: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The original assignment that an assignment of the changed problem stands for."""
        chosen = np.asarray(assignment)
        original = np.zeros(len(chosen), dtype=np.int32)
        for v, label in enumerate(chosen.tolist()):
            original[self.variables[v]] = self.labels[v][label]
        return original

    def objective(self, original: int | float) -> int | float:
        """The objective here of what costs ``original`` there."""
        return self.scale * original + self.shift


def _same(problem: PlacementProblem, changed: PlacementProblem, scale: int = 1, shift: int = 0) -> Transformed:
    labels = tuple(np.arange(k) for k in problem.num_labels.tolist())
    return Transformed(changed, scale, shift, np.arange(problem.num_variables), labels)


def scaled(problem: PlacementProblem, factor: int) -> Transformed:
    """All costs, prices and the constant times a positive whole number. Costs must be exact in float64."""
    changed = replace(
        problem,
        unary=problem.unary * factor,
        tables=tuple(_scaled_table(table, factor) for table in problem.tables),
        constant=problem.constant * factor,
        linear_budgets=tuple(_scaled_price(budget, factor) for budget in problem.linear_budgets),
        interval_budgets=tuple(_scaled_price(budget, factor) for budget in problem.interval_budgets),
    )
    return _same(problem, changed, scale=factor)


def shifted(problem: PlacementProblem, amount: int) -> Transformed:
    """``amount`` added to the constant."""
    return _same(problem, replace(problem, constant=problem.constant + amount), shift=amount)


def turned(problem: PlacementProblem) -> Transformed:
    """Every edge with its ends and its table turned round."""
    changed = replace(
        problem,
        edge_u=problem.edge_v,
        edge_v=problem.edge_u,
        tables=tuple(table.transpose() for table in problem.tables),
    )
    return _same(problem, changed)


def permuted(problem: PlacementProblem, order: Sequence[int]) -> Transformed:
    """Variable ``order[i]`` becomes variable i."""
    kept = np.array(order, dtype=np.int64)
    new_index = np.empty(len(kept), dtype=np.int32)
    new_index[kept] = np.arange(len(kept))
    cells = _cells(problem, kept)
    relations = problem.relations
    changed = replace(
        problem,
        variable_names=tuple(problem.variable_names[v] for v in kept.tolist()),
        variable_label_set=problem.variable_label_set[kept],
        multiplicity=problem.multiplicity[kept],
        unary=problem.unary[cells],
        unary_residual=None if problem.unary_residual is None else problem.unary_residual[cells],
        edge_u=new_index[problem.edge_u],
        edge_v=new_index[problem.edge_v],
        relations=replace(
            relations,
            u=new_index[relations.u],
            v=np.array([-1 if v < 0 else new_index[v] for v in relations.v.tolist()], dtype=np.int32),
        ),
        linear_budgets=tuple(replace(b, variables=new_index[b.variables]) for b in problem.linear_budgets),
        interval_budgets=tuple(replace(b, variables=new_index[b.variables]) for b in problem.interval_budgets),
    )
    labels = tuple(np.arange(k) for k in changed.num_labels.tolist())
    return Transformed(changed, 1, 0, kept, labels)


def relabelled(problem: PlacementProblem, orders: Sequence[Sequence[int]]) -> Transformed:
    """Label ``orders[v][i]`` of every variable v becomes its label i."""
    takes = tuple(np.array(order, dtype=np.int64) for order in orders)
    everyone = np.arange(problem.num_variables, dtype=np.int64)
    cells = _cells(problem, everyone, takes)
    tables = tuple(
        problem.tables[t].take(takes[u], takes[v])
        for u, v, t in zip(problem.edge_u.tolist(), problem.edge_v.tolist(), problem.edge_table.tolist(), strict=True)
    )
    changed = replace(
        problem,
        label_sets=tuple(_relabelled_set(problem.labels(v), take) for v, take in enumerate(takes)),
        variable_label_set=np.arange(problem.num_variables, dtype=np.int32),
        unary=problem.unary[cells],
        unary_residual=None if problem.unary_residual is None else problem.unary_residual[cells],
        tables=tables,
        edge_table=np.arange(problem.num_edges, dtype=np.int32),
        relations=replace(
            problem.relations,
            data=np.arange(len(problem.relations), dtype=np.int32),
            arrays=tuple(_relabelled_relation(problem, row, takes) for row in range(len(problem.relations))),
        ),
        linear_budgets=tuple(_relabelled_budget(b, takes) for b in problem.linear_budgets),
        interval_budgets=tuple(_relabelled_budget(b, takes) for b in problem.interval_budgets),
    )
    return Transformed(changed, 1, 0, everyone, takes)


def _cells(
    problem: PlacementProblem,
    variables: npt.NDArray[np.int64],
    takes: tuple[npt.NDArray[np.int64], ...] | None = None,
) -> npt.NDArray[np.int64]:
    """Flat label indices of the variables in the given order, each one's labels in the order of its take."""
    parts = [
        int(problem.label_ptr[v]) + (np.arange(int(problem.num_labels[v])) if takes is None else takes[v])
        for v in variables.tolist()
    ]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, dtype=np.int64)


def _scaled_table(table: CostTable, factor: int) -> CostTable:
    if isinstance(table, ClassedTable):
        return ClassedTable(_scaled_table(table.table, factor), table.row_class, table.col_class)
    values = table.to_dense() * factor
    return LazyTable(ArrayOracle(values)) if isinstance(table, LazyTable) else DenseTable(values)


def _scaled_price(budget: Budget, factor: int) -> Budget:
    return replace(budget, price=None if budget.price is None else budget.price * factor)


def _relabelled_set(labels: LabelSet, take: npt.NDArray[np.int64]) -> LabelSet:
    names = None if labels.names is None else tuple(labels.names[i] for i in take.tolist())
    coordinates = None if labels.coordinates is None else labels.coordinates[take]
    return replace(labels, names=names, coordinates=coordinates)


def _relabelled_relation(
    problem: PlacementProblem, row: int, takes: tuple[npt.NDArray[np.int64], ...]
) -> npt.NDArray[Any]:
    relations = problem.relations
    data = relations.arrays[int(relations.data[row])][takes[int(relations.u[row])]]
    kind = RelationKind(int(relations.kind[row]))
    if kind is RelationKind.LABELS:
        return data
    take = takes[int(relations.v[row])]
    if kind is RelationKind.PAIRS:
        return data[:, take]
    new_label = np.empty(len(take) + 1, dtype=np.int32)
    new_label[take] = np.arange(len(take))
    new_label[-1] = -1  # an image of -1 (label not allowed) stays so
    return new_label[data]


def _relabelled_budget(budget: Budget, takes: tuple[npt.NDArray[np.int64], ...]) -> Budget:
    cells = [int(budget.ptr[i]) + takes[v] for i, v in enumerate(budget.variables.tolist())]
    return replace(budget, weights=budget.weights[np.concatenate(cells)] if cells else budget.weights)
