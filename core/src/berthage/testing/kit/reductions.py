"""`reduction_conformance`: the test class of a reduction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from berthage import PlacementProblem, Registry, SolveParams, evaluate, load_registry
from berthage.registry import ReductionInfo
from berthage.solving.chain import Reduced
from berthage.solving.context import Clock, RunContext
from berthage.testing.kit.checks import Check, build_class, check
from berthage.testing.kit.conduct import fingerprint
from berthage.testing.kit.processes import verify_light_hooks
from berthage.testing.kit.solver_kit import describe
from berthage.testing.known import KnownAnswer, known_answers
from berthage.testing.oracle import all_assignments, brute_force, price_all
from berthage.testing.strategies import Costs, assignments, infeasible_problems, problems

__all__ = ["reduction_checks", "reduction_conformance"]


@dataclass(frozen=True)
class ReductionKit:
    """A reduction under test."""

    name: str
    tolerance: float = 1e-9
    max_examples: int = 50
    given_registry: Registry | None = None

    @cached_property
    def registry(self) -> Registry:
        """Where the reduction is looked up."""
        return self.given_registry if self.given_registry is not None else load_registry()

    @cached_property
    def info(self) -> ReductionInfo:
        """The reduction's description."""
        return self.registry.reduction(self.name)

    def skip_reason(self, checked: Check) -> str:
        """Why nothing can be tested here, or an empty string."""
        unavailable = self.registry.unavailable_reason(self.info)
        return f"{self.name}: {unavailable}" if unavailable else ""

    def reduce(self, problem: PlacementProblem) -> Reduced:
        """Apply the reduction once, as core does."""
        describe(problem)
        params = SolveParams()
        reduced: Reduced = self.registry.create_reduction(self.name).reduce(
            problem, RunContext(params, Clock(params.time_limit))
        )
        return reduced

    def slack(self, reduced: Reduced, *values: int | float) -> float:
        """How far two equal costs may lie apart."""
        return self.tolerance * max(1.0, *(abs(float(v)) for v in values)) + float(reduced.bound_error)


def _total(values: Sequence[int | float]) -> int | float:
    return sum(values) if all(isinstance(v, int) for v in values) else math.fsum(values)


@check(cases=known_answers)
def known_answer(kit: ReductionKit, case: KnownAnswer) -> None:
    """The optimum of a problem known by hand survives."""
    _optimum_survives(kit, case.problem)


@check(given=lambda kit: problems(max_states=400))
def optimum_is_preserved(kit: ReductionKit, problem: PlacementProblem) -> None:
    """The parts' optima add up to the problem's, and lifted they are an optimal assignment of it."""
    _optimum_survives(kit, problem)


def _optimum_survives(kit: ReductionKit, problem: PlacementProblem) -> None:
    truth = brute_force(problem)
    reduced = kit.reduce(problem)
    if reduced.infeasibility is not None:
        assert not truth.feasible, f"said infeasible, but {truth.objective!r} can be had"
        assert reduced.infeasibility.detail, "infeasible without a reason"
        known = {*problem.constraint_names, *problem.variable_names}
        known |= {problem.edge_name(e) for e in range(problem.num_edges)}
        assert set(reduced.infeasibility.constraints) <= known, "the reason names what the problem does not have"
        return
    answers = [brute_force(part) for part in reduced.parts]
    assert all(a.feasible for a in answers) == truth.feasible, "feasibility is not preserved"
    if not truth.feasible:
        return
    total = _total([a.objective for a in answers])
    assert abs(float(total - truth.objective)) <= kit.slack(reduced, truth.objective), (
        f"the parts' optima add up to {total!r}, the optimum is {truth.objective!r}"
    )
    lifted = reduced.lift([a.assignments[0] for a in answers])
    found = evaluate(problem, lifted)
    assert found.feasible, f"the lifted optimum breaks {[v.name for v in found.violations]}"
    assert abs(float(found.objective - truth.objective)) <= kit.slack(reduced, truth.objective)


@check(given=lambda kit: problems(costs=(Costs.BIG,), max_variables=4, max_states=200), share=0.5)
def big_integers_stay_exact(kit: ReductionKit, problem: PlacementProblem) -> None:
    """With integers beyond 2^53 a lifted optimum is still an optimum, to the last digit."""
    truth = brute_force(problem)
    reduced = kit.reduce(problem)
    if reduced.infeasibility is not None or not truth.feasible:
        assert not truth.feasible
        return
    answers = [brute_force(part) for part in reduced.parts]
    lifted = reduced.lift([a.assignments[0] for a in answers])
    exact = _total([a.objective for a in answers]) == truth.objective
    assert exact or reduced.bound_error > 0, "the optimum changed, and bound_error says it did not"
    if exact:
        assert evaluate(problem, lifted).objective == truth.objective


