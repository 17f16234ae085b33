"""Turning hard relations into costs, for solvers that know only unary and pairwise costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from berthage.problem.arrays import BoolArray, Float64Array, frozen
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import Relation, RelationKind, Relations
from berthage.problem.tables import CostTable, DenseTable

__all__ = ["allowed_labels", "allowed_pairs", "lower_relations"]


def allowed_labels(problem: PlacementProblem) -> BoolArray:
    """bool[ΣK]: labels that neither an infinite unary cost nor a LABELS or TIE relation forbids by itself."""
    mask = np.isfinite(problem.unary)
    for relation in problem.relations:
        start, stop = problem.label_ptr[relation.u], problem.label_ptr[relation.u + 1]
        if relation.kind is RelationKind.LABELS:
            mask[start:stop] &= relation.array
        elif relation.kind is RelationKind.TIE:
            mask[start:stop] &= relation.array >= 0
            reached = np.zeros(int(problem.num_labels[relation.v]), dtype=np.bool_)
            reached[relation.array[relation.array >= 0]] = True
            mask[problem.label_ptr[relation.v] : problem.label_ptr[relation.v + 1]] &= reached
    return mask


def allowed_pairs(problem: PlacementProblem, relation: Relation) -> BoolArray:
    """bool[K_u, K_v]: the pairs that a PAIRS or TIE relation allows."""
    if relation.kind is RelationKind.PAIRS:
        pairs: BoolArray = relation.array
        return pairs
    cols = np.arange(int(problem.num_labels[relation.v]))
    tied: BoolArray = relation.array[:, None] == cols[None, :]
    return tied


def lower_relations(problem: PlacementProblem) -> PlacementProblem:
    """The same problem with every relation written as an infinite cost.

    Forbidden labels become ``inf`` in the unary costs; pairs and ties become edges whose tables are 0 where allowed and
    inf elsewhere, shared where the relations share. Variables, labels, objectives and budgets stay as they are, so a
    solver that knows only unary and pairwise costs calls this first and is complete.
    """
    if not problem.has_relations:
        return problem
    unary: Float64Array = np.where(allowed_labels(problem), problem.unary, np.inf)
    tables: list[CostTable] = list(problem.tables)
    shared: dict[tuple[int, int, int], int] = {}
    u, v, index = [], [], []
    for row, relation in enumerate(problem.relations):
        if relation.kind is RelationKind.LABELS:
            continue
        key = (int(problem.relations.data[row]), int(relation.kind), int(problem.num_labels[relation.v]))
        if key not in shared:
            shared[key] = len(tables)
            tables.append(DenseTable(np.where(allowed_pairs(problem, relation), 0.0, np.inf)))
        u.append(relation.u)
        v.append(relation.v)
        index.append(shared[key])
    names = None
    if problem.edge_names is not None:
        paired = [r.name for r in problem.relations if r.kind is not RelationKind.LABELS]
        names = (*problem.edge_names, *paired)
    return replace(
        problem,
        unary=frozen(unary, np.float64),
        tables=tuple(tables),
        edge_u=frozen(np.concatenate([problem.edge_u, u]), np.int32),
        edge_v=frozen(np.concatenate([problem.edge_v, v]), np.int32),
        edge_table=frozen(np.concatenate([problem.edge_table, index]), np.int32),
        edge_multiplicity=frozen(np.concatenate([problem.edge_multiplicity, np.ones(len(u))]), np.int64),
        edge_names=names,
        relations=Relations.none(),
    )
