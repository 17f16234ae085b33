"""The documents that the command line writes as JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from berthage.cli.strict_json import FORMAT_VERSION
from berthage.evaluation import Evaluation
from berthage.files import atomic_write
from berthage.problem import PlacementProblem
from berthage.seeding import SeededResult
from berthage.solving.results import Infeasibility, SolveResult


def write_text(path: Path, text: str) -> None:
    """Write a file that is either whole or not there."""
    with atomic_write(path) as stream:
        stream.write(text.encode())


def exact_bound(problem: PlacementProblem, bound: float) -> int | float:
    """A bound of a problem in whole numbers as one, when a float holds it exactly."""
    if problem.is_integral and math.isfinite(bound) and bound == math.floor(bound):
        return int(bound)
    return bound


def result_document(problem: PlacementProblem, result: SolveResult, **more: Any) -> dict[str, Any]:
    """A solve as JSON has it.

    ``objective`` is an exact integer when the data are; ``bound`` and ``gap`` (relative) are null
    when nothing is known; ``assignment`` has label indices in the file's own variable order.
    """
    return {
        "format_version": FORMAT_VERSION,
        "problem": problem.name,
        "solver": {"name": result.solver, "version": result.solver_version},
        "termination": {
            "reason": result.termination.reason,
            "limit": result.termination.limit,
            "detail": result.termination.detail,
        },
        "objective": result.objective,
        "bound": exact_bound(problem, result.bound),
        "gap": result.relative_gap,
        "absolute_gap": result.absolute_gap,
        "seed": result.seed,
        "timings": {phase: {"cpu": timing.cpu, "wall": timing.wall} for phase, timing in result.timings.items()},
        "stats": {
            "problem": problem.stats().as_dict(),
            "solver": result.stats,
            "reductions": [{"name": name, **report} for name, report in result.reductions],
        },
        "infeasibility": infeasibility_document(result.infeasibility),
        "budgets": None if result.evaluation is None else budget_document(result.evaluation),
        "trace": [[point.time, point.objective, point.bound] for point in result.trace],
        **more,
        "assignment": result.assignment,
    }


def seeded_document(seeded: SeededResult) -> dict[str, Any]:
    """What was searched near which seed; ``ball`` is what was found and proved there."""
    near, ball = seeded.restriction, seeded.ball
    return {
        "objective": seeded.seed.objective,
        "bound": seeded.seed.bound,
        "report": dict(seeded.seed.report),
        "radius": None if near is None else near.radius,
        "widened": seeded.widened,
        "labels": None if near is None else near.kept,
        "all_labels": None if near is None else near.total,
        "coverage": None if near is None else near.coverage,
        "empty": None if near is None else near.empty,
        "ball": None
        if ball is None
        else {
            "reason": ball.termination.reason,
            "limit": ball.termination.limit,
            "objective": ball.objective,
            "bound": ball.bound,
            "gap": ball.relative_gap,
        },
        "lost_at_most": seeded.lost_at_most,
    }


def infeasibility_document(reason: Infeasibility | None) -> dict[str, Any] | None:
    """Why nothing is feasible."""
    if reason is None:
        return None
    return {
        "detail": reason.detail,
        "constraints": reason.constraints,
        "instant": reason.instant,
        "live": reason.live,
        "least_limit": reason.least_limit,
    }


def budget_document(evaluation: Evaluation) -> list[dict[str, Any]]:
    """How much of every budget is used."""
    return [
        {
            "name": use.name,
            "used": use.used,
            "lower": use.lower,
            "limit": use.limit,
            "instant": use.instant,
            "penalty": use.penalty,
        }
        for use in evaluation.budget_use
    ]
