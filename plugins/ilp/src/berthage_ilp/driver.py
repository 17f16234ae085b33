"""From a placement problem to a checked answer: formulate, shrink, solve, check exactly, cut and solve again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    evaluate,
)
from berthage.linear import LinearProgram, cost_levels, linear_program, objective_factor
from berthage_ilp.backend import Backend, BackendResult, BackendSettings, BackendStatus, Monitor, StopRequested
from berthage_ilp.cuts import cuts_against
from berthage_ilp.fixing import fix_dear
from berthage_ilp.program import Cut, coarse_budgets, compress, drop_useless, with_cuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from berthage_ilp.options import Fixing

__all__ = ["Driver"]

_TOLERANCE = 1e-9
_SECOND_TOLERANCE = 1e-6
_BLUR = 1e-6
_TEXT_BLUR = 1e-4
"""Error of the bound of an engine that claims an optimum, in its own units: cuts off what is better by less than its
tolerances (CBC: by less than its increment of 1e-5)."""
_LARGE_PAIR_COLUMNS = 20_000
"""From this many pair columns on, removing useless ones pays for itself."""

_TIES = 100
"""Most assignments just above the cutoff that are set aside one by one in search of one that meets it."""

_LIMITS = {
    BackendStatus.TIME: Limit.TIME,
    BackendStatus.NODES: Limit.ITERATIONS,
    BackendStatus.INTERRUPTED: Limit.INTERRUPTED,
    BackendStatus.MEMORY: Limit.MEMORY,
}


def _relative_gap(objective: float, bound: float) -> float:
    return math.inf if math.isinf(bound) else (objective - bound) / max(1.0, abs(objective))


def _rounding(cost: float) -> float:
    """Rounding error of an engine's bound when the largest cost is this."""
    return 8.0 * float(np.finfo(np.float64).eps) * cost


@dataclass(frozen=True, slots=True)
class _Level:
    """What solving one level of costs came to: a status, and a bound in the problem's units."""

    status: BackendStatus
    bound: float
    detail: str


