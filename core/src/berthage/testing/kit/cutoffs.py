"""Checks of cutoffs together with gaps, presolve and problems that fall apart: where each bends another's meaning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import note
from hypothesis import strategies as st

from berthage import PlacementProblem, ProblemBuilder, Reason, SolveResult, evaluate
from berthage.testing.kit.checks import Check, check
from berthage.testing.kit.solver_kit import SolverKit
from berthage.testing.known import KnownAnswer, known_answers
from berthage.testing.oracle import all_assignments, price_all
from berthage.testing.strategies import Costs, problems, trees
from berthage.testing.verify import verify_bound, verify_feasible, verify_infeasible

__all__ = ["CUTOFF_CHECKS"]

_GAPS = (0.0, 1e-3, 0.5)
_PLACES = ("below", "just below", "at", "just above", "above")


@dataclass(frozen=True)
class _Asked:
    """A way to ask for a solution of a problem whose optimum is known."""

    place: str
    cutoff: int | float
    gap: float
    presolve: bool


def _cutoff(optimum: int | float, place: str) -> int | float:
    """A cutoff beside the optimum: well away, or by the least that a float of its size (or an integer) can tell."""
    if place == "at":
        return optimum
    sign = -1 if place.endswith("below") else 1
    if not place.startswith("just"):
        return optimum + sign * (1 if isinstance(optimum, int) else max(1.0, 0.01 * abs(optimum)))
    return optimum + sign if isinstance(optimum, int) else math.nextafter(optimum, sign * math.inf)


@dataclass(frozen=True)
class _Truth:
    """The least objective, as `evaluate` has it, which is what cutoffs are held against; inf when infeasible.

    Attributes:
        optimum: the least objective.
        clear: whether every other objective is well above it, so that rounding cannot take one for the other.
    """

    optimum: int | float
    clear: bool


def _truth(problem: PlacementProblem, tolerance: float) -> _Truth:
    everything = all_assignments(problem)
    costs, feasible = price_all(problem, everything)
    if not feasible.any():
        return _Truth(math.inf, True)
    costs, everything = costs[feasible], everything[feasible]
    least = costs.min()
    near = everything[(costs - least).astype(np.float64) <= tolerance * max(1.0, abs(float(least)))]
    objectives = {evaluate(problem, x).objective for x in near}
    return _Truth(min(objectives), len(objectives) == 1)


def _judge(kit: SolverKit, problem: PlacementProblem, truth: _Truth, asked: _Asked) -> None:
    """Solve, and assert what holds for every solver, gap, presolve and cutoff."""
    optimum = truth.optimum
    result = kit.solve(problem, cutoff=asked.cutoff, gap=asked.gap, presolve=asked.presolve)
    ended = result.termination
    if ended.reason is Reason.INFEASIBLE:
        assert optimum > asked.cutoff, f"{asked}: said infeasible, but {optimum!r} can be had"
        verify_infeasible(problem, result)
    # An infeasible outcome may prove nothing beyond the cutoff, so its bound is held against the optimum as well.
    verify_bound(result, optimum, tolerance=kit.tolerance)
    assert ended.reason is not Reason.NUMERICAL_ERROR, f"{asked}: the numbers are tame, yet: {ended}"
    if result.assignment is None:
        assert ended.reason not in (Reason.OPTIMAL, Reason.FEASIBLE), f"{asked}: no assignment, yet: {ended}"
    else:
        verify_feasible(problem, result)
        assert result.objective is not None
        assert result.objective <= asked.cutoff, f"{asked}: {result.objective!r} is above the cutoff"
        if ended.reason is Reason.OPTIMAL:
            allowed = asked.gap * max(1.0, abs(result.objective)) + kit.tolerance * max(1.0, abs(optimum))
            assert result.objective - optimum <= allowed, f"{asked}: {result.objective!r} is not within the gap"
    if kit.exact:
        _judge_exact(kit, result, truth, asked)


def _judge_exact(kit: SolverKit, result: SolveResult, truth: _Truth, asked: _Asked) -> None:
    """What an exact solver owes besides, where rounding is no excuse."""
    optimum = truth.optimum
    if not truth.clear or (asked.place == "just below" and isinstance(optimum, float)):
        return
    slack = kit.tolerance * max(1.0, abs(optimum))
    if optimum > asked.cutoff:
        assert result.termination.reason is Reason.INFEASIBLE, f"{asked}: nothing lies below, yet: {result.termination}"
    elif asked.gap == 0.0:
        assert result.objective is not None, f"{asked}: {optimum!r} can be had, yet: {result.termination}"
        assert result.objective - optimum <= slack, f"{asked}: {result.objective!r} where {optimum!r} can be had"
        assert optimum - result.bound <= slack, f"{asked}: no proof: {result.bound!r} where {optimum!r} is the optimum"
        # The last digits of a proof are lost where large floats cancel; whole numbers leave no doubt.
        if isinstance(optimum, int):
            assert result.termination.reason is Reason.OPTIMAL, f"{asked}: {result.termination}"


def _running_sums() -> KnownAnswer:
    # Added up one after the other, 0.1 + 0.2 + 0.3 is more than 0.6, the exact sum rounded once.
    b = ProblemBuilder("sums that round")
    for name, cost in (("a", 0.1), ("b", 0.2), ("c", 0.3)):
        b.add_variable(name, 2, [cost, 5.0])
    b.add_pairwise("a", "b", [[0.0, 1.0], [1.0, 1.0]])
    b.add_pairwise("b", "c", [[0.0, 1.0], [1.0, 1.0]])
    return KnownAnswer("running-sums", b.build(), 0.6, (0, 0, 0))


def _cancelling() -> KnownAnswer:
    # Large costs cancel: what rounding leaves is more than the distance to the next float of the optimum.
    b = ProblemBuilder("costs that cancel")
    b.add_variable("a", 2, [1e6 + 0.1, 2e6])
    b.add_variable("b", 2, [-1e6, 1e6])
    b.add_variable("c", 2, [0.7, 3e6])
    b.add_pairwise("a", "b", [[0.3, 0.0], [0.0, 0.0]])
    b.add_pairwise("b", "c", [[0.1, 0.0], [0.0, 0.0]])
    return KnownAnswer("costs-that-cancel", b.build(), evaluate(b.build(), [0, 0, 0]).objective, (0, 0, 0))


def _two_halves(scale: int | float) -> KnownAnswer:
    # In each half the gap lets a solver stop at a dearer label; the halves together then lie above the cutoff.
    b = ProblemBuilder("two halves")
    for half in "xy":
        for name in "abc":
            b.add_variable(half + name, 2, [10 * scale, 12 * scale])
        for u, v in ("ab", "bc", "ac"):
            b.add_pairwise(half + u, half + v, [[4 * scale, 0], [0, 4 * scale]])
    kind = "integers" if isinstance(scale, int) else "floats"
    return KnownAnswer(f"two-halves-of-{kind}", b.build(), evaluate(b.build(), [0, 0, 1] * 2).objective)


def _many_parts() -> KnownAnswer:
    # Parts of both signs: no part alone obeys the cutoff of the whole.
    b = ProblemBuilder("many parts")
    for part, (low, high) in enumerate(((-7.25, -7.0), (3.1, 3.3), (-0.2, 0.1), (9.7, 9.9))):
        u = b.add_variable(f"u{part}", 2, [low, high])
        v = b.add_variable(f"v{part}", 2, [0.0, 0.05])
        b.add_pairwise(u, v, [[0.4, 0.0], [0.0, 0.4]])
    b.add_constant(-3)
    return KnownAnswer("many-parts", b.build(), evaluate(b.build(), [0, 1] * 4).objective)


def _rounding_ties() -> KnownAnswer:
    # As real numbers 9.7 + 0.05 and 9.75 are the same, as floats they are not: only one of them meets the cutoff.
    b = ProblemBuilder("equal but for rounding")
    for part, (low, high) in enumerate(((-7.25, -7.2), (9.7, 9.75), (3.1, 3.15))):
        u = b.add_variable(f"u{part}", 2, [low, high])
        v = b.add_variable(f"v{part}", 2, [0.0, 0.05])
        b.add_pairwise(u, v, [[0.4, 0.0], [0.0, 0.4]])
    return KnownAnswer("rounding-ties", b.build(), 5.7)


def _together() -> KnownAnswer:
    # A budget holds the halves together, so that only one may take its cheap label.
    b = ProblemBuilder("held together")
    for name in "abcd":
        b.add_variable(name, 2, [0.1, 1.3])
    b.add_pairwise("a", "b", [[0.0, 0.2], [0.2, 0.0]])
    b.add_pairwise("c", "d", [[0.0, 0.2], [0.2, 0.0]])
    b.add_budget("room", {name: [1, 0] for name in "abcd"}, upper=2)
    return KnownAnswer("held-together", b.build(), evaluate(b.build(), [0, 0, 1, 1]).objective)


def _cases() -> Iterator[KnownAnswer]:
    yield from (
        _running_sums(),
        _cancelling(),
        _two_halves(1),
        _two_halves(0.1),
        _many_parts(),
        _rounding_ties(),
        _together(),
    )
    names = {"empty", "frustrated-triangle", "negative-costs", "chain-of-ties", "disconnected", "soft-linear-budget"}
    yield from (case for case in known_answers() if case.name in names)


@check(cases=_cases)
def cutoffs_gaps_and_presolve_agree(kit: SolverKit, case: KnownAnswer) -> None:
    """At every cutoff near the optimum, with every gap, reduced or not: nothing is lost, nothing too dear returned."""
    kit.skip_unless_taken(case.problem)
    truth = _truth(case.problem, kit.tolerance)
    assert np.isclose(float(truth.optimum), float(case.objective), rtol=1e-12, atol=1e-12)
    for presolve in (False, True):
        for gap in _GAPS:
            for place in _PLACES:
                _judge(kit, case.problem, truth, _Asked(place, _cutoff(truth.optimum, place), gap, presolve))


@st.composite
def _side_by_side(draw: st.DrawFn) -> PlacementProblem:
    """Several small trees in one problem: as many components, at least."""
    kind = draw(st.sampled_from([Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT]))
    builder = ProblemBuilder("side by side")
    for part in range(draw(st.integers(2, 3))):
        tree = draw(trees(costs=(kind,), max_variables=3, max_labels=2))
        ends = [
            builder.add_variable(f"{part}.{name}", int(tree.num_labels[v]), tree.unary_of(v))
            for v, name in enumerate(tree.variable_names)
        ]
        for u, v, table in zip(tree.edge_u.tolist(), tree.edge_v.tolist(), tree.edge_table.tolist(), strict=True):
            builder.add_pairwise(ends[u], ends[v], tree.tables[table])
    return builder.build()


@st.composite
def _questions(draw: st.DrawFn, kit: SolverKit) -> tuple[PlacementProblem, str, float, bool]:
    tame = (Costs.FLAT, Costs.INTEGER, Costs.EIGHTHS, Costs.FLOAT)
    problem = draw(st.one_of(_side_by_side(), problems(features=kit.features, costs=tame, max_states=500)))
    return problem, draw(st.sampled_from(_PLACES)), draw(st.sampled_from(_GAPS)), draw(st.booleans())


@check(given=lambda kit: _questions(kit), share=2.0)
def cutoffs_are_kept(kit: SolverKit, question: tuple[PlacementProblem, str, float, bool]) -> None:
    """Nothing above the cutoff is returned, and nothing at or below it is denied, whatever the gap and the parts."""
    problem, place, gap, presolve = question
    truth = _truth(problem, kit.tolerance)
    if truth.optimum == math.inf:
        return
    asked = _Asked(place, _cutoff(truth.optimum, place), gap, presolve)
    note(f"{asked}, {truth}")
    _judge(kit, problem, truth, asked)


CUTOFF_CHECKS: tuple[Check, ...] = (cutoffs_gaps_and_presolve_agree, cutoffs_are_kept)
