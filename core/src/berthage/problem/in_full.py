"""Pricing the lazy tables of a problem in full, for those who need every entry: files, and solvers without laziness."""

from __future__ import annotations

from dataclasses import replace

from berthage.problem.model import PlacementProblem
from berthage.problem.tables import ClassedTable, CostTable, DenseTable, LazyTable

__all__ = ["priced"]


def priced(problem: PlacementProblem) -> PlacementProblem:
    """The same problem with every entry of every lazy table priced; tables that shared their entries still do.

    A problem without lazy tables is returned as it is.
    """
    if not any(isinstance(_inner(table), LazyTable) for table in problem.tables):
        return problem
    known: dict[int, DenseTable] = {}
    return replace(problem, tables=tuple(_priced(table, known) for table in problem.tables))


def _inner(table: CostTable) -> CostTable:
    while isinstance(table, ClassedTable):
        table = table.table
    return table


def _priced(table: CostTable, known: dict[int, DenseTable]) -> CostTable:
    if isinstance(table, ClassedTable):
        return ClassedTable(_priced(table.table, known), table.row_class, table.col_class)
    if isinstance(table, LazyTable):
        if id(table) not in known:
            known[id(table)] = DenseTable(table.to_dense())
        return known[id(table)]
    return table
