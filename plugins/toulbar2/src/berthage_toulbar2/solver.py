"""The solver ``toulbar2``."""

from __future__ import annotations

import math

import numpy as np

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    UnsupportedProblemError,
    lower_relations,
)

from .options import Toulbar2Options
from .process import search
from .scaling import Scaled, scale_problem

PROOF_TOLERANCE = 1e-9
"""Relative gap that counts as a proof when no larger one is asked for (core's own figure)."""

ROUNDS = 4
"""Most searches: each begins with the best cost of the one before, and counts in finer units."""


class Toulbar2:
    """Registered as ``toulbar2``; see the options in `Toulbar2Options`."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: Toulbar2Options | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        if problem.has_budgets:
            names = [b.name for b in problem.linear_budgets] + [b.name for b in problem.interval_budgets]
            raise UnsupportedProblemError(
                f"toulbar2 takes no budgets, and the problem has {names[0]!r}; use exact or ilp, or leave budgets out"
            )
        options = options or Toulbar2Options()
        lowered = lower_relations(problem)
        if params.warm_start is not None:
            context.incumbent(params.warm_start)
        bound, nodes, scale = -math.inf, 0, 0.0
        for _ in range(ROUNDS):
            reason = context.stop_reason()
            if reason is not None:
                return _stopped(context, bound, reason, "", nodes)
            upper = min(
                math.inf if context.best_objective is None else float(context.best_objective),
                math.inf if params.cutoff is None else float(params.cutoff),
            )
            scaled = scale_problem(lowered, upper)
            if scaled.scale < 4.0 * scale:
                break  # no finer than before
            scale = scaled.scale
            if scaled.top == 0:
                detail = "the least costs of all terms add up to more than the cutoff"
                return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf)
            found = search(lowered, scaled, options, context)
            nodes += found.nodes
            if found.labels is not None:
                context.incumbent(np.array(found.labels))
                units = _units_of(scaled, lowered, found.labels) if found.proved else found.bound
            else:
                units = scaled.top if found.proved else found.bound
            if units is not None:
                bound = max(bound, scaled.cost(units))
                context.bound(bound)
            if not found.proved:
                limit = context.stop_reason() or found.limit or Limit.OTHER
                if limit is Limit.ITERATIONS and params.iteration_limit is None:
                    limit = Limit.TIME  # its own clock
                return _stopped(context, bound, limit, found.detail, nodes)
            if context.best_objective is None and found.labels is None:
                detail = "toulbar2 searched everything and found nothing"
                return SolverOutcome(Termination(Reason.INFEASIBLE, detail=detail), None, math.inf)
            if _closes(context, bound, problem.is_integral):
                return SolverOutcome(
                    Termination(Reason.OPTIMAL), context.best_assignment, bound, stats={"nodes": nodes, "scale": scale}
                )
        return _stopped(context, bound, Limit.CONVERGED, "whole numbers cannot tell the last digits apart", nodes)


def _units_of(scaled: Scaled, problem: PlacementProblem, labels: list[int]) -> float:
    """Cost of an assignment in units."""
    chosen = np.array(labels, np.int64)
    total = int(scaled.unary[problem.label_ptr[:-1] + chosen].sum())
    for u, v, t in zip(problem.edge_u.tolist(), problem.edge_v.tolist(), scaled.of_edge.tolist(), strict=True):
        total += int(scaled.tables[t][labels[u], labels[v]])
    return float(total)


def _closes(context: SolveContext, bound: float, whole: bool) -> bool:
    best = context.best_objective
    if best is None:
        return False
    if whole and abs(bound) < 2.0**52:
        bound = max(bound, float(math.ceil(bound - 1e-6 - 1e-9 * abs(bound))))
    return float(best) - bound <= max(context.params.gap, PROOF_TOLERANCE) * max(1.0, abs(float(best)))


def _stopped(context: SolveContext, bound: float, limit: Limit, detail: str, nodes: int) -> SolverOutcome:
    best = context.best_assignment
    reason = Reason.NO_SOLUTION_FOUND if best is None else Reason.FEASIBLE
    return SolverOutcome(Termination(reason, limit, detail), best, bound, stats={"nodes": nodes})
