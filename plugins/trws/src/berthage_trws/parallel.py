"""Parallel edges added up, for problems that no presolve has seen: the bound of several edges is weaker than of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from berthage import CostTable, DenseTable, PlacementProblem


def merge_parallel(
    problem: PlacementProblem, add: Callable[[Sequence[tuple[CostTable, int]]], CostTable | None] = lambda parts: None
) -> PlacementProblem:
    """The same problem with at most one edge between two variables. Lone edges keep their shared tables.

    Args:
        problem: The problem.
        add: Adds up tables of one shape, each counted so often; None where they are to be added up as matrices.
    """
    low = np.minimum(problem.edge_u, problem.edge_v).astype(np.int64)
    high = np.maximum(problem.edge_u, problem.edge_v).astype(np.int64)
    _, pair, count = np.unique(low * problem.num_variables + high, return_inverse=True, return_counts=True)
    if not (count > 1).any():
        return problem
    rank = np.argsort(pair, kind="stable")
    ends = np.cumsum(count)
    keep = np.ones(problem.num_edges, np.bool_)
    table, copies = problem.edge_table.copy(), problem.edge_multiplicity.copy()
    tables = list(problem.tables)
    for group in np.flatnonzero(count > 1).tolist():
        first, *others = rank[ends[group] - count[group] : ends[group]].tolist()
        copied = [(_turned(problem, tables, edge, first), int(copies[edge])) for edge in (first, *others)]
        added = add(copied)
        if added is not None:
            keep[others] = False
            table[first], copies[first] = len(tables), 1
            tables.append(added)
            continue
        values = tables[table[first]].to_dense()
        allowed = np.isfinite(values)
        with np.errstate(over="ignore"):
            total = values * float(copies[first])
            for edge in others:
                values = tables[table[edge]].to_dense()
                values = values.T if problem.edge_u[edge] != problem.edge_u[first] else values
                allowed = allowed & np.isfinite(values)
                total = total + values * float(copies[edge])
        if not np.isfinite(total[allowed]).all():
            continue  # the sum leaves the range of floats: leave these edges apart
        keep[others] = False
        table[first], copies[first] = len(tables), 1
        tables.append(DenseTable(total))
    names = problem.edge_names
    return replace(
        problem,
        tables=tuple(tables),
        edge_u=problem.edge_u[keep],
        edge_v=problem.edge_v[keep],
        edge_table=table[keep],
        edge_multiplicity=copies[keep],
        edge_names=None if names is None else tuple(np.array(names, object)[keep].tolist()),
    )


def _turned(problem: PlacementProblem, tables: Sequence[CostTable], edge: int, first: int) -> CostTable:
    """The table of an edge, its rows on the side of the first edge's."""
    table: CostTable = tables[int(problem.edge_table[edge])]
    return table.transpose() if problem.edge_u[edge] != problem.edge_u[first] else table
