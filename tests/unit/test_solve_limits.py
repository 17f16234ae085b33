"""`solve` when time or memory run out, or when it is interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import types
from typing import Any

import pytest
from solver_answers import OPTIMAL, honest, labels, run, small

from berthage import (
    Infeasibility,
    Limit,
    PlacementProblem,
    Reason,
    Registry,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    hookimpl,
    solve,
)
from berthage.registry import ReductionInfo
from berthage.solving import RunContext


def test_running_out_of_memory_is_a_result() -> None:
    def greedy(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        context.incumbent([0, 1])
        raise MemoryError

    result = run(greedy)
    assert result.termination == Termination(Reason.FEASIBLE, Limit.MEMORY, result.termination.detail)
    assert result.objective == 2


def patient(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
    """Finds something at once and then waits until it is told to stop."""
    context.incumbent([0, 1])
    deadline = time.monotonic() + 20
    while context.stop_reason() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    return SolverOutcome(Termination(Reason.FEASIBLE, context.stop_reason() or Limit.OTHER), labels(0, 1))


def test_the_clock_tells_when_time_is_up() -> None:
    begin = time.perf_counter()
    result = run(patient, time_limit=0.2)
    assert time.perf_counter() - begin < 2
    assert result.termination.limit is Limit.TIME
    assert result.timings["total"].wall >= 0.2


def test_compilation_is_reported_and_not_charged() -> None:
    left: list[float] = []

    def compiles(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        with context.phase("compile", charged=False):
            time.sleep(0.3)
        left.append(context.remaining())
        return honest(problem, params, options, context)

    result = run(compiles, time_limit=0.25)
    assert left[0] > 0
    assert result.timings["compile"].wall >= 0.3


def test_loading_a_reduction_is_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unchanged:
        def __init__(self) -> None:
            time.sleep(0.3)  # as a plugin that is read from a slow disk

        def reduce(self, problem: PlacementProblem, context: RunContext) -> types.SimpleNamespace:
            left.append(context.remaining())
            clash = Infeasibility("nothing is feasible")
            return types.SimpleNamespace(parts=(), infeasibility=clash, report={}, bound_error=0.0)

    class Plugin:
        @hookimpl
        def berthage_reductions(self) -> list[ReductionInfo]:
            return [ReductionInfo("slow", "", "slow_to_load:Unchanged")]

    left: list[float] = []
    module = types.ModuleType("slow_to_load")
    module.Unchanged = Unchanged  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "slow_to_load", module)
    result = solve(small(), honest, presolve=("slow",), registry=Registry({"slow": Plugin()}), time_limit=0.25)
    assert left[0] > 0
    assert result.timings["load"].wall >= 0.3


def _interrupt_soon(delays: list[float]) -> None:
    for delay in delays:
        timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()


def test_an_interrupt_asks_the_solver_to_stop() -> None:
    _interrupt_soon([0.2])
    result = run(patient)
    assert result.termination.limit is Limit.INTERRUPTED
    assert result.objective == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(("polls", "interrupts"), [(0, [0.2]), (1, [0.2, 0.5])])
def test_a_deaf_solver_is_interrupted_and_its_incumbent_kept(polls: int, interrupts: list[float]) -> None:
    def deaf(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        context.incumbent([0, 1])
        for _ in range(polls):
            context.stop_reason()
        time.sleep(20)
        return SolverOutcome(OPTIMAL, labels(1, 0), 1.0)

    _interrupt_soon(interrupts)
    begin = time.perf_counter()
    result = run(deaf)
    assert time.perf_counter() - begin < 10
    assert result.termination.limit is Limit.INTERRUPTED
    assert result.objective == 2
