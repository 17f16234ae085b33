"""`solve` believes no solver: what each lie becomes, and what core does with parameters, limits and reductions."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from berthage import (
    Infeasibility,
    InvalidProblemError,
    Limit,
    OptionError,
    PlacementProblem,
    PluginError,
    ProblemBuilder,
    Reason,
    Registry,
    SolutionUnavailableError,
    SolveContext,
    SolveParams,
    SolveResult,
    SolverInfo,
    SolverOutcome,
    Termination,
    UnknownNameError,
    UnsupportedProblemError,
    evaluate,
    hookimpl,
    solve,
)
from berthage.registry import ReductionInfo
from berthage.solving import RunContext
from berthage.solving.params import Progress
from berthage.testing import brute_force

OPTIMAL = Termination(Reason.OPTIMAL)
EMPTY_REGISTRY = Registry()


def small() -> PlacementProblem:
    """Optimum 1 at [1, 0]; the other assignments cost 3, 2 and 5."""
    b = ProblemBuilder("small")
    b.add_variable("a", 2, [0, 1])
    b.add_variable("b", 2, [0, 0])
    b.add_pairwise("a", "b", [[3, 2], [0, 4]])
    b.forbid_pairs("a", "b", [(1, 1)], name="apart")
    return b.build()


def fractional() -> PlacementProblem:
    b = ProblemBuilder("fractional")
    b.add_variable("a", 2, [0.5, 1.25])
    return b.build()


def says(outcome: SolverOutcome) -> Callable[..., SolverOutcome]:
    """A solver that answers this whatever it is asked."""

    def liar(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        return outcome

    return liar


def labels(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


def run(solver: Any, problem: PlacementProblem | None = None, **params: Any) -> SolveResult:
    return solve(problem or small(), solver, presolve=False, registry=EMPTY_REGISTRY, **params)


def honest(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
    truth = brute_force(problem)
    if not truth.feasible:
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
    if params.cutoff is not None and truth.objective > params.cutoff:
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
    return SolverOutcome(OPTIMAL, truth.assignments[0], float(truth.objective))


def test_an_honest_answer_stands() -> None:
    result = run(honest)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.termination.limit is None
    assert result.objective == 1
    assert type(result.objective) is int
    assert result.bound == 1
    assert result.absolute_gap == result.relative_gap == 0
    assert result.require().tolist() == [1, 0]
    assert result.evaluation is not None
    assert result.evaluation.objective == 1
    assert result.solver == "honest"


LIES: dict[str, tuple[SolverOutcome, str]] = {
    "infeasible assignment": (SolverOutcome(OPTIMAL, labels(1, 1), 0.0), "infeasible"),
    "too short": (SolverOutcome(OPTIMAL, labels(1), 1.0), "2, got"),
    "label out of range": (SolverOutcome(OPTIMAL, labels(1, 2), 1.0), "'b' has 2 labels"),
    "negative label": (SolverOutcome(OPTIMAL, labels(-1, 0), 1.0), "'a' has 2 labels"),
    "float labels": (SolverOutcome(OPTIMAL, np.array([1.0, 0.0]), 1.0), "integers"),  # type: ignore[arg-type]
    "NaN bound": (SolverOutcome(OPTIMAL, labels(1, 0), math.nan), "NaN"),
    "bound above a feasible objective": (SolverOutcome(OPTIMAL, labels(1, 0), 2.0), "above the objective"),
    "infinite bound with an assignment": (SolverOutcome(OPTIMAL, labels(1, 0), math.inf), "above the objective"),
    "infeasible with an assignment": (
        SolverOutcome(Termination(Reason.INFEASIBLE), labels(1, 0), -math.inf),
        "feasible assignment costs",
    ),
    "optimal without an assignment": (SolverOutcome(OPTIMAL, None, 1.0), "no assignment"),
    "feasible without an assignment": (
        SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), None, 1.0),
        "no assignment",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_numerical_error_that_says_what_was_wrong(lie: str) -> None:
    outcome, complaint = LIES[lie]
    result = run(says(outcome))
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert complaint in result.termination.detail
    if result.assignment is not None:
        assert evaluate(small(), result.assignment).feasible
        assert result.bound <= float(result.objective or 0)
    assert not math.isnan(result.bound)


def test_optimal_stands_only_with_a_bound_that_proves_it() -> None:
    result = run(says(SolverOutcome(OPTIMAL, labels(0, 1), 0.0)))
    assert result.termination.reason is Reason.FEASIBLE
    assert result.termination.limit is Limit.OTHER
    assert "bound" in result.termination.detail
    assert (result.objective, result.bound) == (2, 0)


def test_a_proof_makes_it_optimal_even_if_the_solver_was_modest() -> None:
    modest = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1, 0), 1.0)
    assert run(says(modest)).termination.reason is Reason.OPTIMAL


def test_bounds_of_whole_problems_are_rounded_up_and_of_others_not() -> None:
    answer = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(0, 1), 0.4)
    assert run(says(answer)).bound == 1
    answer = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1), 0.4)
    assert run(says(answer), fractional()).bound == 0.4


def test_rounding_up_does_not_turn_a_rounding_error_into_a_false_bound() -> None:
    answer = SolverOutcome(OPTIMAL, labels(1, 0), 1.0 + 1e-9)
    result = run(says(answer))
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 1


def test_a_bound_a_hair_above_the_objective_is_clipped() -> None:
    result = run(says(SolverOutcome(OPTIMAL, labels(0), 0.5 + 1e-10)), fractional())
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 0.5


def test_a_gap_widens_what_optimal_means() -> None:
    answer = SolverOutcome(OPTIMAL, labels(0, 1), 1.0)
    assert run(says(answer), gap=0.5).termination.reason is Reason.OPTIMAL
    assert run(says(answer), gap=0.4).termination.reason is Reason.FEASIBLE


def test_incumbents_told_on_the_way_count_and_the_best_is_kept() -> None:
    told: list[int | float | None] = []

    def chatty(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        told.append(context.incumbent([0, 0]))
        told.append(context.incumbent([1, 1]))  # forbidden
        told.append(context.incumbent([7, 7]))  # nonsense
        told.append(context.incumbent([1, 0]))
        context.bound(0.0)
        context.bound(-5.0)
        context.bound(math.nan)
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.ITERATIONS), labels(0, 1))

    seen: list[Progress] = []
    result = run(chatty, observer=seen.append)
    assert told == [3, None, None, 1]
    assert result.objective == 1
    assert result.bound == 0
    assert result.termination == Termination(Reason.FEASIBLE, Limit.ITERATIONS)
    assert [p.objective for p in seen if p.event == "incumbent"] == [3, 1]
    assert [p.bound for p in seen if p.event == "bound"] == [0]
    assert [t.time for t in result.trace] == sorted(t.time for t in result.trace)


def test_a_false_infeasible_is_exposed_when_the_constraints_can_be_met() -> None:
    """A solver that says infeasible only where costs are large: the second opinion finds an assignment."""

    def confused(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        if problem.unary.max() > 0:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        return honest(problem, params, options, context)

    result = run(confused)
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert "infeasible" in result.termination.detail
    assert result.assignment is not None
    assert evaluate(small(), result.assignment).feasible


def test_infeasible_names_the_constraints_that_clash() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.allow_pairs("a", "b", np.eye(2, dtype=bool), name="same")
    b.allow_pairs("b", "c", np.eye(2, dtype=bool), name="irrelevant")
    b.allow_pairs("a", "b", ~np.eye(2, dtype=bool), name="differ")
    b.add_budget("loose", {"c": [0, 1]}, upper=1)
    result = run(honest, b.build())
    assert result.termination.reason is Reason.INFEASIBLE
    assert result.infeasibility is not None
    assert set(result.infeasibility.constraints) == {"same", "differ"}
    assert "'same'" in result.infeasibility.detail
    with pytest.raises(SolutionUnavailableError, match="same"):
        result.require()


def clashing() -> PlacementProblem:
    """Three ties that cannot hold together; static checks do not see it."""
    b = ProblemBuilder("clashing")
    for name in "abc":
        b.add_variable(name, 2)
    b.tie("a", "b", [0, 1], name="t1")
    b.tie("b", "c", [0, 1], name="t2")
    b.tie("c", "a", [1, 0], name="t3")
    b.add_budget("loose", {"c": [0, 1]}, upper=1)
    return b.build()


def test_the_solver_s_own_reason_is_kept_when_what_it_names_suffices() -> None:
    why = Infeasibility("because", ("t1", "t2", "t3"))
    result = run(says(SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf, why)), clashing())
    assert result.infeasibility == why


def test_a_reason_that_names_no_removable_constraints_is_completed() -> None:
    why = Infeasibility("variable 'a' has no label left", ("a",))

    def vague(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        outcome = honest(problem, params, options, context)
        return dataclasses.replace(outcome, infeasibility=why) if outcome.assignment is None else outcome

    result = run(vague, clashing())
    assert result.infeasibility is not None
    assert result.infeasibility.constraints == ("t1", "t2", "t3")
    assert "no label left" in result.infeasibility.detail


def test_a_budget_that_only_clashes_with_pins_names_the_pins_too() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.fix("a", 1, name="F0")
    b.fix("b", 1, name="F1")
    b.add_budget("mem", {"a": [0, 1], "b": [0, 1]}, upper=1)
    result = run(honest, b.build())
    assert result.infeasibility is not None
    assert set(result.infeasibility.constraints) == {"F0", "F1", "mem"}


def test_a_claim_of_infeasibility_is_refuted_where_nothing_forbids_anything() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [0.5, 1.25])
    result = run(says(SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)), b.build())
    assert result.termination.reason is Reason.NUMERICAL_ERROR
    assert result.objective == 0.5


@pytest.mark.parametrize("gap", [0.0, 0.5])
def test_a_cutoff_that_a_loose_proof_does_not_reach_is_not_called_infeasible(gap: float) -> None:
    def loose(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        dearest = np.array([int(np.argmax(problem.unary_of(v))) for v in range(problem.num_variables)])
        context.incumbent(dearest)
        return SolverOutcome(OPTIMAL, dearest, 0.0)

    b = ProblemBuilder()
    b.add_variable("a", 2, [10, 11])
    b.add_variable("b", 2, [10, 11])
    for params in ({}, {"presolve": ["components"]}):
        result = solve(b.build(), loose, cutoff=20, gap=gap, **{"presolve": False, **params})
        assert result.termination.reason is not Reason.INFEASIBLE


@pytest.mark.parametrize(
    "wrong",
    [{"bound": None}, {"stats": None}, {"termination": "optimal"}, {"infeasibility": "because"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_outcome_with_fields_of_the_wrong_kind_names_the_solver(wrong: dict[str, Any]) -> None:
    outcome = SolverOutcome(
        **{"termination": Termination(Reason.OPTIMAL), "assignment": labels(1, 0), "bound": 1.0, **wrong}
    )
    with pytest.raises(PluginError, match=f"liar.*{next(iter(wrong))}"):
        run(says(outcome))


@pytest.mark.parametrize(
    "wrong",
    [{"time_limit": "5"}, {"cutoff": "3"}, {"seed": 1.5}, {"iteration_limit": 2.5}, {"seed": True}, {"gap": math.nan}],
)
def test_parameters_of_the_wrong_kind_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        SolveParams(**wrong)


def test_too_little_memory_is_named_before_any_solver_runs() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.add_interval_budget("memory", [("a", 0, 3, [5, 4]), ("b", 2, 6, [7, 6])], limit=9)
    result = run(says(SolverOutcome(OPTIMAL)), b.build())
    why = result.infeasibility
    assert why is not None
    assert (why.constraints, why.instant, set(why.live), why.least_limit) == (("memory",), 2, {"a", "b"}, 10)
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_budget("sum", {"a": [5, 4]}, upper=3)
    why = run(says(SolverOutcome(OPTIMAL)), b.build()).infeasibility
    assert why is not None
    assert (why.constraints, why.least_limit) == (("sum",), 4)


@pytest.mark.parametrize("kind", ["sum", "over time"])
def test_a_pin_that_fills_a_budget_is_named_with_it(kind: str) -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.allow("a", [0], name="pin of a")
    b.allow("b", [1], name="pin of b")  # takes nothing that is needed
    b.allow("c", [0], name="pin of c")  # has no part in the budget
    if kind == "sum":
        b.add_budget("memory", {"a": [9, 1], "b": [5, 2]}, upper=5)
    else:
        b.add_interval_budget("memory", [("a", 0, 3, [9, 1]), ("b", 2, 6, [5, 2])], limit=5)
    why = run(says(SolverOutcome(OPTIMAL)), b.build()).infeasibility
    assert why is not None
    assert why.constraints == ("memory", "pin of a")
    assert "'memory' with 'pin of a'" in why.detail


@pytest.mark.parametrize("cutoff", [0, -7, 0.5])
def test_nothing_at_or_below_the_cutoff_is_infeasible_and_says_so(cutoff: float) -> None:
    result = run(honest, cutoff=cutoff)
    assert result.termination.reason is Reason.INFEASIBLE
    assert result.assignment is None
    assert result.infeasibility is not None
    assert str(cutoff) in result.infeasibility.detail
    assert result.bound <= 1


def test_a_solver_that_ignores_the_cutoff_is_not_believed() -> None:
    ignorant = says(SolverOutcome(OPTIMAL, labels(1, 0), 1.0))
    result = run(ignorant, cutoff=0)
    assert result.assignment is None
    assert result.termination.reason in (Reason.INFEASIBLE, Reason.NUMERICAL_ERROR)


def test_an_empty_problem_needs_no_solver() -> None:
    b = ProblemBuilder()
    b.add_constant(5)
    never = says(SolverOutcome(Termination(Reason.NUMERICAL_ERROR)))
    result = run(never, b.build())
    assert (result.termination.reason, result.objective, result.bound) == (Reason.OPTIMAL, 5, 5)
    assert run(never, b.build(), cutoff=4).termination.reason is Reason.INFEASIBLE
    b.add_budget("impossible", {}, lower=1)
    assert run(never, b.build()).termination.reason is Reason.INFEASIBLE


def test_a_warm_start_is_a_floor() -> None:
    nothing = SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.TIME))
    result = run(says(nothing), warm_start=[0, 1])
    assert result.objective == 2
    assert result.termination == Termination(Reason.FEASIBLE, Limit.TIME)
    assert run(says(nothing), warm_start=[1, 1]).assignment is None, "an infeasible start counts for nothing"
    with pytest.raises(InvalidProblemError):
        run(says(nothing), warm_start=[0])


def test_a_solver_that_raises_or_returns_rubbish_is_a_plugin_error() -> None:
    def crashes(*_: Any) -> SolverOutcome:
        raise ZeroDivisionError("oops")

    def rubbish(*_: Any) -> Any:
        return {"objective": 1}

    def refuses(*_: Any) -> SolverOutcome:
        raise UnsupportedProblemError("three-way costs")

    with pytest.raises(PluginError, match=r"'crashes'.*oops"):
        run(crashes)
    with pytest.raises(PluginError, match=r"'rubbish'.*dict"):
        run(rubbish)
    with pytest.raises(UnsupportedProblemError, match="three-way"):
        run(refuses)


def test_running_out_of_memory_is_a_result() -> None:
    def greedy(problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext) -> SolverOutcome:
        context.incumbent([0, 1])
        raise MemoryError

    result = run(greedy)
    assert result.termination == Termination(Reason.FEASIBLE, Limit.MEMORY, result.termination.detail)
    assert result.objective == 2


def test_a_solver_may_be_an_object_a_callable_or_a_name() -> None:
    class Object:
        name = "object"

        def solve(
            self, problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext
        ) -> SolverOutcome:
            return honest(problem, params, options, context)

    assert run(Object()).solver == "object"
    with pytest.raises(UnknownNameError):
        run("no-such-solver")
    with pytest.raises(OptionError, match="int"):
        run(3)


@dataclass(frozen=True)
class Options:
    """For the test below."""

    sweeps: int = field(default=3, metadata={"help": "how many"})


class Recorder:
    """A solver that tells which options it got."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: Options, context: SolveContext
    ) -> SolverOutcome:
        return SolverOutcome(OPTIMAL, labels(1, 0), 1.0, stats={"sweeps": options.sweeps, "seed": params.seed})


