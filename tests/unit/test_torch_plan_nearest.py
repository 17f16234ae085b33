"""What a solver moved for nothing is moved back; what costs, or is needed for a budget, is not."""

from __future__ import annotations

import numpy as np

from berthage import PlacementProblem, ProblemBuilder, evaluate
from berthage_torch.plans.nearest import nearest


def pairs(free: float, budget: bool = False) -> PlacementProblem:
    """Two pairs, a-b and c-d, that like to agree; the second pair prefers 1 by ``free``."""
    builder = ProblemBuilder("pairs")
    for name in "abcd":
        builder.add_variable(name, 2, [free, 0.0] if name == "c" else [0.0, 0.0])
    builder.add_pairwise("a", "b", [[0.0, 5.0], [5.0, 0.0]])
    builder.tie("c", "d", name="agree")
    if budget:
        builder.add_budget("both", {"a": [0, 1], "d": [1, 0]}, upper=1)
    return builder.build()


BASE = np.zeros(4, dtype=np.int32)
MOVED = np.ones(4, dtype=np.int32)


def test_what_costs_the_same_is_put_back() -> None:
    assert nearest(pairs(0.0), MOVED, BASE, 0).tolist() == [1, 1, 0, 0]
    assert nearest(pairs(0.0), MOVED, BASE, 2).tolist() == [0, 0, 1, 1]


def test_what_saves_something_stays() -> None:
    problem = pairs(1e-3)
    assert nearest(problem, MOVED, BASE, 0).tolist() == MOVED.tolist()
    assert evaluate(problem, MOVED).objective < evaluate(problem, [1, 1, 0, 0]).objective


def test_what_a_budget_needs_stays() -> None:
    problem = pairs(0.0, budget=True)
    assert nearest(problem, MOVED, BASE, 0).tolist() == MOVED.tolist()
    assert not evaluate(problem, [1, 1, 0, 0]).feasible
    assert nearest(problem, MOVED, BASE, 2).tolist() == [0, 0, 1, 1]


def test_nothing_changed_is_nothing_to_do() -> None:
    assert nearest(pairs(0.0), BASE, BASE, 1).tolist() == BASE.tolist()
