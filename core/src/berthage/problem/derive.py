"""Pure derivations of a problem: each returns a new problem with a map back to the one it came from."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import Array, BoolArray, Int32Array, Int64Array, frozen
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.labels import LabelSet
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import RelationKind, Relations
from berthage.problem.tables import CostTable

__all__ = ["Derived", "take_labels"]

Budget = TypeVar("Budget", LinearBudget, IntervalBudget)


@dataclass(frozen=True, eq=False, slots=True)
class Derived:
    """A problem made from another, and the map back.

    Attributes:
        problem: The new problem.
        origin: The problem it was made from.
        variables: int32[n'], original index of each new variable.
        labels: int32[ΣK'], original label index of each label of each new variable, one after the other.
    """

    problem: PlacementProblem
    origin: PlacementProblem
    variables: Int32Array
    labels: Int32Array

    def lift(self, assignment: npt.ArrayLike, base: npt.ArrayLike | None = None) -> Int32Array:
        """The assignment of the original problem that a new one stands for.

        Args:
            assignment: Labels of the new problem, int[n'].
            base: Labels of the original for the variables that were dropped, int[n]; needed only when some were.

        Raises:
            InvalidProblemError: When variables were dropped and no base is given.
        """
        chosen = self.problem.check_assignment(assignment)
        if base is not None:
            lifted = self.origin.check_assignment(base).copy()
        elif len(self.variables) == self.origin.num_variables:
            lifted = np.zeros(self.origin.num_variables, dtype=np.int32)
        else:
            raise InvalidProblemError("variables were dropped: give a base assignment of the original problem")
        lifted[self.variables] = self.labels[self.problem.label_ptr[:-1] + chosen]
        return lifted

    def project(self, assignment: npt.ArrayLike) -> Int32Array | None:
        """The new problem's assignment for an original one; None when a chosen label was dropped."""
        wanted = self.origin.check_assignment(assignment)[self.variables]
        owner = np.repeat(np.arange(len(self.variables)), self.problem.num_labels)
        hits = np.flatnonzero(self.labels == wanted[owner])
        if len(hits) != len(self.variables):
            return None
        return (hits - self.problem.label_ptr[:-1]).astype(np.int32)


def identity(origin: PlacementProblem, problem: PlacementProblem) -> Derived:
    """A derivation that keeps every variable and label."""
    variables = frozen(np.arange(origin.num_variables), np.int32)
    labels = np.arange(len(origin.unary)) - np.repeat(origin.label_ptr[:-1], origin.num_labels)
    return Derived(problem, origin, variables, frozen(labels, np.int32))


def without(problem: PlacementProblem, names: Iterable[str]) -> PlacementProblem:
    """The problem without the named relations and budgets."""
    gone = set(names)
    known = problem.constraint_names
    for name in gone:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            all_names = f"{', '.join(map(repr, known[:10]))}{f' and {len(known) - 10} more' if len(known) > 10 else ''}"
            hint = f"did you mean {', '.join(map(repr, near))}?" if near else f"its constraints: {all_names or 'none'}"
            raise InvalidProblemError(f"problem {problem.name!r} has no constraint {name!r}; {hint}")
    stay = np.array([name not in gone for name in problem.relations.names], dtype=np.bool_)
    return replace(
        problem,
        relations=problem.relations.keep(stay),
        linear_budgets=tuple(b for b in problem.linear_budgets if b.name not in gone),
        interval_budgets=tuple(b for b in problem.interval_budgets if b.name not in gone),
    )


def restrict(problem: PlacementProblem, labels: Mapping[int | str, Iterable[int]] | npt.NDArray[np.bool_]) -> Derived:
    """See `PlacementProblem.restrict`."""
    if isinstance(labels, np.ndarray):
        if labels.shape != problem.unary.shape or labels.dtype != np.bool_:
            raise InvalidProblemError(
                f"a label mask must be bool[{len(problem.unary)}], got {labels.dtype}{list(labels.shape)}"
            )
        mask: BoolArray = labels
    else:
        mask = np.ones(len(problem.unary), dtype=np.bool_)
        for key, kept in labels.items():
            v = problem.variable_index(key) if isinstance(key, str) else int(key)
            if not 0 <= v < problem.num_variables:
                raise InvalidProblemError(f"there is no variable {v}; there are {problem.num_variables}")
            start, stop = int(problem.label_ptr[v]), int(problem.label_ptr[v + 1])
            mask[start:stop] = False
            mask[start + np.array([problem.labels(v).index(label) for label in kept], dtype=np.int64)] = True
    return take_labels(problem, mask)


def project(problem: PlacementProblem, variables: Iterable[int | str] | Array) -> Derived:
    """See `PlacementProblem.project`."""
    raw = [problem.variable_index(v) if isinstance(v, str) else int(v) for v in variables]
    if len(set(raw)) != len(raw):
        raise InvalidProblemError("a variable is listed twice in a projection")
    for v in raw:
        if not 0 <= v < problem.num_variables:
            raise InvalidProblemError(f"there is no variable {v}; there are {problem.num_variables}")
    kept = np.array(raw, dtype=np.int64)
    new_index = np.full(problem.num_variables, -1, dtype=np.int64)
    new_index[kept] = np.arange(len(kept))
    cells, _ = ragged(problem.label_ptr, kept)
    edges = np.flatnonzero((new_index[problem.edge_u] >= 0) & (new_index[problem.edge_v] >= 0))
    used, edge_table = np.unique(problem.edge_table[edges], return_inverse=True)
    sets, set_index = np.unique(problem.variable_label_set[kept], return_inverse=True)
    relations = problem.relations
    inside = (new_index[relations.u] >= 0) & ((relations.v < 0) | (new_index[relations.v] >= 0))
    relations = relations.keep(inside)
    relations = replace(
        relations,
        u=frozen(new_index[relations.u], np.int32),
        v=frozen(np.where(relations.v < 0, -1, new_index[relations.v]), np.int32),
    )
    new = replace(
        problem,
        label_sets=tuple(problem.label_sets[i] for i in sets.tolist()),
        variable_names=tuple(problem.variable_names[i] for i in raw),
        variable_label_set=frozen(set_index, np.int32),
        multiplicity=frozen(problem.multiplicity[kept], np.int64),
        unary=frozen(problem.unary[cells], np.float64),
        unary_residual=None if problem.unary_residual is None else frozen(problem.unary_residual[cells], np.int64),
        tables=tuple(problem.tables[i] for i in used.tolist()),
        edge_u=frozen(new_index[problem.edge_u[edges]], np.int32),
        edge_v=frozen(new_index[problem.edge_v[edges]], np.int32),
        edge_table=frozen(edge_table, np.int32),
        edge_multiplicity=frozen(problem.edge_multiplicity[edges], np.int64),
        edge_names=None if problem.edge_names is None else tuple(problem.edge_names[i] for i in edges.tolist()),
        relations=relations,
        linear_budgets=tuple(_project_budget(b, new_index) for b in problem.linear_budgets),
        interval_budgets=tuple(_project_budget(b, new_index) for b in problem.interval_budgets),
    )
    labels = cells - np.repeat(problem.label_ptr[kept], problem.num_labels[kept])
    return Derived(new, problem, frozen(kept, np.int32), frozen(labels, np.int32))


def ragged(ptr: Int64Array, rows: Array) -> tuple[Int64Array, Int64Array]:
    """Flat indices of the given rows of a ragged array, and the new row pointers."""
    counts = (ptr[1:] - ptr[:-1])[rows]
    new_ptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(counts, out=new_ptr[1:])
    cells = np.arange(int(new_ptr[-1])) + np.repeat(ptr[rows] - new_ptr[:-1], counts)
    return cells, new_ptr


def _project_budget(budget: Budget, new_index: Int64Array) -> Budget:
    rows = np.flatnonzero(new_index[budget.variables] >= 0)
    cells, ptr = ragged(budget.ptr, rows)
    variables = frozen(new_index[budget.variables[rows]], np.int32)
    weights = frozen(budget.weights[cells], budget.weights.dtype)
    if isinstance(budget, IntervalBudget):
        start, stop = frozen(budget.start[rows], np.int64), frozen(budget.stop[rows], np.int64)
        return replace(budget, variables=variables, ptr=frozen(ptr, np.int64), weights=weights, start=start, stop=stop)
    gone = np.flatnonzero(new_index[budget.variables] < 0)
    lower, upper = budget.lower, budget.upper
    if len(gone):
        least = np.minimum.reduceat(budget.weights, budget.ptr[:-1])[gone].tolist()
        greatest = np.maximum.reduceat(budget.weights, budget.ptr[:-1])[gone].tolist()
        add = sum if budget.weights.dtype.kind == "i" else math.fsum
        lower = lower - add(greatest) if math.isfinite(lower) else lower
        upper = upper - add(least) if math.isfinite(upper) else upper
    variables, ptr = frozen(variables, np.int32), frozen(ptr, np.int64)
    return replace(budget, variables=variables, ptr=ptr, weights=weights, lower=lower, upper=upper)


def take_labels(problem: PlacementProblem, mask: BoolArray) -> Derived:
    """The problem with only the labels marked in `mask`, bool[ΣK]; every variable is kept.

    Tables stay shared: two edges that shared a table and keep the same rows and columns share the smaller one.
    """
    n = problem.num_variables
    owner = np.repeat(np.arange(n), problem.num_labels)
    counts = np.bincount(owner[mask], minlength=n)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        raise InvalidProblemError(f"variable {problem.variable_names[int(empty[0])]!r} would keep no label")
    local = np.arange(len(mask)) - np.repeat(problem.label_ptr[:-1], problem.num_labels)
    kept_labels = frozen(local[mask], np.int32)
    touched = np.flatnonzero(counts != problem.num_labels)
    # What each variable keeps, as a shared selection: None for all labels, else an index into `selections`.
    selections: list[Int64Array] = []
    by_content: dict[tuple[int, bytes], int] = {}
    selection = np.full(n, -1, dtype=np.int64)
    new_sets = list(problem.label_sets)
    variable_label_set = problem.variable_label_set.copy()
    set_of: dict[tuple[int, int], int] = {}
    for v in touched.tolist():
        kept = np.flatnonzero(mask[problem.label_ptr[v] : problem.label_ptr[v + 1]])
        key = (int(problem.num_labels[v]), kept.tobytes())
        index = by_content.setdefault(key, len(selections))
        if index == len(selections):
            selections.append(kept)
        selection[v] = index
        old_set = int(problem.variable_label_set[v])
        if (old_set, index) not in set_of:
            set_of[old_set, index] = len(new_sets)
            new_sets.append(problem.label_sets[old_set].take(kept))
        variable_label_set[v] = set_of[old_set, index]
    label_sets, variable_label_set = _compact(new_sets, variable_label_set)
    tables, edge_table = _take_tables(problem, selections, selection)
    new = replace(
        problem,
        label_sets=label_sets,
        variable_label_set=frozen(variable_label_set, np.int32),
        unary=frozen(problem.unary[mask], np.float64),
        unary_residual=None if problem.unary_residual is None else frozen(problem.unary_residual[mask], np.int64),
        tables=tables,
        edge_table=frozen(edge_table, np.int32),
        relations=_take_relations(problem, selections, selection),
        linear_budgets=tuple(_take_budget(b, problem, mask) for b in problem.linear_budgets),
        interval_budgets=tuple(_take_budget(b, problem, mask) for b in problem.interval_budgets),
    )
    return Derived(new, problem, frozen(np.arange(n), np.int32), kept_labels)


def _compact(sets: list[LabelSet], index: Int32Array) -> tuple[tuple[LabelSet, ...], Array]:
    used, compact = np.unique(index, return_inverse=True)
    return tuple(sets[i] for i in used.tolist()), compact


def _take_tables(
    problem: PlacementProblem, selections: list[Int64Array], selection: Int64Array
) -> tuple[tuple[CostTable, ...], Array]:
    keys = np.stack([problem.edge_table.astype(np.int64), selection[problem.edge_u], selection[problem.edge_v]], axis=1)
    if not len(keys):
        return (), np.zeros(0, dtype=np.int32)
    unique, edge_table = np.unique(keys, axis=0, return_inverse=True)
    tables = []
    for table, rows, cols in unique.tolist():
        old = problem.tables[table]
        pick = (None if rows < 0 else selections[rows], None if cols < 0 else selections[cols])
        tables.append(old if rows < 0 and cols < 0 else old.take(*pick))
    return tuple(tables), edge_table.reshape(-1)


def _take_relations(problem: PlacementProblem, selections: list[Int64Array], selection: Int64Array) -> Relations:
    relations = problem.relations
    arrays: list[Array] = []
    shared: dict[tuple[int, int, int], int] = {}
    data = np.zeros(len(relations), dtype=np.int32)
    for row, relation in enumerate(relations):
        pick_v = int(selection[relation.v]) if relation.v >= 0 else -1
        key = (int(relations.data[row]), int(selection[relation.u]), pick_v)
        if key not in shared:
            array = relation.array
            if key[1] >= 0:
                array = array[selections[key[1]]]
            if pick_v >= 0 and relation.kind is RelationKind.PAIRS:
                array = array[:, selections[pick_v]]
            elif pick_v >= 0:
                moved = np.full(
                    int(problem.num_labels[relation.v]) + 1, -1, dtype=np.int32
                )  # last entry: where -1 points
                moved[selections[pick_v]] = np.arange(len(selections[pick_v]))
                array = moved[array]
            shared[key] = len(arrays)
            arrays.append(frozen(array, array.dtype))
        data[row] = shared[key]
    return replace(relations, data=frozen(data, np.int32), arrays=tuple(arrays))


def _take_budget(budget: Budget, problem: PlacementProblem, mask: BoolArray) -> Budget:
    cells, _ = ragged(problem.label_ptr, budget.variables)
    stay = mask[cells]
    counts = np.add.reduceat(stay, budget.ptr[:-1]) if len(budget.variables) else np.zeros(0, dtype=np.int64)
    ptr = np.zeros(len(budget.ptr), dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return replace(budget, ptr=frozen(ptr, np.int64), weights=frozen(budget.weights[stay], budget.weights.dtype))
