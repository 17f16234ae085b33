"""What the solver checks share: the solver under test, how to call it, and how to judge what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import currently_in_test_context, note

from berthage import (
    Capability,
    LazyTable,
    Limit,
    PlacementProblem,
    Reason,
    Registry,
    SolveResult,
    SolverInfo,
    load_registry,
    solve,
)
from berthage.testing.kit.checks import Check
from berthage.testing.oracle import BruteForce
from berthage.testing.strategies import ALL_FEATURES, Feature
from berthage.testing.verify import verify_bound, verify_feasible, verify_infeasible, verify_optimal

__all__ = ["Described", "SolverKit", "describe"]

_PROMISED_FEATURES = (
    (Capability.LINEAR_BUDGETS, Feature.LINEAR_BUDGETS),
    (Capability.INTERVAL_BUDGETS, Feature.INTERVAL_BUDGETS),
    (Capability.SOFT_BUDGETS, Feature.SOFT_BUDGETS),
)


@dataclass(frozen=True)
class SolverKit:
    """A solver under test.

    Attributes:
        name: its name in the registry.
        options: its options, as `solve` takes them.
        tolerance: relative tolerance of objectives and bounds.
        time_limit: seconds each solve may take; a small problem that needs more is a failure.
        max_examples: Hypothesis examples of each property.
        given_registry: a registry to use instead of what is installed.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-6
    time_limit: float = 10.0
    max_examples: int = 20
    given_registry: Registry | None = None

    @cached_property
    def registry(self) -> Registry:
        """Where the solver is looked up."""
        return self.given_registry if self.given_registry is not None else load_registry()

    @cached_property
    def info(self) -> SolverInfo:
        """The solver's description."""
        return self.registry.solver(self.name)

    @property
    def exact(self) -> bool:
        """Whether the solver promises proofs."""
        return Capability.EXACT in self.info.capabilities

    @cached_property
    def features(self) -> frozenset[Feature]:
        """What may occur in problems for this solver."""
        missing = {f for c, f in _PROMISED_FEATURES if c not in self.info.capabilities}
        return ALL_FEATURES - missing

    def skip_reason(self, checked: Check) -> str:
        """Why a check does not apply: not installed completely, or a promise the solver does not make."""
        unavailable = self.registry.unavailable_reason(self.info)
        if unavailable:
            return f"{self.name}: {unavailable}"
        lacking = sorted(str(c) for c in checked.needs if c not in self.info.capabilities)
        return f"{self.name} does not promise {', '.join(lacking)}" if lacking else ""

    def needs_of(self, problem: PlacementProblem) -> frozenset[Capability]:
        """The capabilities that a problem asks for."""
        needs = set()
        if problem.linear_budgets:
            needs.add(Capability.LINEAR_BUDGETS)
        if problem.interval_budgets:
            needs.add(Capability.INTERVAL_BUDGETS)
        prices = [b.price for b in problem.linear_budgets] + [b.price for b in problem.interval_budgets]
        if any(price is not None for price in prices):
            needs.add(Capability.SOFT_BUDGETS)
        return frozenset(needs)

    def skip_unless_taken(self, problem: PlacementProblem) -> None:
        """Skip the running test when the problem asks for what the solver does not promise."""
        lacking = sorted(str(c) for c in self.needs_of(problem) - self.info.capabilities)
        if lacking:
            pytest.skip(f"{self.name} does not promise {', '.join(lacking)}")

    def with_options(self, options: Mapping[str, Any]) -> SolverKit:
        """The same kit with some options added or changed."""
        return replace(self, options={**self.options, **options})

    def solve(self, problem: PlacementProblem, *, presolve: bool = False, **params: Any) -> SolveResult:
        """Solve with the options under test; no reductions unless asked for: the solver is tested."""
        describe(problem)
        params.setdefault("time_limit", self.time_limit)
        return solve(
            problem,
            solver=self.name,
            options=dict(self.options),
            presolve=presolve,
            registry=self.registry,
            **params,
        )

    def judge(
        self, problem: PlacementProblem, truth: BruteForce, result: SolveResult, *, limited: bool = False
    ) -> None:
        """Assert that an answer is valid, and right if the solver is exact.

        Args:
            problem: what was solved.
            truth: the oracle's answer.
            result: the solver's.
            limited: a limit was set on purpose, so that even an exact solver may stop without proof.
        """
        ended = result.termination
        if ended.reason is Reason.INFEASIBLE:
            assert not truth.feasible, f"said infeasible, but {truth.objective!r} can be had"
        verify_bound(result, truth.objective, tolerance=self.tolerance)
        assert ended.reason is not Reason.NUMERICAL_ERROR, f"the numbers are tame, yet: {ended}"
        if result.assignment is not None:
            assert truth.feasible, f"brute force finds nothing feasible, the solver found {result.assignment}"
            verify_feasible(problem, result)
            assert ended.reason in (Reason.OPTIMAL, Reason.FEASIBLE), f"an assignment, yet {ended}"
        match ended.reason:
            case Reason.OPTIMAL:
                verify_optimal(problem, result, truth.objective, tolerance=self.tolerance)
            case Reason.INFEASIBLE:
                verify_infeasible(problem, result)
            case Reason.FEASIBLE:
                assert result.assignment is not None, "FEASIBLE without an assignment"
            case Reason.NOT_INTEGRAL:
                assert Capability.INTEGRAL not in self.info.capabilities, "promised INTEGRAL"
            case _:
                pass
        if Capability.BOUND in self.info.capabilities and truth.feasible and not limited:
            assert result.bound > -np.inf, "promised a bound, gave none"
        if self.exact and not limited:
            wanted = Reason.OPTIMAL if truth.feasible else Reason.INFEASIBLE
            assert ended.reason is wanted, f"an exact solver must end {wanted.value} here, got {ended}"
        if not limited:
            assert ended.limit is not Limit.TIME, f"{self.time_limit} s do not suffice for a tiny problem"


def describe(problem: PlacementProblem) -> None:
    """Have a failing Hypothesis example print the problem."""
    if currently_in_test_context():
        note(Described(problem))


class Described:
    """A problem that prints its arrays, so that a failing example can be read."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem

    def __repr__(self) -> str:
        """Everything in the problem, a line per term."""
        p = self.problem
        lines = [repr(p), f"constant {p.constant!r}"]
        for v in range(p.num_variables):
            costs = p.unary_of(v).tolist()
            lines.append(f"variable {v} {p.variable_names[v]!r} x{p.multiplicity[v]}: {costs}")
        for e in range(p.num_edges):
            table = p.tables[int(p.edge_table[e])]
            kind = "lazy" if isinstance(table, LazyTable) else table.kind
            lines.append(
                f"edge {p.edge_u[e]} -- {p.edge_v[e]} x{p.edge_multiplicity[e]} {kind}: {table.to_dense().tolist()}"
            )
        for relation in p.relations:
            lines.append(f"{relation.kind.name} {relation.name!r} {relation.u} {relation.v}: {relation.array.tolist()}")
        lines += [repr(budget) for budget in (*p.linear_budgets, *p.interval_budgets)]
        return "\n  ".join(lines)
