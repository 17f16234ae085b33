"""The vectors of XLA's auto-sharding solver tests, through every exact solver.

Followers are ties. The live sets give an interval budget: a node is live over runs of instants. Aliases forbid pairs of
labels. A departure is a label away from the default (``p`` is 1), and their number is a linear budget. An over-budget
coefficient is the price of a soft budget on the peak. A cost limit is a cutoff.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from berthage import Capability, PlacementProblem, ProblemBuilder, Reason, evaluate, load_registry, solve
from berthage.testing import brute_force

INFINITE = 1e20
NAMES = (
    "SolvesOptimally",
    "SolvesOverbudget",
    "SolvesMaxDepartures",
    "AvoidsInfiniteNodeCosts",
    "AvoidsInfiniteEdgeCosts",
    "HandlesFollowedEdges",
    "HonorsMaxCost",
)


def exact_solvers() -> list[str]:
    """The installed solvers that promise proofs and all that the vectors need."""
    registry = load_registry()
    needs = {Capability.EXACT, Capability.LINEAR_BUDGETS, Capability.INTERVAL_BUDGETS, Capability.SOFT_BUDGETS}
    return [i.name for i in registry.solvers if needs <= i.capabilities and not registry.unavailable_reason(i)]


def load(shared_data: Path, name: str) -> dict[str, Any]:
    vectors = json.loads((shared_data / "xla_solver_vectors.json").read_text())
    found: dict[str, Any] = next(vector for vector in vectors if vector["name"] == name)
    return found


def finite(values: list[float]) -> np.ndarray:
    numbers = np.array(values, dtype=np.float64)
    return np.where(numbers >= INFINITE, np.inf, numbers)


def runs(instants: list[int]) -> list[tuple[int, int]]:
    """Half-open intervals that cover exactly the given instants."""
    if not instants:
        return []
    edges = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(instants)) if b != a + 1), len(instants)]
    return [(instants[a], instants[b - 1] + 1) for a, b in pairwise(edges)]


def build(name: str, data: dict[str, Any]) -> PlacementProblem:
    builder = ProblemBuilder(name)
    for node, (computation, communication) in enumerate(zip(data["c"], data["d"], strict=True)):
        builder.add_variable(f"node {node}", len(computation), finite(computation) + finite(communication))
    for node, leader in enumerate(data["s_follow"]):
        if leader >= 0:
            builder.tie(node, leader, name=f"node {node} follows node {leader}")
    shape = {e: (data["s_len"][u], data["s_len"][v]) for e, (u, v) in enumerate(data["edges"])}
    for e, (u, v) in enumerate(data["edges"]):
        builder.add_pairwise(u, v, finite(data["r"][e]).reshape(shape[e]))
    for (u, v), forbidden in zip(data["aliases"], data["v"], strict=True):
        allowed = np.array(forbidden).reshape(data["s_len"][u], data["s_len"][v]) == 0
        builder.allow_pairs(u, v, allowed, name=f"alias {u} {v}")
    rows = []
    for node in range(len(data["s_len"])):
        instants = [t for t, live in enumerate(data["live"]) if node in live]
        rows += [(node, start, stop, data["m"][node]) for start, stop in runs(instants)]
    builder.add_interval_budget("memory", rows, limit=data["memory_budget"], price=data.get("overbudget_coeff"))
    if "max_departures" in data:
        builder.add_budget("departures", dict(enumerate(data["p"])), upper=data["max_departures"])
    return builder.build()


def test_runs_cover_the_instants() -> None:
    assert runs([0, 1, 2, 4, 7, 8]) == [(0, 3), (4, 5), (7, 9)]
    assert runs([]) == []


def test_there_are_exact_solvers() -> None:
    assert {"ilp-pulp", "ilp-pyomo"} <= set(exact_solvers())


@pytest.mark.parametrize("name", NAMES)
def test_brute_force_confirms_the_vector(shared_data: Path, name: str) -> None:
    vector = load(shared_data, name)
    truth = brute_force(build(name, vector["problem"]))
    limit = vector["problem"].get("max_cost")
    if vector["expected_objective"] is None:
        assert truth.objective is not None
        assert truth.objective > limit
    else:
        assert truth.objective == vector["expected_objective"]


@pytest.mark.parametrize("solver", exact_solvers())
@pytest.mark.parametrize("name", NAMES)
def test_vector(shared_data: Path, solver: str, name: str) -> None:
    vector = load(shared_data, name)
    problem = build(name, vector["problem"])
    result = solve(problem, solver, cutoff=vector["problem"].get("max_cost"))
    if vector["expected_objective"] is None:
        assert result.termination.reason is Reason.INFEASIBLE
        assert result.assignment is None
        return
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == vector["expected_objective"]
    assert result.require().tolist() == vector["expected_s"]
    assert evaluate(problem, vector["expected_s"]).objective == vector["expected_objective"]
