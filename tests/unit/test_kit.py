"""The kit itself: an honest plugin passes, and each way of being wrong fails the check that is there for it."""

from __future__ import annotations

import itertools
import json
import math
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings

from berthage import (
    Capability,
    Limit,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    Registry,
    SolverInfo,
    SolverOutcome,
    Termination,
    evaluate,
    hookimpl,
)
from berthage.registry import FormatInfo, ReductionInfo
from berthage.testing import brute_force, conformance, format_conformance, known_answers, reduction_conformance
from berthage.testing.kit import solver_checks

EVERYTHING = frozenset(Capability) - {Capability.LAZY_TABLES}
OPTIMAL = Termination(Reason.OPTIMAL)
Run = Callable[[PlacementProblem, Any, Any, Any], SolverOutcome]


def honest(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
    """Brute force on small problems, the first feasible assignment of larger ones."""
    if params.warm_start is not None:
        context.incumbent(params.warm_start)
    if math.prod(problem.num_labels.tolist()) > 5000:
        context.incumbent(np.zeros(problem.num_variables, dtype=np.int32))
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.CONVERGED), bound=0.0)
    truth = brute_force(problem)
    # Brute force adds up as it goes, which rounds; what is held against a cutoff is what `evaluate` says.
    priced = [(evaluate(problem, x).objective, tuple(x)) for x in truth.assignments.tolist()]
    if not priced or (params.cutoff is not None and min(priced)[0] > params.cutoff):
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
    objective, chosen = min(priced)
    return SolverOutcome(OPTIMAL, np.array(chosen, dtype=np.int32), float(objective))


def _plugin(*infos: Any) -> Any:
    class Plugin:
        @hookimpl
        def berthage_solvers(self) -> list[SolverInfo]:
            return [info for info in infos if isinstance(info, SolverInfo)]

        @hookimpl
        def berthage_reductions(self) -> list[ReductionInfo]:
            return [info for info in infos if isinstance(info, ReductionInfo)]

        @hookimpl
        def berthage_formats(self) -> list[FormatInfo]:
            return [info for info in infos if isinstance(info, FormatInfo)]

    return Plugin()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """An importable module to put implementations into."""
    made = types.ModuleType("kit_under_test")
    monkeypatch.setitem(__import__("sys").modules, "kit_under_test", made)
    return made


@pytest.fixture(autouse=True)
def no_shrinking() -> Iterator[None]:
    """Failures are expected here, and nobody reads them: the first one will do."""
    before = os.environ.get("HYPOTHESIS_PROFILE", "ci")  # as conftest.py chose it
    settings.register_profile("no-shrinking", settings(), phases=[Phase.generate], print_blob=False)
    settings.load_profile("no-shrinking")
    yield
    settings.load_profile(before)


def solver_class(
    module: types.ModuleType, run: Run, promises: frozenset[Capability] = EVERYTHING, examples: int = 30
) -> Any:
    module.make = lambda: types.SimpleNamespace(solve=run)  # type: ignore[attr-defined]
    info = SolverInfo("mine", "For tests.", "kit_under_test:make", capabilities=promises, version="1")
    registry = Registry({"mine": _plugin(info)})
    return conformance("mine", registry=registry, max_examples=examples)()


def fails(test: Callable[[], None], message: str | None = None) -> None:
    with pytest.raises(AssertionError, match=message):
        test()


def test_an_honest_solver_passes_every_check(module: types.ModuleType) -> None:
    tests = solver_class(module, honest, examples=6)
    names = [name for name in dir(tests) if name.startswith("test_")]
    assert len(names) == len(solver_checks())
    ran = 0
    for name in names:
        if "process" in name or "interruption" in name or "hooks" in name or "lazy" in name:
            continue
        test = getattr(tests, name)
        cases = [case for mark in getattr(test, "pytestmark", ()) for case in mark.args[1]]
        for case in cases:
            test(case=case)
        if not cases:
            test()
        ran += 1
    assert ran == len(solver_checks()) - 4


def test_a_merely_feasible_answer_is_not_enough_for_an_exact_solver(module: types.ModuleType) -> None:
    def lazy(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        truth = brute_force(problem)
        if not truth.feasible:
            return honest(problem, params, options, context)
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.CONVERGED), truth.assignments[0])

    fails(solver_class(module, lazy).test_agrees_with_brute_force, "promised a bound")
    solver_class(module, lazy, EVERYTHING - {Capability.EXACT, Capability.BOUND}).test_agrees_with_brute_force()


