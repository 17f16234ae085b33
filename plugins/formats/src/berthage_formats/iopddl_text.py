"""The JSON document of an IOPDDL problem."""

from __future__ import annotations

from typing import Any

from berthage import PlacementProblem, UnsupportedProblemError
from berthage_formats.jsonio import shown
from berthage_formats.plain import plain

__all__ = ["FORBIDDEN", "document"]

FORBIDDEN = 10**18
"""From this cost on, a choice is infeasible."""


def document(problem: PlacementProblem) -> dict[str, Any]:
    """The JSON document of a problem."""
    source = plain(problem, "iopddl", budgets=True)
    limit, spans, usages = _usage_of(problem)
    costs = [source.unary(v) for v in range(problem.num_variables)]
    if source.constant != 0:
        if not costs:
            raise UnsupportedProblemError("iopddl cannot say a constant without variables; use the format berthage")
        costs[0] = [cost + source.constant for cost in costs[0]]  # every assignment picks exactly one of them
    tables: dict[tuple[int, int], list[int | float]] = {}
    ends, edge_costs = [], []
    for u, v, table, multiplicity in source.edges():
        key = (table, multiplicity)
        if key not in tables:
            tables[key] = _costs(source.table(table, multiplicity), problem.name)
        ends.append([u, v])
        edge_costs.append(tables[key])
    document: dict[str, Any] = {
        "name": problem.name,
        "nodes": {
            "intervals": spans,
            "costs": [_costs(row, problem.name) for row in costs],
            "usages": usages,
        },
        "edges": {"nodes": ends, "costs": edge_costs},
    }
    if limit is not None:
        document["usage_limit"] = limit
    return {"problem": document}


def _costs(values: list[int | float], name: str) -> list[int | float]:
    """Costs as the file has them; refuses those that it would take for infeasible."""
    out: list[int | float] = []
    for cost in values:
        if cost == float("inf"):
            out.append(FORBIDDEN)
        elif cost >= FORBIDDEN:
            raise UnsupportedProblemError(
                f"iopddl takes a cost of 10^18 or more for infeasible, and {name!r} has the finite cost "
                f"{cost}; "
                "rescale the costs"
            )
        else:
            out.append(cost)
    return out


def _usage_of(
    problem: PlacementProblem,
) -> tuple[int | float | None, list[list[int]], list[list[int | float]]]:
    """Usage limit, interval of every node and usages of every node."""
    spans = [[0, 0] for _ in range(problem.num_variables)]
    usages: list[list[int | float]] = [[0] * size for size in problem.num_labels.tolist()]
    if problem.linear_budgets:
        raise UnsupportedProblemError(
            f"iopddl cannot say the linear budget {problem.linear_budgets[0].name!r}; use the format berthage"
        )
    if len(problem.interval_budgets) > 1:
        names = ", ".join(repr(budget.name) for budget in problem.interval_budgets)
        raise UnsupportedProblemError(f"iopddl has one usage limit, the problem has {names}; use the format berthage")
    if not problem.interval_budgets:
        return None, spans, usages
    budget = problem.interval_budgets[0]
    if budget.price is not None:
        raise UnsupportedProblemError(f"iopddl cannot say the soft budget {budget.name!r}; use the format berthage")
    seen: set[int] = set()
    columns = zip(budget.variables.tolist(), budget.start.tolist(), budget.stop.tolist(), strict=True)
    for row, (v, start, stop) in enumerate(columns):
        if v in seen:
            raise UnsupportedProblemError(
                f"iopddl gives a node one interval, but {shown(problem.variable_names[v])} is live more "
                f"than once in {budget.name!r}"
            )
        seen.add(v)
        spans[v] = [start, stop]
        usages[v] = budget.weights[budget.ptr[row] : budget.ptr[row + 1]].tolist()
    return budget.limit, spans, usages