@check(given=lambda kit: problems(max_states=300))
def every_assignment_lifts(kit: ReductionKit, problem: PlacementProblem) -> None:
    """Every feasible choice in the parts lifts to a feasible assignment of the same cost, and back."""
    reduced = kit.reduce(problem)
    if reduced.infeasibility is not None:
        return
    choices = [_feasible(part) for part in reduced.parts]
    for picked in list(product(*choices))[:60]:
        costs = [evaluate(p, x).objective for p, x in zip(reduced.parts, picked, strict=True)]
        lifted = reduced.lift(list(picked))
        found = evaluate(problem, lifted)
        assert found.feasible, f"{picked} lifts to {lifted}, which breaks {[v.name for v in found.violations]}"
        total = _total(costs)
        assert abs(float(found.objective - total)) <= kit.slack(reduced, total, *costs), (
            f"{picked} costs {total!r}, lifted {found.objective!r}"
        )
        again = reduced.project(np.asarray(lifted, dtype=np.int32))
        assert again is not None, f"{picked} lifts to {lifted}, which does not project back"
        back = [evaluate(p, x).objective for p, x in zip(reduced.parts, again, strict=True)]
        assert abs(float(_total(back) - total)) <= kit.slack(reduced, total, *costs), f"{picked} came back as {again}"


def _feasible(part: PlacementProblem) -> list[Any]:
    everything = all_assignments(part)
    _, feasible = price_all(part, everything)
    alive = everything[feasible]
    # A spread of them: first, last and some between.
    return list(alive[np.unique(np.linspace(0, len(alive) - 1, 6).astype(int))]) if len(alive) else []


@check(
    given=lambda kit: problems(max_states=400).flatmap(
        lambda problem: st.tuples(st.just(problem), assignments(problem))
    )
)
def projections_cost_no_more(kit: ReductionKit, pair: tuple[PlacementProblem, list[int]]) -> None:
    """A feasible assignment projects to parts that cost no more, or is said to use what was removed."""
    problem, chosen = pair
    given = evaluate(problem, chosen)
    reduced = kit.reduce(problem)
    if not given.feasible or reduced.infeasibility is not None:
        return
    parts = reduced.project(np.array(chosen, dtype=np.int32))
    if parts is None:
        return
    found = [evaluate(p, x) for p, x in zip(reduced.parts, parts, strict=True)]
    assert all(f.feasible for f in found), "a feasible assignment projects to an infeasible one"
    total = _total([f.objective for f in found])
    assert total <= given.objective + kit.slack(reduced, given.objective, total)


@check(given=lambda kit: infeasible_problems())
def infeasible_stays_infeasible(kit: ReductionKit, problem: PlacementProblem) -> None:
    """A problem that nothing satisfies never becomes one that something does."""
    reduced = kit.reduce(problem)
    if reduced.infeasibility is None:
        assert not all(brute_force(part).feasible for part in reduced.parts)


@check(given=lambda kit: problems(max_states=400))
def leaves_the_problem_alone(kit: ReductionKit, problem: PlacementProblem) -> None:
    """Reducing leaves the problem as it is, gives the same parts twice, and reports plain numbers."""
    before = fingerprint(problem)
    first, second = kit.reduce(problem), kit.reduce(problem)
    assert fingerprint(problem) == before, "the reduction changed the problem"
    assert [p.digest for p in first.parts] == [p.digest for p in second.parts]
    assert dict(first.report) == dict(second.report)
    assert all(isinstance(v, int | float | str | bool) for v in first.report.values())
    assert math.isfinite(first.bound_error)
    assert first.bound_error >= 0


@check()
def hooks_are_light(kit: ReductionKit) -> None:
    """The plugin's hooks module imports nothing heavy."""
    verify_light_hooks(kit.info.target)


def reduction_checks() -> tuple[Check, ...]:
    """Every check of a reduction."""
    return (
        known_answer,
        optimum_is_preserved,
        big_integers_stay_exact,
        every_assignment_lifts,
        projections_cost_no_more,
        infeasible_stays_infeasible,
        leaves_the_problem_alone,
        hooks_are_light,
    )


def reduction_conformance(
    name: str,
    *,
    exclude: Mapping[str, str] | None = None,
    tolerance: float = 1e-9,
    max_examples: int = 50,
    registry: Registry | None = None,
) -> type:
    """A fresh pytest class that tests a reduction: optima survive, lifting is exact, projecting undoes it.

    Args:
        name: the reduction's name. Nothing is looked up until the tests run.
        exclude: name of a check to the reason why it is left out.
        tolerance: relative tolerance of costs that should be equal (on top of the declared ``bound_error``).
        max_examples: Hypothesis examples of each property.
        registry: where to look it up; None for what is installed.

    Returns:
        A class to be bound to a name that pytest collects: ``TestMine =
        reduction_conformance("my-reduction")``.
    """
    kit = ReductionKit(name, tolerance, max_examples, registry)
    return build_class(name, kit, reduction_checks(), exclude or {})
