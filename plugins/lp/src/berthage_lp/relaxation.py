"""Solving the relaxation: which algorithm, costs of very different size, second opinions, and a bound that holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from berthage.linear import LinearProgram, cost_levels, dual_bound, objective_factor
from berthage_lp.engine import Engine, Run, Status
from berthage_lp.options import LpOptions

__all__ = ["Control", "Relaxation", "proves_infeasible", "solve_relaxation"]

_ITERATIONS_PER_ROW = 0.75
"""Simplex needs some 0.2 to 0.65 iterations a row where it suits a problem, many times that where it does not."""

_LEAST_ITERATIONS = 2000

_DUAL_TOLERANCE = 1e-9
"""Dual feasibility asked of simplex: what it lacks is lost from the bound."""


@dataclass(frozen=True, slots=True)
class Control:
    """What may stop a run, and who hears of bounds.

    Attributes:
        stop: Whether to stop now.
        remaining: Seconds left, inf without a limit.
        bound: Told of every valid bound.
        iteration_limit: Iterations of one algorithm at most, or None.
        seed: Seed of HiGHS.
    """

    stop: Callable[[], bool] = lambda: False
    remaining: Callable[[], float] = lambda: math.inf
    bound: Callable[[float], None] = lambda value: None
    iteration_limit: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The relaxation of a program, as far as it was solved.

    Attributes:
        status: How the last run ended.
        bound: A valid lower bound in the problem's units, whatever the status; inf when infeasible.
        x: ``float64[c]`` the solution, or None.
        program: The program that `x` solves: the given one, or that without its dearest costs.
        engine: The engine that holds it, or None when there is nothing to go on with.
        method: ``simplex`` or ``ipm``.
        iterations: Iterations of all runs.
        certified: Whether an infeasibility was proved from a dual ray.
    """

    status: Status
    bound: float
    x: NDArray[np.float64] | None
    program: LinearProgram
    engine: Engine | None
    method: str
    iterations: int
    certified: bool = False


def solve_relaxation(program: LinearProgram, options: LpOptions, control: Control) -> Relaxation:
    """Solve the relaxation level by level of cost (nearly always there is one level).

    Args:
        program: The program.
        options: Method, crossover.
        control: Limits.

    Returns:
        The relaxation; its bound is valid even when the run was stopped.
    """
    floor = dual_bound(program, np.zeros(program.num_rows))
    control.bound(floor)
    iterations = 0
    for limit in cost_levels(program):
        part = program if math.isinf(limit) else program.without_costs_above(limit)
        edge = program.bound_of(limit) if math.isfinite(limit) else math.inf
        found = _solve_level(part, options, control)
        iterations += found.iterations
        if found.status is Status.INFEASIBLE:
            if math.isinf(limit):
                return replace(found, iterations=iterations)
            floor = max(floor, edge)
            control.bound(floor)
            continue
        floor = max(floor, min(found.bound, edge))
        control.bound(floor)
        settled = found.status is not Status.OPTIMAL or found.bound <= edge
        if settled:
            return replace(found, bound=floor, iterations=iterations)
    raise AssertionError("the last level has no limit and settles every case")


def _solve_level(program: LinearProgram, options: LpOptions, control: Control) -> Relaxation:
    engine = Engine(program, objective_factor(program), control.seed)
    engine.options(dual_feasibility_tolerance=_DUAL_TOLERANCE, ipm_optimality_tolerance=1e-9)
    cap = control.iteration_limit
    bound = -math.inf
    spent = 0
    method = "simplex"
    run: Run | None = None
    if options.method != "ipm":
        patience = max(_LEAST_ITERATIONS, int(_ITERATIONS_PER_ROW * program.num_rows))
        simplex_cap = cap if options.method == "simplex" else min(patience, 2**31 - 1 if cap is None else cap)
        engine.options(solver="simplex", simplex_iteration_limit=2**31 - 1 if simplex_cap is None else simplex_cap)
        run = engine.run(control.stop, control.remaining())
        spent += run.iterations
        bound = _bound_of_run(program, run)
        hopeless = run.status is Status.ITERATIONS and simplex_cap != cap
        if not hopeless and run.status is not Status.FAILED:
            return _finish(program, engine, run, bound, method, spent, control)
        if options.method == "simplex":
            return _finish(program, engine, run, bound, method, spent, control)
    method = "ipm"
    engine.reset()
    engine.options(
        solver="ipm",
        run_crossover="on" if options.crossover else "off",
        ipm_iteration_limit=2**31 - 1 if cap is None else cap,
        simplex_iteration_limit=2**31 - 1,
    )
    run = engine.run(control.stop, control.remaining())
    spent += run.iterations
    bound = max(bound, _bound_of_run(program, run))
    return _finish(program, engine, run, bound, method, spent, control)


def _bound_of_run(program: LinearProgram, run: Run) -> float:
    return -math.inf if run.row_dual is None else dual_bound(program, run.row_dual)


def _finish(
    program: LinearProgram, engine: Engine, run: Run, bound: float, method: str, spent: int, control: Control
) -> Relaxation:
    """Settle a run; what HiGHS calls infeasible, or cannot classify, gets a second look."""
    if run.status in (Status.INFEASIBLE, Status.FAILED) and not engine.abandoned:
        engine.reset()
        engine.options(solver="simplex", presolve="off", simplex_iteration_limit=2**31 - 1)
        second = engine.run(control.stop, control.remaining())
        spent += second.iterations
        if second.status is Status.INFEASIBLE:
            ray = engine.ray()
            certified = ray is not None and proves_infeasible(program, ray)
            return Relaxation(Status.INFEASIBLE, math.inf, None, program, None, method, spent, certified)
        run = second
        bound = max(bound, _bound_of_run(program, second))
    usable = None if engine.abandoned else engine
    x = run.x if run.status is Status.OPTIMAL else None
    return Relaxation(run.status, bound, x, program, usable, method, spent)


def proves_infeasible(program: LinearProgram, ray: NDArray[np.float64]) -> bool:
    """Whether row multipliers prove that no point is feasible: with all costs 0 they give a bound above 0."""
    nothing = np.zeros(program.num_cols)
    free = replace(program, cost=nothing, cost_error=nothing, offset=0.0, offset_error=0.0, scale=1.0)
    return dual_bound(free, ray) > 0.0 or dual_bound(free, -ray) > 0.0
