"""Numbers and results in words, for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from berthage.evaluation import Evaluation
from berthage.problem import PlacementProblem
from berthage.seeding import SeededResult
from berthage.solving.results import Infeasibility, SolveResult, Timing


def number(value: int | float | None) -> str:
    """A number to its last digit; whole floats without the point."""
    if value is None:
        return "-"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value) if isinstance(value, int) else repr(float(value))


def bound(value: float) -> str:
    """A bound; nothing known is a dash."""
    return "-" if math.isinf(value) and value < 0 else number(value)


def gap(value: float) -> str:
    """A relative gap in per cent."""
    if not math.isfinite(value):
        return "-"
    return "0 %" if value == 0 else f"{100 * value:.3g} %"


def seconds(value: float) -> str:
    """Seconds, with three digits that matter."""
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def some(names: Sequence[str], most: int = 8) -> str:
    """A list of names that stays short."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def count(amount: int, noun: str) -> str:
    """``1 edge``, ``2 edges``."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def problem_line(problem: PlacementProblem) -> str:
    """A problem in one line."""
    parts = [count(problem.num_variables, "variable"), count(problem.num_edges, "edge")]
    if problem.has_relations:
        parts.append(count(len(problem.relations), "relation"))
    if problem.has_budgets:
        parts.append(count(len(problem.linear_budgets) + len(problem.interval_budgets), "budget"))
    return f"{problem.name}: {', '.join(parts)}"


def result_lines(result: SolveResult) -> Iterator[str]:
    """A solve in some lines."""
    end = result.termination
    status = end.reason.value.replace("_", " ")
    if end.limit is not None:
        status += f" (stopped: {end.limit.value})"
    yield f"solver     {result.solver} {result.solver_version}".rstrip()
    reason = result.infeasibility
    told_below = reason is not None and reason.detail == end.detail
    yield f"status     {status}{f': {end.detail}' if end.detail and not told_below else ''}"
    yield f"objective  {number(result.objective)}"
    yield f"bound      {bound(result.bound)}"
    yield f"gap        {gap(result.relative_gap)}"
    if reason is not None:
        yield from infeasibility_lines(reason)
    if result.evaluation is not None:
        yield from budget_lines(result.evaluation)
    yield from timing_lines(result.timings)


def seeded_lines(seeded: SeededResult) -> Iterator[str]:
    """What was searched near which seed, in some lines."""
    yield f"seed       {number(seeded.seed.objective)}"
    near, ball = seeded.restriction, seeded.ball
    if near is None or ball is None:
        return
    yield (
        f"searched   within {near.radius} of it: {count(near.kept, 'label')} of {near.total}, {near.coverage:.1%}; "
        f"{ball.termination.reason.value.replace('_', ' ')} there, gap {gap(ball.relative_gap)}"
    )


def infeasibility_lines(reason: Infeasibility) -> Iterator[str]:
    """Why nothing is feasible, in some lines."""
    yield f"reason     {reason.detail}"
    if reason.constraints:
        yield f"clash      {some(reason.constraints)}"
    if reason.instant is not None:
        yield f"instant    {reason.instant}"
    if reason.live:
        yield f"live       {some(reason.live)}"
    if reason.least_limit is not None:
        yield f"limit      no solution exists below {number(reason.least_limit)}"


def budget_lines(evaluation: Evaluation, most: int = 10) -> Iterator[str]:
    """How much of the budgets is used; the fullest when there are many."""
    uses = sorted(evaluation.budget_use, key=lambda use: use.used - use.limit, reverse=True)
    for use in uses[:most]:
        at = f" at instant {use.instant}" if use.instant is not None else ""
        least = f", at least {number(use.lower)}" if math.isfinite(use.lower) else ""
        over = f", penalty {number(use.penalty)}" if use.penalty else ""
        limit = f" of {number(use.limit)}" if math.isfinite(use.limit) else ""
        yield f"budget     {use.name}: {number(use.used)}{limit}{least}{at}{over}"
    if len(uses) > most:
        yield f"           and {len(uses) - most} more budgets"


def timing_lines(timings: Mapping[str, Timing]) -> Iterator[str]:
    """Seconds by phase."""
    total = timings.get("total")
    parts = [
        f"{phase} {seconds(timing.wall)}"
        for phase, timing in timings.items()
        if phase != "total" and timing.wall >= 0.0005
    ]
    if total is not None:
        inner = f" ({', '.join(parts)})" if parts else ""
        yield f"time       {seconds(total.wall)} s wall, {seconds(total.cpu)} s CPU{inner}"
