"""The brute-force oracle: every joint assignment of a small problem, priced at once in numpy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, PlacementProblem
from berthage.problem import IntervalBudget, LinearBudget, RelationKind

__all__ = ["BruteForce", "all_assignments", "brute_force", "price_all"]

DEFAULT_LIMIT = 200_000


@dataclass(frozen=True)
class BruteForce:
    """The true answer of a small problem.

    Attributes:
        objective: the optimum, a Python int when the problem is integral; inf when nothing is feasible.
        assignments: int32[k, n], every optimal assignment in lexicographic order; k is 0 when infeasible.
        feasible_count: how many of all joint assignments are feasible.
    """

    objective: int | float
    assignments: npt.NDArray[np.int32]
    feasible_count: int

    @property
    def feasible(self) -> bool:
        """Whether any assignment is feasible."""
        return self.feasible_count > 0


def all_assignments(problem: PlacementProblem, *, limit: int = DEFAULT_LIMIT) -> npt.NDArray[np.int32]:
    """int32[states, n]: every joint assignment in lexicographic order.

    Raises:
        InvalidProblemError: the problem has more than ``limit`` joint assignments.
    """
    sizes = problem.num_labels.tolist()
    states = math.prod(sizes)
    if states > limit:
        raise InvalidProblemError(
            f"problem {problem.name!r} has {states} joint assignments, more than the limit of {limit} for "
            "brute force; raise limit=, or use a smaller problem"
        )
    if not sizes:
        return np.zeros((1, 0), dtype=np.int32)
    grid = np.unravel_index(np.arange(states), sizes)
    return np.stack(grid, axis=1).astype(np.int32)


def price_all(
    problem: PlacementProblem, assignments: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Price many assignments at once, in exact arithmetic where the problem is integral.

    Args:
        problem: any problem.
        assignments: int[states, n] label indices.

    Returns:
        ``(costs, feasible)``: costs float64[states] (object array of Python ints when the problem is
        integral and its numbers outgrow float64); meaningless where ``feasible`` (bool[states]) is False.
    """
    exact = problem.is_integral and not _fits_float(problem)
    states = len(assignments)
    costs: npt.NDArray[Any] = np.full(states, problem.constant, dtype=object if exact else np.float64)
    feasible = np.ones(states, dtype=bool)

    def add(values: npt.NDArray[np.float64], residual: npt.NDArray[np.int64] | None, times: int | float) -> None:
        nonlocal costs
        finite = np.isfinite(values)
        feasible[~finite] = False
        usable = np.where(finite, values, 0.0)
        costs = costs + (_as_ints(usable, residual) if exact else usable) * times

    for v in range(problem.num_variables):
        at = int(problem.label_ptr[v]) + assignments[:, v]
        residual = None if problem.unary_residual is None else problem.unary_residual[at]
        add(problem.unary[at], residual, int(problem.multiplicity[v]))
    for e in range(problem.num_edges):
        table = problem.tables[int(problem.edge_table[e])]
        rows, cols = assignments[:, problem.edge_u[e]], assignments[:, problem.edge_v[e]]
        values, residual = table.exact(rows, cols)
        add(values, residual, int(problem.edge_multiplicity[e]))
    _apply_relations(problem, assignments, feasible)
    for excess, price, slack in _excesses(problem, assignments):
        if price is None:
            feasible &= excess <= slack
        elif exact:
            costs = costs + _as_ints(excess.astype(np.float64), None) * int(price)
        else:
            costs = costs + excess * price
    return costs, feasible


def brute_force(problem: PlacementProblem, limit: int = DEFAULT_LIMIT) -> BruteForce:
    """Find the optimum and every optimal assignment by trying them all.

    Raises:
        InvalidProblemError: the problem has more than ``limit`` joint assignments.
    """
    assignments = all_assignments(problem, limit=limit)
    costs, feasible = price_all(problem, assignments)
    kept, alive = costs[feasible], assignments[feasible]
    if not len(kept):
        return BruteForce(math.inf, alive, 0)
    best = kept.min()
    if problem.is_integral:
        return BruteForce(int(best), alive[kept == best], len(kept))
    # Sums of floats differ in their last bits by order of summation: ties within that noise are ties.
    noise = 1e-12 * max(1.0, float(np.abs(kept).max()))
    return BruteForce(float(best), alive[kept <= best + noise], len(kept))


def _fits_float(problem: PlacementProblem) -> bool:
    """Whether every partial sum of this integral problem is exact in float64."""
    if problem.unary_residual is not None:
        return False
    total = abs(float(problem.constant))
    for v in range(problem.num_variables):
        total += int(problem.multiplicity[v]) * _largest(problem.unary_of(v))
    for e in range(problem.num_edges):
        table = problem.tables[int(problem.edge_table[e])]
        total += int(problem.edge_multiplicity[e]) * _largest(table.to_dense())
    budgets: list[LinearBudget | IntervalBudget] = [*problem.linear_budgets, *problem.interval_budgets]
    for budget in budgets:
        if budget.price is not None:
            total += float(budget.price) * (float(np.abs(budget.weights).sum()) + _limits(budget))
    return total < 2.0**52


def _limits(budget: LinearBudget | IntervalBudget) -> float:
    ends = [getattr(budget, key, 0.0) for key in ("lower", "upper", "limit")]
    return float(sum(abs(end) for end in ends if math.isfinite(end)))


def _largest(values: npt.NDArray[np.float64]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _as_ints(values: npt.NDArray[np.float64], residual: npt.NDArray[np.int64] | None) -> npt.NDArray[Any]:
    ints = np.array([int(value) for value in values.tolist()], dtype=object)
    return ints if residual is None else ints + residual.astype(object)


def _apply_relations(
    problem: PlacementProblem, assignments: npt.NDArray[np.int32], feasible: npt.NDArray[np.bool_]
) -> None:
    relations = problem.relations
    for row in range(len(relations.kind)):
        data = relations.arrays[int(relations.data[row])]
        mine = assignments[:, relations.u[row]]
        kind = RelationKind(int(relations.kind[row]))
        if kind is RelationKind.LABELS:
            feasible &= data[mine]
        elif kind is RelationKind.PAIRS:
            feasible &= data[mine, assignments[:, relations.v[row]]]
        else:
            feasible &= data[mine] == assignments[:, relations.v[row]]


def _excesses(
    problem: PlacementProblem, assignments: npt.NDArray[np.int32]
) -> list[tuple[npt.NDArray[Any], float | int | None, float]]:
    """(amount outside the limits of each assignment, price, rounding forgiven) of every budget."""
    found: list[tuple[npt.NDArray[Any], float | int | None, float]] = []
    for linear in problem.linear_budgets:
        used = linear.weights[linear.ptr[:-1] + assignments[:, linear.variables]].sum(axis=1)
        outside = np.maximum(np.maximum(used - linear.upper, linear.lower - used), 0)
        found.append((outside, linear.price, linear.slack))
    for interval in problem.interval_budgets:
        weights = interval.weights[interval.ptr[:-1] + assignments[:, interval.variables]]
        live = (interval.start[None, :] <= interval.start[:, None]) & (interval.start[:, None] < interval.stop[None, :])
        use = weights @ live.T.astype(weights.dtype)
        peak = use.max(axis=1) if use.shape[1] else np.zeros(len(assignments), dtype=use.dtype)
        found.append((np.maximum(peak - interval.limit, 0), interval.price, interval.slack))
    return found