class Plugin:
    @hookimpl
    def berthage_solvers(self) -> list[SolverInfo]:
        info = SolverInfo("recorder", "For tests.", f"{__name__}:Recorder", options=Options, version="7")
        return [info]


def test_options_and_parameters_reach_the_solver_checked() -> None:
    import sys

    sys.modules.setdefault(__name__, sys.modules[Recorder.__module__])
    registry = Registry({"mine": Plugin()})
    result = solve(small(), "recorder", options={"sweeps": 5}, seed=4, presolve=False, registry=registry)
    assert result.stats == {"sweeps": 5, "seed": 4}
    assert (result.solver, result.solver_version, result.seed) == ("recorder", "7", 4)
    with pytest.raises(OptionError, match="swaps"):
        solve(small(), "recorder", options={"swaps": 5}, registry=registry)
    with pytest.raises(OptionError, match="sweeps"):
        solve(small(), "recorder", options={"sweeps": "many"}, registry=registry)


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_limit": -1},
        {"time_limit": math.nan},
        {"gap": -0.1},
        {"threads": 0},
        {"seed": -1},
        {"iteration_limit": -1},
        {"cutoff": math.nan},
        {"tme_limit": 3},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        run(honest, **wrong)


def test_a_limit_goes_with_its_reasons_and_no_others() -> None:
    for reason in Reason:
        stopped = reason in (Reason.FEASIBLE, Reason.NO_SOLUTION_FOUND)
        with pytest.raises(ValueError, match="limit"):
            Termination(reason, None if stopped else Limit.TIME)


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
    import threading

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


def test_certify_takes_the_better_bound() -> None:
    weak = SolverOutcome(Termination(Reason.FEASIBLE, Limit.TIME), labels(1, 0), -3.0)
    import sys

    sys.modules.setdefault(__name__, sys.modules[Recorder.__module__])
    registry = Registry({"mine": Plugin()})
    result = solve(small(), says(weak), certify="recorder", presolve=False, registry=registry)
    assert result.termination.reason is Reason.OPTIMAL
    assert result.bound == 1
    assert result.stats["certified_by"] == "recorder"


def test_enormous_costs_overflow_into_an_error_that_says_so() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1, [1e308])
    b.add_variable("b", 1, [1e308])
    with pytest.raises(InvalidProblemError, match="rescale"):
        run(says(SolverOutcome(OPTIMAL, labels(0, 0), 0.0)), b.build())
