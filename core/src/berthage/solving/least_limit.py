"""The least limit of a budget that would do, when the limit it has cannot be met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from berthage.evaluation import evaluate
from berthage.problem.budgets import LinearBudget
from berthage.problem.model import PlacementProblem
from berthage.solving.check import CheckedOutcome
from berthage.solving.infeasibility import feasibility_problem
from berthage.solving.results import Infeasibility, Reason

__all__ = ["with_least_limit"]


def with_least_limit(
    problem: PlacementProblem, found: Infeasibility, run: Callable[[PlacementProblem], CheckedOutcome | None]
) -> Infeasibility:
    """Add to a reason how far the limit of the first budget it names has to give way, everything else kept.

    Found by solving: the same constraints, nothing costs anything, and the budget may be exceeded at a price of one a
    unit. Where the solver does not prove what it finds, the next smaller limit is tried, until nothing meets it. What
    is not proved is told in words, and `Infeasibility.least_limit` stays what it was.

    Args:
        problem: The problem that has no assignment.
        found: Why.
        run: Solves another problem; None when it cannot, or has no time.
    """
    hard = [budget.name for budget in problem.budgets if budget.price is None and budget.name in found.constraints]
    if not hard:
        return found
    name = min(hard, key=found.constraints.index)
    budget = next(budget for budget in problem.budgets if budget.name == name)
    free = feasibility_problem(problem)
    outcome = run(_changed(free, name, price=1))
    if outcome is None or outcome.assignment is None:
        return found
    used = _use(problem, name, outcome)
    below = isinstance(budget, LinearBudget) and used < budget.lower
    proved = outcome.termination.reason is Reason.OPTIMAL
    whole = budget.weights.dtype.kind == "i"
    while whole and not proved:
        closer: dict[str, Any]
        if below:
            closer = {"lower": used + 1}
        else:
            closer = {"upper" if isinstance(budget, LinearBudget) else "limit": used - 1}
        outcome = run(_changed(free, name, **closer))
        proved = outcome is not None and outcome.termination.reason is Reason.INFEASIBLE
        if outcome is None or outcome.assignment is None:
            break
        used = _use(problem, name, outcome)
    if not proved:
        return replace(found, detail=f"{found.detail}; {name!r} can be met with {used}")
    which = "greatest lower" if below else "least"
    return replace(
        found, detail=f"{found.detail}; the {which} limit of {name!r} that can be met is {used}", least_limit=used
    )


def _use(problem: PlacementProblem, name: str, outcome: CheckedOutcome) -> int | float:
    assert outcome.assignment is not None  # by the caller
    return next(use.used for use in evaluate(problem, outcome.assignment).budget_use if use.name == name)


def _changed(problem: PlacementProblem, name: str, **changes: Any) -> PlacementProblem:
    """The same with one budget changed."""
    return replace(
        problem,
        linear_budgets=tuple(replace(b, **changes) if b.name == name else b for b in problem.linear_budgets),
        interval_budgets=tuple(replace(b, **changes) if b.name == name else b for b in problem.interval_budgets),
    )
