"""A second evaluator that shares nothing with core's: plain Python, one term at a time, exact fractions.

Slow on purpose. Every sum is a `fractions.Fraction`, every budget is checked at every instant where anything
starts, and cost tables are opened by hand instead of through their own ``lookup``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from berthage import ClassedTable, CostTable, DenseTable, PlacementProblem
from berthage.problem import IntervalBudget, LinearBudget, RelationKind

__all__ = ["ReferenceValue", "reference_evaluate"]


@dataclass(frozen=True)
class ReferenceValue:
    """What the reference evaluator says of one assignment.

    Attributes:
        cost: exact total, soft-budget penalties and the constant included; None when a forbidden (infinite)
            entry is picked.
        violated: names of the hard relations and budgets that are broken (relations by their constraint
            name).
        forbidden: True when an infinite unary or pairwise entry is picked.
    """

    cost: Fraction | None
    violated: frozenset[str]
    forbidden: bool

    @property
    def feasible(self) -> bool:
        """Nothing forbidden and nothing broken."""
        return not self.forbidden and not self.violated

    @property
    def objective(self) -> float:
        """The cost as a float; inf when something forbidden is picked."""
        return math.inf if self.cost is None else float(self.cost)


def reference_evaluate(problem: PlacementProblem, assignment: Sequence[int]) -> ReferenceValue:
    """Evaluate ``assignment`` (one label index per variable) term by term in exact arithmetic."""
    choice = [int(label) for label in assignment]
    if len(choice) != problem.num_variables:
        raise ValueError(f"{len(choice)} labels for {problem.num_variables} variables")
    terms: list[Fraction | None] = [_number(problem.constant, 0)]
    for v, label in enumerate(choice):
        terms.append(_times(int(problem.multiplicity[v]), _unary(problem, v, label)))
    for e in range(problem.num_edges):
        table = problem.tables[int(problem.edge_table[e])]
        entry = _entry(table, choice[int(problem.edge_u[e])], choice[int(problem.edge_v[e])])
        terms.append(_times(int(problem.edge_multiplicity[e]), entry))
    forbidden = any(term is None for term in terms)
    violated = set(_broken_relations(problem, choice))
    penalty = Fraction(0)
    for name, excess, price, forgiven in _budget_excesses(problem, choice):
        if price is not None:
            penalty += excess * Fraction(price)
        elif excess > forgiven:
            violated.add(name)
    cost = None if forbidden else sum((t for t in terms if t is not None), Fraction(0)) + penalty
    return ReferenceValue(cost=cost, violated=frozenset(violated), forbidden=forbidden)


def _number(value: float | int, residual: int) -> Fraction | None:
    if isinstance(value, float | np.floating) and math.isinf(value):
        return None
    return Fraction(value) + residual


def _times(factor: int, value: Fraction | None) -> Fraction | None:
    return None if value is None else factor * value


def _unary(problem: PlacementProblem, v: int, label: int) -> Fraction | None:
    at = int(problem.label_ptr[v]) + label
    residual = 0 if problem.unary_residual is None else int(problem.unary_residual[at])
    return _number(float(problem.unary[at]), residual)


def _entry(table: CostTable, row: int, col: int) -> Fraction | None:
    if isinstance(table, ClassedTable):
        return _entry(table.table, int(table.row_class[row]), int(table.col_class[col]))
    if isinstance(table, DenseTable):
        residual = 0 if table.residual is None else int(table.residual[row, col])
        return _number(float(table.values[row, col]), residual)
    return _number(float(table.to_dense()[row, col]), 0)


def _broken_relations(problem: PlacementProblem, choice: list[int]) -> list[str]:
    relations = problem.relations
    broken = []
    for row, name in enumerate(relations.names):
        kind = RelationKind(int(relations.kind[row]))
        data = relations.arrays[int(relations.data[row])]
        mine = choice[int(relations.u[row])]
        if kind is RelationKind.LABELS:
            holds = bool(data[mine])
        elif kind is RelationKind.PAIRS:
            holds = bool(data[mine, choice[int(relations.v[row])]])
        else:
            holds = int(data[mine]) == choice[int(relations.v[row])]
        if not holds:
            broken.append(name)
    return broken


def _budget_excesses(
    problem: PlacementProblem, choice: list[int]
) -> list[tuple[str, Fraction, float | int | None, Fraction]]:
    """(name, amount outside the limits, price, rounding forgiven) of every budget."""
    found: list[tuple[str, Fraction, float | int | None, Fraction]] = []
    for linear in problem.linear_budgets:
        used = Fraction(0)
        for i, v in enumerate(linear.variables.tolist()):
            used += _weight(linear.weights[int(linear.ptr[i]) + choice[v]])
        over = Fraction(0) if math.isinf(linear.upper) else used - _weight(linear.upper)
        under = Fraction(0) if math.isinf(linear.lower) else _weight(linear.lower) - used
        found.append((linear.name, max(over, under, Fraction(0)), linear.price, _forgiven(linear)))
    for interval in problem.interval_budgets:
        rows = [
            (int(start), int(stop), _weight(interval.weights[int(interval.ptr[i]) + choice[int(v)]]))
            for i, (v, start, stop) in enumerate(zip(interval.variables, interval.start, interval.stop, strict=True))
        ]
        # Use only changes where a row starts or stops, so its peak over time is reached at some start.
        peak = max(
            (sum((w for a, b, w in rows if a <= t < b), Fraction(0)) for t in {a for a, _, _ in rows}),
            default=Fraction(0),
        )
        found.append(
            (interval.name, max(peak - _weight(interval.limit), Fraction(0)), interval.price, _forgiven(interval))
        )
    return found


def _forgiven(budget: LinearBudget | IntervalBudget) -> Fraction:
    """Hard budgets over floats forgive a relative 1e-9 of their limit (at least 1e-9); over whole numbers nothing."""
    if budget.weights.dtype.kind != "f":
        return Fraction(0)
    ends = (budget.limit,) if isinstance(budget, IntervalBudget) else (budget.upper, budget.lower)
    scale = next((abs(Fraction(float(end))) for end in ends if math.isfinite(end)), Fraction(0))
    return Fraction(1e-9) * max(Fraction(1), scale)


def _weight(value: object) -> Fraction:
    return Fraction(value.item() if isinstance(value, np.generic) else value)  # type: ignore[arg-type]
