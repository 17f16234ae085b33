"""The solver ``exact``: message passing first, then a search on what it leaves open."""

from __future__ import annotations

import math

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
)
from berthage_trws import TrwsOptions, relax

from .options import ExactOptions
from .proof import prove
from .target import Target


class Exact:
    """Registered as ``exact``; see the options in `ExactOptions`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: ExactOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        options = options or ExactOptions()
        relaxed = relax(problem, params, context, TrwsOptions(max_sweeps=options.max_sweeps))
        stats: dict[str, int | float | str | bool] = {"sweeps": relaxed.sweeps, "nodes": 0}
        if relaxed.infeasible:
            return SolverOutcome(Termination(Reason.INFEASIBLE, detail=relaxed.detail), None, math.inf, stats=stats)
        if relaxed.closed or relaxed.limit in (Limit.TIME, Limit.INTERRUPTED):
            return _outcome(context, relaxed.bound, relaxed.limit, "", stats, Target(context, problem.is_integral))
        proof = prove(relaxed, context, options)
        stats.update(proof.stats)
        target = Target(context, problem.is_integral)
        return _outcome(context, max(relaxed.bound, proof.bound), proof.limit, proof.detail, stats, target)


def _outcome(
    context: SolveContext,
    bound: float,
    limit: Limit | None,
    detail: str,
    stats: dict[str, int | float | str | bool],
    target: Target,
) -> SolverOutcome:
    best = context.best_assignment
    if best is not None and target.closes(bound):
        return SolverOutcome(Termination(Reason.OPTIMAL), best, bound, stats=stats)
    if limit is None and best is None:
        detail = detail or "every assignment was searched, or cut off by a bound"
        return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf, stats=stats)
    reason = Reason.FEASIBLE if best is not None else Reason.NO_SOLUTION_FOUND
    return SolverOutcome(Termination(reason, limit or Limit.CONVERGED, detail), best, bound, stats=stats)