def test_a_consistent_lie_about_the_optimum_is_found(module: types.ModuleType) -> None:
    def worst(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        costs = [
            (evaluate(problem, x).objective, x)
            for x in itertools.product(*(range(k) for k in problem.num_labels.tolist()))
            if evaluate(problem, x).feasible
        ]
        if not costs:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        cost, chosen = max(costs)
        return SolverOutcome(OPTIMAL, np.array(chosen, dtype=np.int32), float(cost))

    fails(solver_class(module, worst).test_solves_trees, "exceeds the optimum")
    fails(solver_class(module, worst, frozenset()).test_solves_trees, "exceeds the optimum")


def test_a_bound_slightly_too_high_is_found(module: types.ModuleType) -> None:
    def eager(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        found = honest(problem, params, options, context)
        if found.assignment is None:
            return found
        return SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.CONVERGED), None, found.bound + 0.01)

    fails(solver_class(module, eager, frozenset()).test_agrees_with_brute_force, "exceeds the optimum")


def test_false_infeasible_is_found(module: types.ModuleType) -> None:
    def gives_up(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)

    fails(solver_class(module, gives_up, frozenset()).test_solves_trees, "can be had|said infeasible")


def test_writing_into_the_problem_is_found(module: types.ModuleType) -> None:
    def careless(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        found = honest(problem, params, options, context)
        problem.unary.flags.writeable = True
        np.add(problem.unary, 1, out=problem.unary)
        return found

    fails(solver_class(module, careless).test_leaves_the_problem_alone, "changed the problem")


def test_answers_that_differ_from_run_to_run_are_found(module: types.ModuleType) -> None:
    counter: Iterator[int] = itertools.count()

    def fickle(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        truth = brute_force(problem)
        if not truth.feasible:
            return honest(problem, params, options, context)
        pick = next(counter) % len(truth.assignments)
        return SolverOutcome(OPTIMAL, truth.assignments[pick], float(truth.objective))

    fails(solver_class(module, fickle).test_gives_the_same_answer_twice)


def test_cutting_off_the_optimum_itself_is_found(module: types.ModuleType) -> None:
    def strict(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        if params.cutoff is not None and brute_force(problem).objective >= params.cutoff:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        return honest(problem, params, options, context)

    fails(solver_class(module, strict).test_cutoffs_are_kept, "can be had|said infeasible")


def _cases_of(test: Any) -> dict[str, Any]:
    return {case.name: case for case in test.pytestmark[0].args[1]}


def _within_gap(problem: PlacementProblem, gap: float) -> tuple[float, list[int]]:
    """The optimum, and the dearest assignment that the gap allows to be called optimal."""
    priced = [
        (float(found.objective), list(x))
        for x in itertools.product(*(range(k) for k in problem.num_labels.tolist()))
        if (found := evaluate(problem, x)).feasible
    ]
    least = min(priced)[0]
    return least, max(pair for pair in priced if pair[0] - least <= gap * max(1.0, abs(pair[0])))[1]


def test_calling_a_cutoff_infeasible_because_a_solution_within_the_gap_is_dearer_is_found(
    module: types.ModuleType,
) -> None:
    def hasty(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        least, chosen = _within_gap(problem, params.gap)
        if params.cutoff is not None and evaluate(problem, chosen).objective > params.cutoff:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        return SolverOutcome(OPTIMAL, np.array(chosen, dtype=np.int32), least)

    test = solver_class(module, hasty).test_cutoffs_gaps_and_presolve_agree
    fails(lambda: test(case=_cases_of(test)["two-halves-of-integers"]), "gap=0.5.*can be had")


def test_a_solver_that_stops_within_the_gap_and_ignores_the_cutoff_never_makes_core_deny_anything(
    module: types.ModuleType,
) -> None:
    def easygoing(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        if not brute_force(problem).feasible:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        least, chosen = _within_gap(problem, params.gap)
        return SolverOutcome(OPTIMAL, np.array(chosen, dtype=np.int32), least)

    tests = solver_class(module, easygoing, EVERYTHING - {Capability.EXACT}, examples=5)
    tests.test_cutoffs_are_kept()
    cases = _cases_of(tests.test_cutoffs_gaps_and_presolve_agree)
    for name in ("two-halves-of-integers", "two-halves-of-floats", "running-sums", "costs-that-cancel"):
        tests.test_cutoffs_gaps_and_presolve_agree(case=cases[name])


def test_cutting_off_by_rounded_sums_is_found(module: types.ModuleType) -> None:
    def rounded(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        found = honest(problem, replace(params, cutoff=None), options, context)
        total = 0.0
        assert found.assignment is not None
        for v, label in enumerate(found.assignment.tolist()):
            total += float(problem.unary_of(v)[label])
        if params.cutoff is not None and total > params.cutoff:
            return SolverOutcome(Termination(Reason.INFEASIBLE), None, math.inf)
        return found

    test = solver_class(module, rounded).test_cutoffs_gaps_and_presolve_agree
    fails(lambda: test(case=_cases_of(test)["running-sums"]), "place='at'.*(can be had|said infeasible)")


def test_a_bound_beyond_the_cutoff_that_is_no_bound_is_found(module: types.ModuleType) -> None:
    def boastful(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        if params.cutoff is not None and brute_force(problem).objective > params.cutoff:
            context.bound(float(brute_force(problem).objective) + 0.5)
            return SolverOutcome(Termination(Reason.INFEASIBLE))
        return honest(problem, params, options, context)

    test = solver_class(module, boastful).test_cutoffs_gaps_and_presolve_agree
    fails(lambda: test(case=_cases_of(test)["running-sums"]), "exceeds the optimum")


def test_giving_up_at_the_cutoff_is_found_where_proofs_are_promised(module: types.ModuleType) -> None:
    def unsure(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        if params.cutoff is not None and brute_force(problem).objective >= params.cutoff:
            return SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.CONVERGED))
        return honest(problem, params, options, context)

    test = solver_class(module, unsure).test_cutoffs_gaps_and_presolve_agree
    fails(lambda: test(case=_cases_of(test)["two-halves-of-integers"]))
    test = solver_class(module, unsure, EVERYTHING - {Capability.EXACT}).test_cutoffs_gaps_and_presolve_agree
    test(case=_cases_of(test)["two-halves-of-integers"])


def test_ignoring_budgets_that_were_not_promised_is_found(module: types.ModuleType) -> None:
    def blind(problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        return honest(problem.without_budgets().problem, params, options, context)

    promises = EVERYTHING - {Capability.LINEAR_BUDGETS, Capability.INTERVAL_BUDGETS, Capability.SOFT_BUDGETS}
    tests = solver_class(module, blind, promises)
    tests.test_agrees_with_brute_force()
    fails(tests.test_refuses_what_it_does_not_take)


def test_pricing_a_lazy_table_whole_is_found(module: types.ModuleType) -> None:
    fails(solver_class(module, honest, frozenset(Capability)).test_lazy_tables_are_not_priced_whole, "priced")
    with pytest.raises(pytest.skip.Exception, match="lazy-tables"):
        solver_class(module, honest).test_lazy_tables_are_not_priced_whole()


def test_checks_can_be_left_out_by_name_and_with_a_reason_only() -> None:
    with pytest.raises(ValueError, match="no_such_check"):
        conformance("any", exclude={"no_such_check": "why"})
    with pytest.raises(ValueError, match="reason"):
        conformance("any", exclude={"time_limit_is_kept": " "})
    made = conformance("any", exclude={"time_limit_is_kept": "it cannot"})
    marks = made.test_time_limit_is_kept.pytestmark  # type: ignore[attr-defined]
    assert [(mark.name, mark.kwargs["reason"]) for mark in marks] == [("skip", "it cannot")]


def test_every_class_is_fresh() -> None:
    first, second = conformance("any"), conformance("any")
    assert first is not second
    assert first.test_solves_trees is not second.test_solves_trees  # type: ignore[attr-defined]


def test_an_unknown_solver_fails_in_its_tests_not_in_collection() -> None:
    from berthage import UnknownNameError

    tests = conformance("no-such-solver", registry=Registry())()
    with pytest.raises(UnknownNameError, match="no-such-solver"):
        tests.test_results_say_who_and_how()  # type: ignore[attr-defined]


def test_what_is_not_installed_is_skipped_saying_so() -> None:
    info = SolverInfo("mine", "For tests.", "nowhere:make", requires=("no_such_module",), install="pip install it")
    tests = conformance("mine", registry=Registry({"mine": _plugin(info)}))()
    with pytest.raises(pytest.skip.Exception, match="no_such_module"):
        tests.test_results_say_who_and_how()  # type: ignore[attr-defined]


@dataclass
class Same:
    """A reduction that changes nothing."""

    problem: PlacementProblem
    shift: int = 0
    infeasibility: Any = None
    bound_error: float = 0.0
    backwards: bool = False

    @property
    def parts(self) -> tuple[PlacementProblem, ...]:
        return (replace(self.problem, constant=self.problem.constant + self.shift),)

    @property
    def report(self) -> dict[str, int]:
        return {"removed": 0}

    def lift(self, assignments: Any) -> Any:
        return assignments[0][::-1].copy() if self.backwards else assignments[0]

    def project(self, assignment: Any) -> Any:
        return (assignment,)


def reduction_class(module: types.ModuleType, reduce: Callable[[PlacementProblem], Any]) -> Any:
    module.make = lambda: types.SimpleNamespace(reduce=lambda problem, context: reduce(problem))  # type: ignore[attr-defined]
    registry = Registry({"mine": _plugin(ReductionInfo("mine", "For tests.", "kit_under_test:make"))})
    return reduction_conformance("mine", registry=registry, max_examples=20)()


def test_an_honest_reduction_passes(module: types.ModuleType) -> None:
    tests = reduction_class(module, Same)
    for case in known_answers():
        tests.test_known_answer(case=case)
    tests.test_optimum_is_preserved()
    tests.test_big_integers_stay_exact()
    tests.test_every_assignment_lifts()
    tests.test_projections_cost_no_more()
    tests.test_infeasible_stays_infeasible()
    tests.test_leaves_the_problem_alone()


def test_wrong_reductions_are_found(module: types.ModuleType) -> None:
    fails(reduction_class(module, lambda p: Same(p, shift=1)).test_optimum_is_preserved, "add up")
    fails(reduction_class(module, lambda p: Same(p, shift=1)).test_every_assignment_lifts, "lifted")
    fails(reduction_class(module, lambda p: Same(p.without_budgets().problem)).test_optimum_is_preserved)
    tests = reduction_class(module, lambda p: Same(p, infeasibility=types.SimpleNamespace(detail="no", constraints=())))
    fails(tests.test_optimum_is_preserved, "can be had")


class Costs:
    """A format that keeps unary and pairwise costs of small whole numbers, and silently drops the rest."""

    def write(self, problem: PlacementProblem, path: Path) -> None:
        edges = zip(problem.edge_u.tolist(), problem.edge_v.tolist(), problem.edge_table.tolist(), strict=True)
        data = {
            "unary": [problem.unary_of(v).tolist() for v in range(problem.num_variables)],
            "edges": [[u, v, problem.tables[t].to_dense().tolist()] for u, v, t in edges],
        }
        Path(path).write_text(json.dumps(data))

    def read(self, path: Path) -> PlacementProblem:
        data = json.loads(Path(path).read_text())
        b = ProblemBuilder()
        for i, costs in enumerate(data["unary"]):
            b.add_variable(f"v{i}", len(costs), costs)
        for u, v, table in data["edges"]:
            b.add_pairwise(u, v, table)
        return b.build()


def test_a_format_that_drops_things_or_crashes_is_found(module: types.ModuleType) -> None:
    module.make = Costs  # type: ignore[attr-defined]
    info = FormatInfo("mine", "For tests.", "kit_under_test:make", extensions=(".mine",), reads=True, writes=True)
    registry = Registry({"mine": _plugin(info)})
    tests = format_conformance("mine", registry=registry, max_examples=30)()
    fails(tests.test_round_trip_keeps_the_meaning, "changed")  # type: ignore[attr-defined]
    with pytest.raises((ValueError, TypeError, KeyError)):
        tests.test_damaged_files_are_refused_clearly()  # type: ignore[attr-defined]
    with pytest.raises((ValueError, TypeError, KeyError)):
        tests.test_rubbish_is_refused_clearly()  # type: ignore[attr-defined]
