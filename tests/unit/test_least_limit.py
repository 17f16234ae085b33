"""The least limit that works is told when a budget cannot be met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from berthage import PlacementProblem, ProblemBuilder, Reason, solve

SOLVERS = ("ilp", "trws")


def two(budget: str, limit: float, *, pin: bool = False, apart: bool = True) -> PlacementProblem:
    """Two variables of labels that weigh 1 and 10; ``apart`` forbids that both are light, ``pin`` makes one heavy."""
    builder = ProblemBuilder()
    x, y = (builder.add_variable(name, ["light", "heavy"], [0.0, 5.0]) for name in "xy")
    if apart:
        builder.allow_pairs(x, y, np.array([[False, True], [True, True]]), name="apart")
    if pin:
        builder.fix(x, "heavy", name="pin x")
    weights = [1, 10]
    if budget == "linear":
        builder.add_budget("memory", {x: weights, y: weights}, upper=limit)
    else:
        builder.add_interval_budget("memory", [(x, 0, 4, weights), (y, 2, 6, weights)], limit=limit)
    return builder.build()


@pytest.mark.parametrize("budget", ["linear", "interval"])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("asked", "names", "least"),
    [
        ({"apart": True}, {"memory", "apart"}, 11),
        ({"apart": False, "pin": True}, {"memory", "pin x"}, 11),
        ({"apart": False, "limit": 1}, {"memory"}, 2),
    ],
)
def test_it_is_the_one_that_works_with_everything_else(
    solver: str, budget: str, asked: dict[str, Any], names: set[str], least: int
) -> None:
    settings = {"limit": 5.0, **asked}
    result = solve(two(budget, **settings), solver)
    why = result.infeasibility
    assert result.termination.reason is Reason.INFEASIBLE
    assert why is not None
    assert set(why.constraints) == names
    assert why.least_limit == least
    assert f"the least limit of 'memory' that can be met is {least}" in why.detail
    assert solve(two(budget, **{**settings, "limit": least}), solver).assignment is not None
    assert solve(two(budget, **{**settings, "limit": least - 1}), solver).assignment is None


def test_a_lower_limit_gives_way_downwards() -> None:
    builder = ProblemBuilder()
    x = builder.add_variable("x", 2)
    builder.fix(x, 0, name="pin x")
    builder.add_budget("memory", {x: [3, 9]}, lower=8)
    why = solve(builder.build(), "ilp").infeasibility
    assert why is not None
    assert why.least_limit == 3
    assert "the greatest lower limit of 'memory' that can be met is 3" in why.detail


def test_constraints_without_a_budget_have_no_limit() -> None:
    builder = ProblemBuilder()
    x = builder.add_variable("x", 2)
    y = builder.add_variable("y", 2)
    builder.fix(x, 0, name="one")
    builder.fix(y, 0, name="other")
    builder.allow_pairs(x, y, np.array([[False, True], [True, True]]), name="apart")
    why = solve(builder.build(), "ilp").infeasibility
    assert why is not None
    assert why.least_limit is None
