"""Structural checks of a problem that did not come from a builder, for instance from a file."""

from __future__ import annotations

import math

import numpy as np

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import MOST_COPIES, Array, check_costs
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import RelationKind

__all__ = ["validate"]


def validate(problem: PlacementProblem) -> PlacementProblem:
    """Check that the arrays of a problem fit each other and hold what they may, and return it.

    Raises:
        InvalidProblemError: Naming the first array, edge or constraint that is wrong.
    """
    n, m = len(problem.variable_names), len(problem.edge_u)
    _vector("variable_label_set", problem.variable_label_set, n, 0, len(problem.label_sets) - 1)
    _vector("multiplicity", problem.multiplicity, n, 1, MOST_COPIES)
    if len(set(problem.variable_names)) != n:
        raise InvalidProblemError("two variables have the same name")
    for labels in problem.label_sets:
        if labels.size < 1 or (labels.names is not None and len(set(labels.names)) != labels.size):
            raise InvalidProblemError("a label set needs at least one label and distinct label names")
        if labels.coordinates is not None and (labels.coordinates.ndim != 2 or len(labels.coordinates) != labels.size):
            raise InvalidProblemError("a label set needs one row of coordinates a label")
    if problem.unary.shape != (int(problem.num_labels.sum()),):
        raise InvalidProblemError(
            f"unary has shape {problem.unary.shape}, the variables have {problem.num_labels.sum()} labels"
        )
    check_costs(problem.unary, "unary")
    if problem.unary_residual is not None and problem.unary_residual.shape != problem.unary.shape:
        raise InvalidProblemError("unary_residual must have the shape of unary")
    for name, array, high in (
        ("edge_u", problem.edge_u, n - 1),
        ("edge_v", problem.edge_v, n - 1),
        ("edge_table", problem.edge_table, len(problem.tables) - 1),
    ):
        _vector(name, array, m, 0, high)
    _vector("edge_multiplicity", problem.edge_multiplicity, m, 1, MOST_COPIES)
    if problem.edge_names is not None and len(problem.edge_names) != m:
        raise InvalidProblemError(f"{len(problem.edge_names)} edge names for {m} edges")
    if (problem.edge_u == problem.edge_v).any():
        raise InvalidProblemError("an edge joins a variable with itself; fold its diagonal into the unary cost")
    if m:
        shapes = np.array([table.shape for table in problem.tables])[problem.edge_table]
        ends = np.stack([problem.num_labels[problem.edge_u], problem.num_labels[problem.edge_v]], axis=1)
        for e in np.flatnonzero((shapes != ends).any(axis=1))[:1].tolist():
            raise InvalidProblemError(
                f"edge {problem.edge_name(e)!r}: its table has shape {tuple(shapes[e].tolist())}, "
                f"its ends have {tuple(ends[e].tolist())} labels"
            )
    _relations(problem)
    for budget in problem.budgets:
        _budget(budget, problem)
    names = [budget.name for budget in problem.budgets]
    if len(set(names)) != len(names) or set(names) & set(problem.relations.names):
        raise InvalidProblemError("two constraints have the same name")
    if not math.isfinite(problem.constant):
        raise InvalidProblemError(f"the constant must be finite, got {problem.constant!r}")
    return problem


def _vector(name: str, array: Array, size: int, low: int, high: int) -> None:
    if array.shape != (size,):
        raise InvalidProblemError(f"{name} has shape {array.shape}, expected ({size},)")
    if size and (array.min() < low or array.max() > high):
        raise InvalidProblemError(f"{name} holds {array.min()} to {array.max()}, expected {low} to {high}")


def _relations(problem: PlacementProblem) -> None:
    relations = problem.relations
    h = len(relations.kind)
    _vector("relation kind", relations.kind, h, 0, max(RelationKind))
    _vector("relation u", relations.u, h, 0, problem.num_variables - 1)
    _vector("relation v", relations.v, h, -1, problem.num_variables - 1)
    _vector("relation data", relations.data, h, 0, len(relations.arrays) - 1)
    if len(relations.names) != h:
        raise InvalidProblemError(f"{len(relations.names)} relation names for {h} relations")
    for relation in relations:
        if (relation.kind is RelationKind.LABELS) != (relation.v < 0) or relation.u == relation.v:
            raise InvalidProblemError(
                f"constraint {relation.name!r}: a relation on labels has one variable, others have two"
            )
        shape: tuple[int, ...] = (int(problem.num_labels[relation.u]),)
        if relation.kind is RelationKind.PAIRS:
            shape = (*shape, int(problem.num_labels[relation.v]))
        dtype = np.dtype(np.int32 if relation.kind is RelationKind.TIE else np.bool_)
        if relation.array.shape != shape or relation.array.dtype != dtype:
            got = f"{relation.array.dtype}{list(relation.array.shape)}"
            raise InvalidProblemError(f"constraint {relation.name!r}: expected {dtype}{list(shape)}, got {got}")
        if relation.kind is RelationKind.TIE:
            _vector(f"tie {relation.name!r}", relation.array, shape[0], -1, int(problem.num_labels[relation.v]) - 1)


def _budget(budget: LinearBudget | IntervalBudget, problem: PlacementProblem) -> None:
    k = len(budget.variables)
    what = f"budget {budget.name!r}"
    _vector(f"{what}: variables", budget.variables, k, 0, problem.num_variables - 1)
    counts = problem.num_labels[budget.variables].astype(np.int64)
    if budget.ptr.shape != (k + 1,) or budget.ptr[0] != 0 or (budget.ptr[1:] - budget.ptr[:-1] != counts).any():
        raise InvalidProblemError(f"{what}: needs one weight a label of each variable")
    if budget.weights.shape != (int(counts.sum()),) or budget.weights.dtype not in (np.int64, np.float64):
        raise InvalidProblemError(f"{what}: needs {counts.sum()} int64 or float64 weights")
    if not np.isfinite(budget.weights).all():
        raise InvalidProblemError(f"{what}: weights must be finite")
    if budget.price is not None and not (math.isfinite(budget.price) and budget.price >= 0):
        raise InvalidProblemError(f"{what}: the price must be finite and ≥ 0, got {budget.price!r}")
    if isinstance(budget, LinearBudget):
        if len(np.unique(budget.variables)) != k:
            raise InvalidProblemError(f"{what}: names a variable twice")
        if not budget.lower <= budget.upper or budget.lower == np.inf or budget.upper == -np.inf:
            raise InvalidProblemError(f"{what}: lower {budget.lower!r} must not exceed upper {budget.upper!r}")
        return
    if budget.start.shape != (k,) or budget.stop.shape != (k,) or (budget.stop < budget.start).any():
        raise InvalidProblemError(f"{what}: needs one half-open interval a row, ending no earlier than it starts")
    if k and budget.weights.min() < 0:
        raise InvalidProblemError(f"{what}: what is live uses ≥ 0, got {budget.weights.min()}")
    if not math.isfinite(budget.limit):
        raise InvalidProblemError(f"{what}: the limit must be finite, got {budget.limit!r}")