class Driver:
    """One solve of one problem with one engine."""

    def __init__(
        self, problem: PlacementProblem, params: SolveParams, context: SolveContext, backend: Backend, fixing: Fixing
    ) -> None:
        """Keep what the solve needs.

        Args:
            problem: What to solve.
            params: Common parameters.
            context: Core's side of the solve.
            backend: The engine.
            fixing: Whether to remove provably useless columns first.
        """
        self.problem = problem
        self.params = params
        self.context = context
        self.backend = backend
        self.fixing = fixing
        self.cuts: list[Cut] = []
        self.aside = math.inf  # least objective of a solution that was set aside: the engine's bounds hold for the rest
        self.stats: dict[str, int | float | str | bool] = {"engine": backend.name, "nodes": 0, "rounds": 0}

    def run(self) -> SolverOutcome:
        """Solve; see `berthage.Solver`."""
        start = self.params.warm_start
        if start is not None:
            self.context.incumbent(start)
        if self.context.stop_reason() is not None:
            return self._outcome(_Level(BackendStatus.INTERRUPTED, -math.inf, "stopped before the start"))
        with self.context.phase("build"):
            program = linear_program(self.problem)
            if not program.impossible:
                program = drop_useless(program)
                if self.backend.trusts_text:
                    program = coarse_budgets(program)
        self.stats |= {"columns": program.num_cols, "rows": program.num_rows, "nonzeros": program.num_nonzeros}
        if program.impossible:
            return self._outcome(_Level(BackendStatus.INFEASIBLE, math.inf, "a variable has no allowed label"))
        program = self._fixed(program)
        floor = -math.inf
        level = _Level(BackendStatus.ERROR, floor, "")
        for limit in cost_levels(program):
            level = self._level(self._affordable(program), limit)
            if level.status is BackendStatus.OPTIMAL and self._blurred(program, limit):
                level = self._level(self._affordable(program), limit)
            above = program.bound_of(limit)
            best = self.context.best_objective
            if level.status is BackendStatus.OPTIMAL and best is not None and float(best) <= above:
                break
            if level.status not in (BackendStatus.OPTIMAL, BackendStatus.INFEASIBLE):
                break
            if math.isfinite(limit):
                # No assignment is cheaper than the costs that were left out.
                floor = max(floor, above)
        return self._outcome(replace(level, bound=max(floor, level.bound)))

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _fixed(self, program: LinearProgram) -> LinearProgram:
        pairs = int((program.block >= 0).sum()) - int(program.group_ptr[-1])
        small = pairs < _LARGE_PAIR_COLUMNS and self.params.iteration_limit is None
        if self.fixing == "off" or (self.fixing == "auto" and small):
            return program
        with self.context.phase("fixing"):
            return fix_dear(program, self.context, self.stats)

    def _affordable(self, program: LinearProgram) -> LinearProgram:
        """Leave out what alone costs more than the best assignment known: no better one can use it."""
        best = self.context.best_objective
        if best is None:
            return program
        spent = float(best) * program.scale - program.offset
        size = abs(spent) + abs(program.offset)
        return program.without_costs_above(max(spent, 0.0) + 1e-9 * size + 2.0 * program.offset_error)

    def _blurred(self, program: LinearProgram, limit: float) -> bool:
        """Whether costs far above the optimum spoil its bound by rounding, so that doing without them helps."""
        best = self.context.best_objective
        if best is None:
            return False
        live = program.upper > 0.0
        dear = float(program.cost[live & (program.cost <= limit)].max(initial=0.0))
        kept = self._affordable(program)
        left = float(kept.cost[kept.upper > 0.0].max(initial=0.0))
        noisy = _rounding(dear) / program.scale > 1e-10 * max(1.0, abs(float(best)))
        return noisy and left < 0.5 * dear

    def _level(self, program: LinearProgram, limit: float) -> _Level:
        """Solve with the costs above `limit` left out, cutting off what exact arithmetic refuses."""
        level = program.without_costs_above(limit) if math.isfinite(limit) else program
        tolerance = _TOLERANCE
        doubted = False
        while True:
            result = self._engine(level, limit, tolerance)
            self.stats["rounds"] = int(self.stats["rounds"]) + 1
            infeasible_choice = None
            if result.values is not None:
                infeasible_choice = self._offer(program, result.values)
            if result.status is BackendStatus.INFEASIBLE:
                if not doubted and self._needs_second_opinion(level):
                    doubted, tolerance = True, _SECOND_TOLERANCE
                    second = self._second_opinion(level, limit)
                    if second is BackendStatus.OPTIMAL:
                        continue
                    if second is not BackendStatus.INFEASIBLE:
                        return _Level(second, -math.inf, "not decided whether there is a solution")
                return _Level(result.status, math.inf, "the integer program has no solution")
            if result.status is BackendStatus.OPTIMAL and infeasible_choice is not None:
                cuts = cuts_against(self.problem, program, infeasible_choice)
                if cuts:
                    self.cuts += cuts
                    self.stats["cuts"] = len(self.cuts)
                    continue
            if result.status is BackendStatus.OPTIMAL and result.values is not None:
                tie = self._tie(level, result.values)
                if tie is not None:
                    self.cuts.append(tie)
                    continue
            return _Level(result.status, result.bound, result.detail)

    def _tie(self, level: LinearProgram, values: NDArray[np.float64]) -> Cut | None:
        """Set a solution aside that misses the cutoff by no more than an engine's error.

        Engines take costs that differ by rounding for equal: another solution may meet the cutoff that this one misses.
        """
        cutoff = self.params.cutoff
        ties = int(self.stats.get("ties", 0))
        if cutoff is None or self.context.best_objective is not None or ties >= _TIES:
            return None
        assignment = level.decode(values).assignment
        evaluation = evaluate(self.problem, assignment)
        if not evaluation.feasible or float(evaluation.objective) - self._blur(level, evaluation.objective) > cutoff:
            return None
        self.stats["ties"] = ties + 1
        self.aside = min(self.aside, float(evaluation.objective))
        chosen = np.unique(level.col_of_label[level.label_ptr[:-1] + assignment])
        chosen = chosen[chosen >= 0]
        return Cut(chosen, float(len(chosen) - 1))

    def _blur(self, level: LinearProgram, cost: float) -> float:
        """How far off an engine's bound near a cost may be when it claims an optimum without a gap."""
        tolerance = _TEXT_BLUR if self.backend.trusts_text else _BLUR
        return tolerance / (objective_factor(level) * level.scale) + 1e-9 * abs(float(cost))

    def _held(self, level: LinearProgram, bound: float) -> float:
        """A bound that is above the cutoff only where that is beyond an engine's error."""
        cutoff = self.params.cutoff
        if cutoff is None or not bound > cutoff or bound - self._blur(level, bound) > cutoff:
            return bound
        held = float(cutoff)
        return held if held <= cutoff else math.nextafter(held, -math.inf)

    def _settled(self) -> bool:
        """Whether what is known answers the question under a cutoff, so that the engine need not go on."""
        cutoff, best, bound = self.params.cutoff, self.context.best_objective, self.context.best_bound
        if cutoff is None:
            return False
        if best is None:
            return bound > cutoff
        return self.params.gap > 0.0 and _relative_gap(float(best), bound) <= self.params.gap

    def _offer(self, program: LinearProgram, values: NDArray[np.float64]) -> NDArray[np.int32] | None:
        """Tell core the assignment a solution stands for; returns it when it is not feasible."""
        assignment = program.decode(values).assignment
        if self.context.incumbent(assignment) is not None or evaluate(self.problem, assignment).feasible:
            return None
        return assignment

    def _engine(
        self,
        level: LinearProgram,
        limit: float,
        tolerance: float,
        backend: Backend | None = None,
        *,
        priced: bool = True,
    ) -> BackendResult:
        """Run the engine on a program; values come back for all columns, the bound in the problem's units."""
        small = compress(with_cuts(level, self.cuts))
        if small.impossible:
            return BackendResult(BackendStatus.INFEASIBLE, None, math.inf, "a row cannot hold whatever is chosen")
        if not small.program.num_cols:
            return BackendResult(BackendStatus.OPTIMAL, np.zeros(small.columns), level.bound_of(0.0))
        nodes = self.params.iteration_limit
        if nodes is not None and nodes <= 1:
            # The root of a hard program alone can take minutes: one iteration is what came before it.
            return BackendResult(BackendStatus.NODES, None, -math.inf, "stopped before the root relaxation")
        # An engine's optimum within a gap says nothing about a cutoff inside that gap: `_settled` stops it instead.
        gap = self.params.gap if priced and self.params.cutoff is None else 0.0
        factor = objective_factor(small.program) if priced else 0.0
        offset = level.offset * factor if gap > 0.0 else 0.0
        program = replace(small.program, cost=small.program.cost * factor, offset=offset)

        noise = _rounding(float(small.program.cost.max(initial=0.0)))

        def valid(bound: float) -> float:
            if not factor:
                return -math.inf
            return min(self._held(level, level.bound_of(min((bound - offset) / factor - noise, limit))), self.aside)

        monitor = Monitor(
            self.context,
            lambda values: level.decode(small.expand(values)).assignment,
            valid,
            self._settled if priced else (lambda: False),
        )
        settings = BackendSettings(
            time_limit=self.context.remaining(),
            gap=gap if math.isfinite(gap) else 1e9,
            node_limit=None if nodes is None else nodes - 1,
            seed=self.params.seed,
            tolerance=tolerance,
            start=self._start(level, small.kept),
        )
        try:
            result = (backend or self.backend).solve(program, settings, monitor)
        except StopRequested:
            return BackendResult(BackendStatus.INTERRUPTED, None, -math.inf, "stopped while the model was being built")
        self.stats["nodes"] = int(self.stats["nodes"]) + int(result.stats.get("nodes", 0))
        values = None if result.values is None else small.expand(result.values)
        bound = result.bound if math.isinf(result.bound) else valid(result.bound)
        return replace(result, values=values, bound=bound)

    def _start(
        self, level: LinearProgram, kept: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """The best assignment known as a start for the engine."""
        best = self.context.best_assignment
        if best is None:
            return None
        full = level.encode(best)
        if full is None:
            return None
        return np.arange(len(kept)), full[kept]

    def _needs_second_opinion(self, level: LinearProgram) -> bool:
        """Whether "infeasible" may come from rounding: only rows with coefficients other than -1, 0, 1 can do that."""
        return bool((level.row_budget >= 0).any()) or self.backend.trusts_text

    def _second_opinion(self, level: LinearProgram, limit: float) -> BackendStatus:
        """Ask HiGHS for any solution, with looser tolerances and no costs.

        Returns:
            INFEASIBLE when it agrees; OPTIMAL when it found a solution, and then it takes over from an engine that
            works on rounded text; else the limit that stopped it.
        """
        from berthage_ilp.pulp_highs import PulpHighs

        judge = PulpHighs()
        second = self._engine(level, limit, _SECOND_TOLERANCE, judge, priced=False)
        self.stats["second_opinions"] = int(self.stats.get("second_opinions", 0)) + 1
        if second.values is not None:
            self._offer(level, second.values)
        if second.status is BackendStatus.OPTIMAL and self.backend.trusts_text:
            self.backend = judge
            self.stats["engine"] = f"{judge.name}, after a false infeasible of CBC"
        return second.status

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _outcome(self, level: _Level) -> SolverOutcome:
        best = self.context.best_assignment
        bound = level.bound
        termination: Termination
        if level.status is BackendStatus.INFEASIBLE and best is None:
            return SolverOutcome(
                Termination(Reason.INFEASIBLE, detail=level.detail), None, math.inf, stats=self._told()
            )
        if level.status is BackendStatus.INFEASIBLE:
            detail = f"the engine says infeasible, but a feasible assignment costs {self.context.best_objective}"
            return SolverOutcome(
                Termination(Reason.NUMERICAL_ERROR, detail=detail), best, -math.inf, stats=self._told()
            )
        cutoff = self.params.cutoff
        if level.status is BackendStatus.OPTIMAL or (best is not None and self._settled()):
            if best is not None:
                termination = Termination(Reason.OPTIMAL)
            elif cutoff is not None and max(bound, self.context.best_bound) > cutoff:
                detail = f"no assignment costs {cutoff} or less: the least is about {bound:.15g}"
                termination = Termination(Reason.INFEASIBLE, detail=detail)
            elif cutoff is not None:
                detail = f"nothing found costs {cutoff} or less, and the bound {bound:.15g} does not exclude it"
                termination = Termination(Reason.NO_SOLUTION_FOUND, Limit.OTHER, detail)
            else:
                termination = Termination(Reason.NUMERICAL_ERROR, detail="the engine's optimum is not an assignment")
        elif cutoff is not None and best is None and max(bound, self.context.best_bound) > cutoff:
            termination = Termination(
                Reason.INFEASIBLE, detail=f"no assignment costs {cutoff} or less: the bound is {bound:.15g}"
            )
        elif level.status in _LIMITS:
            limit = self.context.stop_reason() or _LIMITS[level.status]
            termination = Termination(
                Reason.FEASIBLE if best is not None else Reason.NO_SOLUTION_FOUND, limit, level.detail
            )
        else:
            termination = Termination(Reason.NUMERICAL_ERROR, detail=f"the engine failed: {level.detail}")
        return SolverOutcome(termination, best, bound, stats=self._told())

    def _told(self) -> Mapping[str, int | float | str | bool]:
        return dict(self.stats)
