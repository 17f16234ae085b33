"""The least limit of a budget that would do, when the limit it has cannot be met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from berthage.evaluation import evaluate
from berthage.problem.model import PlacementProblem
from berthage.solving.infeasibility import feasibility_problem
from berthage.solving.results import Infeasibility, Reason, SolveResult

__all__ = ["with_least_limit"]


def with_least_limit(
    problem: PlacementProblem, found: Infeasibility, run: Callable[[PlacementProblem], SolveResult | None]
) -> Infeasibility:
    """Add to a reason how far the limit of the first budget it names has to give way, everything else kept.

    Found by solving: the same constraints, nothing costs anything, and the budget may be exceeded at a price of one a
    unit. Where that is not proved, what is known to work is told in words and `Infeasibility.least_limit` stays.

    Args:
        problem: The problem that has no assignment.
        found: Why.
        run: Solves another problem; None when it cannot, or has no time.
    """
    hard = [budget.name for budget in problem.budgets if budget.price is None and budget.name in found.constraints]
    if not hard:
        return found
    (name, *_) = sorted(hard, key=found.constraints.index)
    result = run(_softened(problem, name))
    if result is None or result.assignment is None:
        return found
    budget = next(budget for budget in problem.budgets if budget.name == name)
    used = next(use.used for use in evaluate(problem, result.assignment).budget_use if use.name == name)
    lower = getattr(budget, "lower", None)
    below = lower is not None and used < lower
    if result.termination.reason is not Reason.OPTIMAL:
        return replace(found, detail=f"{found.detail}; {name!r} can be met with {used}")
    which = "greatest lower" if below else "least"
    return replace(
        found, detail=f"{found.detail}; the {which} limit of {name!r} that can be met is {used}", least_limit=used
    )


def _softened(problem: PlacementProblem, name: str) -> PlacementProblem:
    """Only what is forbidden counts, and each unit outside one budget costs one."""
    free = feasibility_problem(problem)
    return replace(
        free,
        linear_budgets=tuple(replace(b, price=1) if b.name == name else b for b in free.linear_budgets),
        interval_budgets=tuple(replace(b, price=1) if b.name == name else b for b in free.interval_budgets),
    )
