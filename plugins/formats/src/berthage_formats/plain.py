"""A problem as writers need it: relations written as costs, multiplicities multiplied in, numbers exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem, UnsupportedProblemError, lower_relations

__all__ = ["PlainProblem", "number_text", "plain"]


@dataclass(frozen=True)
class PlainProblem:
    """Costs of a problem as Python numbers: whole ones as exact integers, the others as floats.

    Attributes:
        problem: The problem, with relations turned into infinite costs.
    """

    problem: PlacementProblem

    @property
    def constant(self) -> int | float:
        """The constant, an integer when it is whole."""
        return _number(self.problem.constant, 0)

    def unary(self, variable: int) -> list[int | float]:
        """Unary costs of a variable, all its copies together."""
        p = self.problem
        start, stop = int(p.label_ptr[variable]), int(p.label_ptr[variable + 1])
        residual = None if p.unary_residual is None else p.unary_residual[start:stop]
        return _scaled(p.unary[start:stop], residual, int(p.multiplicity[variable]))

    def table(self, index: int, multiplicity: int) -> list[int | float]:
        """Costs of a table, row by row, times a multiplicity."""
        table = self.problem.tables[index]
        rows, cols = table.shape
        values, residual = table.exact(np.arange(rows)[:, None], np.arange(cols)[None, :])
        return _scaled(values.ravel(), None if residual is None else residual.ravel(), multiplicity)

    def edges(self) -> list[tuple[int, int, int, int]]:
        """``(u, v, table, multiplicity)`` of every edge."""
        p = self.problem
        columns = (p.edge_u.tolist(), p.edge_v.tolist(), p.edge_table.tolist(), p.edge_multiplicity.tolist())
        return list(zip(*columns, strict=True))


def plain(problem: PlacementProblem, format_name: str, *, budgets: bool = False) -> PlainProblem:
    """Prepare a problem for a writer.

    Args:
        problem: The problem to write.
        format_name: How errors call the format.
        budgets: Whether the format can say budgets (the writer then looks at them itself).

    Raises:
        UnsupportedProblemError: It has budgets and the format cannot say any.
    """
    if problem.has_budgets and not budgets:
        names = [b.name for b in problem.linear_budgets] + [b.name for b in problem.interval_budgets]
        raise UnsupportedProblemError(
            f"{format_name} cannot say the budget {names[0]!r}; drop the budgets or use the format berthage"
        )
    return PlainProblem(lower_relations(problem))


def number_text(value: int | float) -> str:
    """The shortest text that reads back as the same number."""
    return "inf" if value == float("inf") else repr(value)


def _scaled(values: npt.NDArray[np.float64], residual: npt.NDArray[Any] | None, factor: int) -> list[int | float]:
    extra = [0] * len(values) if residual is None else residual.tolist()
    return [_number(value, rest) * factor for value, rest in zip(values.tolist(), extra, strict=True)]


def _number(value: int | float, residual: int) -> int | float:
    """A whole number as an exact integer, anything else as it is."""
    if isinstance(value, int):
        return value + residual
    return int(value) + residual if value.is_integer() else float(value)
