"""Why a problem has no assignment: cheap checks before any solver, and the constraints that clash after one said so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from berthage.problem.arrays import Array, BoolArray, Float64Array, Int32Array, frozen
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.lower import allowed_labels
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import RelationKind
from berthage.problem.tables import ClassedTable, CostTable, DenseTable
from berthage.solving.results import Infeasibility

__all__ = ["clashing_constraints", "feasibility_problem", "static_infeasibility"]


def static_infeasibility(problem: PlacementProblem) -> Infeasibility | None:
    """A reason that needs no search, or None: a variable without a label, or a budget no choice can meet.

    The least use of an interval budget at an instant is the sum of the least weights of what is live there; the
    greatest of these over time is the limit below which no assignment can exist.
    """
    allowed = allowed_labels(problem)
    found = _no_label(problem, allowed)
    if found is not None:
        return found
    for linear in problem.linear_budgets:
        if linear.price is None and (found := _linear(linear, problem, allowed)):
            return found
    for interval in problem.interval_budgets:
        if interval.price is None and (found := _interval(interval, problem, allowed)):
            return found
    return None


def _no_label(problem: PlacementProblem, allowed: BoolArray) -> Infeasibility | None:
    if not len(allowed):
        return None
    empty = np.flatnonzero(~np.logical_or.reduceat(allowed, problem.label_ptr[:-1]))
    if not len(empty):
        return None
    v = int(empty[0])
    names = tuple(dict.fromkeys(r.name for r in problem.relations if v in (r.u, r.v)))
    what = f"the constraints {', '.join(names)} and its infinite costs" if names else "infinite costs"
    return Infeasibility(
        f"variable {problem.variable_names[v]!r} has no label left: {what} forbid all {problem.num_labels[v]}",
        names or (problem.variable_names[v],),
    )


def least_and_greatest(
    budget: LinearBudget | IntervalBudget, problem: PlacementProblem, allowed: BoolArray
) -> tuple[Array, Array]:
    """Least and greatest weight of every row of a budget over the allowed labels; [k] each, dtype of the weights."""
    if not len(budget.variables):
        return budget.weights[:0], budget.weights[:0]
    counts = budget.ptr[1:] - budget.ptr[:-1]
    cells = np.arange(len(budget.weights)) + np.repeat(problem.label_ptr[budget.variables] - budget.ptr[:-1], counts)
    kept = allowed[cells]
    big = np.iinfo(np.int64).max if budget.weights.dtype.kind == "i" else np.inf
    least = np.minimum.reduceat(np.where(kept, budget.weights, big), budget.ptr[:-1])
    greatest = np.maximum.reduceat(np.where(kept, budget.weights, -big), budget.ptr[:-1])
    return least, greatest


def _linear(budget: LinearBudget, problem: PlacementProblem, allowed: BoolArray) -> Infeasibility | None:
    rows = least_and_greatest(budget, problem, allowed)
    free = least_and_greatest(budget, problem, np.isfinite(problem.unary))
    least, greatest = (_sum(side) for side in rows)
    if math.isfinite(budget.upper) and least > budget.upper + budget.slack:
        alone = _sum(free[0]) > budget.upper + budget.slack
        names = () if alone else _restricting(problem, budget.variables[rows[0] != free[0]])
        detail = f"the least possible sum is {least}, above its upper limit {budget.upper}"
        return Infeasibility(_with(budget.name, names, detail), (budget.name, *names), least_limit=least)
    if math.isfinite(budget.lower) and greatest < budget.lower - budget.slack:
        alone = _sum(free[1]) < budget.lower - budget.slack
        names = () if alone else _restricting(problem, budget.variables[rows[1] != free[1]])
        detail = f"the greatest possible sum is {greatest}, below its lower limit {budget.lower}"
        return Infeasibility(_with(budget.name, names, detail), (budget.name, *names), least_limit=greatest)
    return None


def _restricting(problem: PlacementProblem, variables: Int32Array) -> tuple[str, ...]:
    """The relations that by themselves take labels from these variables."""
    there = set(variables.tolist())
    relations = (r for r in problem.relations if r.kind is not RelationKind.PAIRS and r.u in there)
    return tuple(dict.fromkeys(r.name for r in relations))


def _with(budget: str, names: tuple[str, ...], detail: str) -> str:
    """What is wrong with a budget, and which relations have a part in it."""
    return f"budget {budget!r}{f' with {_some(names)}' if names else ''}: {detail}"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _sum(weights: Array) -> int | float:
    """Exact for whole weights, correctly rounded for others, as `evaluate` has it."""
    return sum(weights.tolist()) if weights.dtype.kind == "i" else math.fsum(weights.tolist())


def _interval(budget: IntervalBudget, problem: PlacementProblem, allowed: BoolArray) -> Infeasibility | None:
    least, _ = least_and_greatest(budget, problem, allowed)
    if not len(least):
        row_live = np.zeros(0, dtype=np.int64)
        peak, instant = 0, None
    else:
        exact = least.astype(object) if least.dtype.kind == "i" and int(least.max()) * len(least) >= 2**62 else least
        instants, use = budget.use_over_time(exact)
        where = int(use.argmax()) if len(use) else 0
        peak, instant = (use[where], int(instants[where])) if len(use) else (0, None)
        peak = peak.item() if isinstance(peak, np.generic) else peak
        row_live = np.flatnonzero((budget.start <= (instant or 0)) & ((instant or 0) < budget.stop))
    if peak <= budget.limit + budget.slack:
        return None
    heavy = row_live[np.argsort(-least[row_live].astype(np.float64), kind="stable")]
    live = tuple(dict.fromkeys(problem.variable_names[int(budget.variables[i])] for i in heavy))
    shown = ", ".join(live[:8]) + (f" and {len(live) - 8} more" if len(live) > 8 else "")
    free, _ = least_and_greatest(budget, problem, np.isfinite(problem.unary))
    alone = _sum(free[row_live]) > budget.limit + budget.slack
    raised = row_live[least[row_live] != free[row_live]]
    names = () if alone else _restricting(problem, budget.variables[raised])
    detail = (
        f"at instant {instant} the {len(live)} live variables ({shown}) use at least {peak}, "
        f"above the limit {budget.limit}; no assignment can exist below a limit of {peak}"
    )
    return Infeasibility(_with(budget.name, names, detail), (budget.name, *names), instant, live, peak)


def feasibility_problem(problem: PlacementProblem) -> PlacementProblem:
    """The same constraints with every finite cost zero: its assignments are the feasible ones, all of cost 0."""
    tables = tuple(_zeroed(table) for table in problem.tables)
    return replace(
        problem,
        name=f"{problem.name} (feasibility)",
        unary=frozen(_zero(problem.unary), np.float64),
        unary_residual=None,
        tables=tables,
        constant=0,
        linear_budgets=tuple(b for b in problem.linear_budgets if b.price is None),
        interval_budgets=tuple(b for b in problem.interval_budgets if b.price is None),
    )


def _zero(values: Float64Array) -> Float64Array:
    return np.where(np.isinf(values), np.inf, 0.0)


def _zeroed(table: CostTable) -> CostTable:
    if isinstance(table, ClassedTable):
        return ClassedTable(_zeroed(table.table), table.row_class, table.col_class)
    return DenseTable(_zero(table.to_dense()))


def clashing_constraints(
    names: Sequence[str], is_infeasible: Callable[[Sequence[str]], bool | None]
) -> tuple[str, ...] | None:
    """A smallest-by-inclusion set of constraints that cannot hold together (QuickXplain, Junker, AAAI 2004).

    Args:
        names: All removable constraints, which together cannot hold.
        is_infeasible: Whether the given constraints (and nothing else removable) cannot hold; None when that is not
            known in the time there is.

    Returns:
        The clashing names (empty when the costs alone forbid everything), or None when a question went unanswered.
    """

    def explain(background: list[str], added: bool, candidates: list[str]) -> list[str] | None:
        if added:
            answer = is_infeasible(background)
            if answer is None:
                return None
            if answer:
                return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        right = explain(background + first, bool(first), second)
        if right is None:
            return None
        left = explain(background + right, bool(right), first)
        return None if left is None else left + right

    alone = is_infeasible([])
    if alone is None or alone or not names:
        return () if alone else None
    found = explain([], False, list(names))
    return None if found is None else tuple(name for name in names if name in set(found))


def describe_clash(problem: PlacementProblem, names: tuple[str, ...]) -> str:
    """A sentence that names the constraints that clash."""
    if not names:
        return "the infinite costs alone leave no assignment"
    kinds = {r.name: RelationKind(r.kind).name.lower() for r in problem.relations}
    kinds |= {b.name: "budget" for b in problem.budgets}
    listed = ", ".join(f"{name!r} ({kinds[name]})" for name in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    verb = "cannot hold" if len(names) == 1 else "cannot hold together"
    return f"{listed}{more} {verb}; removing any one of them resolves this clash"
