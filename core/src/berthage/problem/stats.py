"""Sizes and ranges of a problem, for reports and for choosing an algorithm by size."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from berthage.problem.model import PlacementProblem

__all__ = ["ProblemStats"]


@dataclass(frozen=True, slots=True)
class ProblemStats:
    """Sizes of a problem.

    Attributes:
        variables: Number of variables.
        labels: Number of labels over all variables.
        max_labels: Labels of the largest variable.
        edges: Number of pairwise terms.
        tables: Number of distinct cost tables.
        cells: Pairwise entries over all edges, as if no table were shared.
        stored_cells: Entries actually stored.
        classed_tables: Tables that are classed.
        lazy_tables: Tables that are lazy.
        relations: Rows of hard relations.
        linear_budgets: Number of linear budgets.
        interval_budgets: Number of interval budgets.
        forbidden_labels: Labels whose unary cost is inf.
        components: Connected components through edges, relations and budgets.
        integral: Whether every objective is a whole number.
    """

    variables: int
    labels: int
    max_labels: int
    edges: int
    tables: int
    cells: int
    stored_cells: int
    classed_tables: int
    lazy_tables: int
    relations: int
    linear_budgets: int
    interval_budgets: int
    forbidden_labels: int
    components: int
    integral: bool

    def as_dict(self) -> dict[str, int | bool]:
        """The same as a plain dictionary, for JSON."""
        return asdict(self)


def problem_stats(problem: PlacementProblem) -> ProblemStats:
    """Measure a problem; see `ProblemStats`. Prices nothing."""
    counts = problem.num_labels.astype(np.int64)
    stored = 0
    for table in problem.tables:
        inner = table
        while hasattr(inner, "table"):
            inner = inner.table
        stored += 0 if inner.kind == "lazy" else inner.shape[0] * inner.shape[1]
    return ProblemStats(
        variables=problem.num_variables,
        labels=len(problem.unary),
        max_labels=int(counts.max(initial=0)),
        edges=problem.num_edges,
        tables=len(problem.tables),
        cells=int((counts[problem.edge_u] * counts[problem.edge_v]).sum()),
        stored_cells=stored,
        classed_tables=sum(table.kind == "classed" for table in problem.tables),
        lazy_tables=sum(table.kind == "lazy" for table in problem.tables),
        relations=len(problem.relations),
        linear_budgets=len(problem.linear_budgets),
        interval_budgets=len(problem.interval_budgets),
        forbidden_labels=int(np.isinf(problem.unary).sum()),
        components=len(np.unique(component_of(problem))),
        integral=problem.is_integral,
    )


def component_of(problem: PlacementProblem) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """int64[n], the least variable index of each variable's connected component (edges, relations, budgets)."""
    pair_rows = problem.relations.v >= 0
    chains = [b.variables for b in problem.budgets if len(b.variables) > 1]
    u = np.concatenate([problem.edge_u, problem.relations.u[pair_rows], *(c[:-1] for c in chains)]).astype(np.int64)
    v = np.concatenate([problem.edge_v, problem.relations.v[pair_rows], *(c[1:] for c in chains)]).astype(np.int64)
    label = np.arange(problem.num_variables, dtype=np.int64)
    while True:  # hook to the least neighbour, then jump: a logarithmic number of vectorised rounds
        least = np.minimum(label[u], label[v])
        new = label.copy()
        np.minimum.at(new, label[u], least)
        np.minimum.at(new, label[v], least)
        np.minimum.at(new, u, least)
        np.minimum.at(new, v, least)
        new = new[new]
        if (new == label).all():
            return label
        label = new
