"""Checks of how a solver behaves: limits, warm starts, cutoffs, options, events, an unchanged problem."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from berthage import (
    Capability,
    Limit,
    OptionError,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    SolveResult,
    UnsupportedProblemError,
    evaluate,
)
from berthage.solving.params import Progress
from berthage.testing.hard import hard_problem
from berthage.testing.kit.checks import Check, check
from berthage.testing.kit.solver_kit import SolverKit
from berthage.testing.known import known_answers
from berthage.testing.oracle import all_assignments, brute_force, price_all
from berthage.testing.strategies import Costs, assignments, problems
from berthage.testing.verify import verify_feasible

__all__ = ["CONDUCT_CHECKS", "fingerprint"]

_PLAIN_COSTS = (Costs.INTEGER, Costs.EIGHTHS)


def fingerprint(problem: PlacementProblem) -> str:
    """A digest of every array a problem holds, computed anew (the problem's own digest is computed once)."""
    digest = hashlib.sha256()

    def feed(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype}{value.shape}{value.flags.writeable}".encode() + value.tobytes())
        elif isinstance(value, tuple):
            for item in value:
                feed(item)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                feed(getattr(value, field.name))
        elif hasattr(value, "digest_parts"):
            feed(tuple(value.digest_parts()))
        else:
            digest.update(repr(value).encode())

    feed(problem)
    return digest.hexdigest()


@check(given=lambda kit: problems(features=kit.features, costs=_PLAIN_COSTS), share=0.5)
def leaves_the_problem_alone(kit: SolverKit, problem: PlacementProblem) -> None:
    """Solving changes nothing in the problem: no array, no name, no flag."""
    before = fingerprint(problem)
    kit.solve(problem)
    assert fingerprint(problem) == before, "the solver changed the problem"


@check(given=lambda kit: problems(features=kit.features, costs=(Costs.FLAT, Costs.EIGHTHS), min_variables=2), share=0.5)
def gives_the_same_answer_twice(kit: SolverKit, problem: PlacementProblem) -> None:
    """Same problem, options and seed: same assignment, objective, bound and termination."""
    first, second = kit.solve(problem, seed=3), kit.solve(problem, seed=3)
    assert _essence(first) == _essence(second)


def _essence(result: SolveResult) -> tuple[Any, ...]:
    chosen = None if result.assignment is None else tuple(result.assignment.tolist())
    return chosen, result.objective, result.bound, result.termination.reason, result.termination.limit


@check(
    given=lambda kit: problems(features=kit.features, costs=_PLAIN_COSTS).flatmap(
        lambda problem: st.tuples(st.just(problem), assignments(problem))
    ),
    share=0.5,
)
def warm_starts_never_worsen(kit: SolverKit, pair: tuple[PlacementProblem, list[int]]) -> None:
    """A feasible warm start is never lost, an infeasible one does no harm."""
    problem, start = pair
    offered = evaluate(problem, start)
    result = kit.solve(problem, warm_start=start)
    kit.judge(problem, brute_force(problem), result)
    if offered.feasible and Capability.WARM_START in kit.info.capabilities:
        assert result.objective is not None, "a feasible warm start was lost"
        assert result.objective <= offered.objective, f"{result.objective!r} from a start of {offered.objective!r}"


@check(given=lambda kit: problems(features=kit.features, costs=(Costs.FLAT, Costs.INTEGER), min_variables=1), share=0.5)
def gap_allows_stopping_early(kit: SolverKit, problem: PlacementProblem) -> None:
    """With a gap of 20 %, OPTIMAL means within 20 %, and still nothing is claimed that is not so."""
    truth = brute_force(problem)
    result = kit.solve(problem, gap=0.2)
    if result.assignment is not None:
        verify_feasible(problem, result)
    assert result.bound <= truth.objective + kit.tolerance * max(1.0, abs(truth.objective))
    if result.termination.reason is Reason.OPTIMAL:
        assert result.objective is not None
        assert result.objective - result.bound <= 0.2 * max(1.0, abs(result.objective)) + kit.tolerance
    if result.termination.reason is Reason.INFEASIBLE:
        assert not truth.feasible


@check()
def unknown_options_are_refused(kit: SolverKit) -> None:
    """An option that does not exist is an OptionError naming it, before anything runs."""
    with pytest.raises(OptionError, match="no_such_option"):
        kit.with_options({"no_such_option": 1}).solve(_small())


@check()
def ill_typed_options_are_refused(kit: SolverKit) -> None:
    """A value of the wrong type is an OptionError naming the option, for every option there is."""
    fields = () if kit.info.options is None else dataclasses.fields(kit.info.options)
    for field in fields:
        if field.init:
            with pytest.raises(OptionError, match=field.name):
                kit.with_options({field.name: object()}).solve(_small())


@check()
def refuses_what_it_does_not_take(kit: SolverKit) -> None:
    """A budget of a kind not promised is refused by name or kept; it is never ignored."""
    for case in known_answers():
        if kit.needs_of(case.problem) <= kit.info.capabilities:
            continue
        try:
            result = kit.solve(case.problem)
        except UnsupportedProblemError:
            continue
        kit.judge(case.problem, brute_force(case.problem), result)


@check()
def results_say_who_and_how(kit: SolverKit) -> None:
    """A result names solver, version and seed, and has timings that are numbers and add up."""
    result = kit.solve(_small(), seed=11)
    assert result.solver == kit.info.name
    assert result.solver_version, "no version; the distribution's is used when the description gives none"
    assert result.seed == 11
    assert "total" in result.timings
    for phase, spent in result.timings.items():
        assert math.isfinite(spent.wall), f"phase {phase} took {spent.wall!r} s"
        assert 0 <= spent.wall <= result.timings["total"].wall + 1e-3, f"phase {phase} took {spent.wall!r} s"
        assert math.isfinite(spent.cpu), f"phase {phase} took {spent.cpu!r} CPU s"
    for key, value in result.stats.items():
        assert isinstance(value, int | float | str | bool | np.generic), f"stats[{key!r}] is a {type(value)}"


@check(given=lambda kit: problems(features=kit.features, costs=_PLAIN_COSTS, min_variables=2), share=0.5)
def observers_see_progress(kit: SolverKit, problem: PlacementProblem) -> None:
    """Incumbents never worsen, bounds never fall, no bound passes the optimum, the result is the best seen."""
    truth = brute_force(problem)
    seen: list[Progress] = []
    result = kit.solve(problem, observer=seen.append)
    assert all(a.time <= b.time for a, b in pairwise(seen)), "events out of order"
    found = [p.objective for p in seen if p.event == "incumbent" and p.objective is not None]
    assert all(a >= b for a, b in pairwise(found)), f"incumbents worsen: {found}"
    bounds = [p.bound for p in seen if p.event == "bound"]
    assert all(a <= b for a, b in pairwise(bounds)), f"bounds fall: {bounds}"
    limit = truth.objective + kit.tolerance * max(1.0, abs(truth.objective))
    assert all(bound <= limit for bound in bounds), f"{bounds} pass the optimum {truth.objective!r}"
    if result.objective is not None and found:
        assert result.objective <= found[-1]
    assert {p.solver for p in seen} <= {kit.info.name}


@check()
def time_limit_is_kept(kit: SolverKit) -> None:
    """A problem far too hard, with one second: back within a second or 5 %, with what was found."""
    kit.solve(_small())  # imports and compilation are not the solver's search time
    limit = 1.0
    late = [math.inf]
    while len(late) <= 3 and min(late) > 0.0:  # a busy machine may steal a second, but not every time
        allowed = limit + 1.0 * _crowding()
        begin = time.perf_counter()
        result = kit.solve(hard_problem(), time_limit=limit)
        late.append(time.perf_counter() - begin - _uncharged(result) - allowed)
        _valid_when_stopped(kit, result)
    assert min(late) <= 0.0, f"a limit of {limit} s was overrun by {min(late) + 1.0:.2f} s"


@check()
def no_time_at_all_is_answered(kit: SolverKit) -> None:
    """A time limit of zero returns at once and claims nothing false."""
    kit.solve(_small())
    allowed = 3.0 * _crowding()
    begin = time.perf_counter()
    result = kit.solve(hard_problem(), time_limit=0.0)
    assert time.perf_counter() - begin - _uncharged(result) <= allowed
    _valid_when_stopped(kit, result)


def _crowding() -> float:
    """Wall seconds per CPU second of plain arithmetic: 1 on an idle machine, more where others compute too."""
    wall, cpu = time.perf_counter(), time.process_time()
    while time.process_time() - cpu < 0.1:
        sum(range(1000))
    return max(1.0, (time.perf_counter() - wall) / (time.process_time() - cpu))


@check()
def iteration_limit_is_kept(kit: SolverKit) -> None:
    """With a limit of one iteration a solver stops long before its time limit, and says what stopped it."""
    result = kit.solve(hard_problem(variables=30), iteration_limit=1, time_limit=20.0)
    assert result.termination.limit is not Limit.TIME, "the time limit stopped it, not the iteration limit"
    _valid_when_stopped(kit, result)


def _uncharged(result: SolveResult) -> float:
    spent = result.timings.get("compile")
    return spent.wall if spent else 0.0


def _valid_when_stopped(kit: SolverKit, result: SolveResult) -> None:
    """The hard problem is feasible: what a stopped solver says must agree with that."""
    assert result.termination.reason in (
        Reason.FEASIBLE,
        Reason.NO_SOLUTION_FOUND,
        Reason.OPTIMAL,
        Reason.NOT_INTEGRAL,
    ), f"{result.termination}"
    if result.assignment is not None:
        assert result.evaluation is not None
        assert result.evaluation.feasible
        assert result.objective == result.evaluation.objective
        assert result.bound <= float(result.evaluation.objective)


@check(given=lambda kit: problems(features=kit.features, costs=(Costs.FLAT, Costs.INTEGER), max_states=200), share=0.5)
def bounds_hold_for_every_assignment(kit: SolverKit, problem: PlacementProblem) -> None:
    """No feasible assignment costs less than the bound, whatever stopped the solver."""
    everything = all_assignments(problem)
    costs, feasible = price_all(problem, everything)
    for limit in (1, 3):
        result = kit.solve(problem, iteration_limit=limit)
        if feasible.any():
            least = float(costs[feasible].min())
            assert result.bound <= least + kit.tolerance * max(1.0, abs(least))
            assert result.termination.reason is not Reason.INFEASIBLE
        else:
            assert result.assignment is None


def _small() -> PlacementProblem:
    b = ProblemBuilder("small")
    b.add_variable("a", 2, [0, 1])
    b.add_variable("b", 2, [1, 0])
    b.add_pairwise("a", "b", [[3, 2], [0, 3]])
    return b.build()


CONDUCT_CHECKS: tuple[Check, ...] = (
    leaves_the_problem_alone,
    gives_the_same_answer_twice,
    warm_starts_never_worsen,
    gap_allows_stopping_early,
    unknown_options_are_refused,
    ill_typed_options_are_refused,
    refuses_what_it_does_not_take,
    results_say_who_and_how,
    observers_see_progress,
    bounds_hold_for_every_assignment,
    time_limit_is_kept,
    no_time_at_all_is_answered,
    iteration_limit_is_kept,
)
