"""`solve_seeded`: seed, restrict, solve, and say what was proved of what."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from berthage.evaluation import evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.registry import Registry, load_registry
from berthage.seeding.ball import Restriction, restrict
from berthage.seeding.propose import Seeder, propose
from berthage.seeding.seed import Seed
from berthage.solving.params import SolveParams
from berthage.solving.results import Limit, Reason, SolveResult, Termination, relative_gap
from berthage.solving.solve import solve

__all__ = ["SeededResult", "outside_ball", "solve_seeded"]


@dataclass(frozen=True, eq=False, slots=True)
class SeededResult:
    """What a seeded solve found.

    Attributes:
        result: The result for the whole problem: its bound and its termination never rest on the restriction alone.
        seed: The seed.
        restriction: What was searched, or None when the seed only was a start.
        ball: The solver's result within the restriction, its optimum and bound among them; None as above.
        widened: How often the radius had to grow because nothing feasible was within it.
    """

    result: SolveResult
    seed: Seed
    restriction: Restriction | None
    ball: SolveResult | None
    widened: int = 0

    @property
    def lost_at_most(self) -> float:
        """How much more the answer may cost than the best of the whole problem; inf when nothing bounds it."""
        return self.result.absolute_gap


def solve_seeded(
    problem: PlacementProblem,
    solver: str = "trws",
    *,
    seeder: str | Seeder = "split-dim",
    radius: int | None = 2,
    params: SolveParams | None = None,
    options: Mapping[str, Any] | object | None = None,
    seeder_options: Mapping[str, Any] | object | None = None,
    presolve: bool | Sequence[str] = True,
    certify: str | None = None,
    registry: Registry | None = None,
) -> SeededResult:
    """Solve a problem near a seed.

    Args:
        problem: The problem.
        solver: Name of the solver.
        seeder: Name of a seeder, or a seeder.
        radius: Greatest Hamming distance from the seed; None only starts there and searches everything.
        params: Limits, gap, seed, threads. The time limit is that of seed and search together.
        options: The solver's own options.
        seeder_options: The seeder's own options.
        presolve: As `berthage.solve` takes it.
        certify: Name of a solver whose bound on the whole problem is computed as well.
        registry: Where names are looked up.

    Raises:
        OptionError: The radius is no whole number of at least 0, or an option is wrong.
        UnsupportedProblemError: The labels of the problem have no coordinates.
    """
    registry = registry or load_registry()
    params = params or SolveParams()
    start = time.perf_counter()
    seed = propose(problem, seeder, params=params, options=seeder_options, registry=registry)
    first: Int32Array | None = seed.labels if seed.objective is not None else None

    def run(part: PlacementProblem, begin: Int32Array | None, name: str = solver, **more: Any) -> SolveResult:
        limit = params.time_limit
        left = None if limit is None else max(0.0, limit - (time.perf_counter() - start))
        asked = replace(params, time_limit=left, warm_start=begin)
        return solve(part, name, params=asked, presolve=presolve, registry=registry, **more)

    known = first if first is not None or params.warm_start is None else problem.check_assignment(params.warm_start)
    if radius is None:
        return SeededResult(run(problem, known, options=options, certify=certify), seed, None, None)
    widened = 0
    while True:
        restriction = restrict(problem, seed, radius + widened)
        begin = None if known is None else restriction.derived.project(known)
        ball = run(restriction.problem, begin, options=options)
        if ball.termination.reason is not Reason.INFEASIBLE or restriction.is_whole:
            break
        widened += 1
    bound = seed.bound
    if certify is not None and not restriction.is_whole:
        bound = max(bound, run(problem, None, certify).bound)
    lifted = None if ball.assignment is None else restriction.derived.lift(ball.assignment)
    return SeededResult(
        outside_ball(problem, ball, lifted, restriction.radius, bound, whole=restriction.is_whole, gap=params.gap),
        seed,
        restriction,
        ball,
        widened,
    )


def outside_ball(
    problem: PlacementProblem,
    ball: SolveResult,
    assignment: Int32Array | None,
    radius: int,
    bound: float,
    *,
    whole: bool = False,
    gap: float = 0.0,
) -> SolveResult:
    """What a result within a ball says about the whole problem.

    Only a bound on the whole problem bounds it and proves anything; the best within the ball is *feasible* otherwise.

    Args:
        problem: The whole problem (or one whose objective is the same where the ball is).
        ball: The result within the ball.
        assignment: Its assignment, in labels of `problem`.
        radius: Of the ball, for the wording.
        bound: A bound on the whole problem, -inf when none is known.
        whole: Whether the ball left nothing out; its result then is that of the whole.
        gap: Relative gap at which an assignment counts as optimal.
    """
    known = ball.bound if whole else bound
    evaluation = None if assignment is None else evaluate(problem, assignment)
    said = ball.termination
    if not whole:
        near = f"within Hamming distance {radius} of the seed"
        proved = relative_gap(ball.objective, known) <= max(gap, 1e-9)
        if said.reason is Reason.OPTIMAL and proved:
            said = Termination(Reason.OPTIMAL, detail=f"a bound on the whole problem proves the best {near}")
        elif said.reason is Reason.OPTIMAL:
            rest = (
                "nothing is known of the rest" if known == -math.inf else "of the rest no more is known than the bound"
            )
            said = Termination(Reason.FEASIBLE, Limit.OTHER, f"optimal {near}; {rest}")
        elif said.reason is Reason.INFEASIBLE:
            said = Termination(Reason.NO_SOLUTION_FOUND, Limit.OTHER, f"there is none {near}: {said.detail}")
        else:
            said = Termination(said.reason, said.limit, f"{near}; {said.detail}" if said.detail else near)
    return replace(
        ball,
        termination=said,
        assignment=assignment,
        bound=known,
        evaluation=evaluation,
        infeasibility=ball.infeasibility if said.reason is Reason.INFEASIBLE else None,
        trace=tuple(replace(point, bound=point.bound if whole else -math.inf) for point in ball.trace),
    )
