"""`evaluate` on cases worked out by hand: exactness, budgets, breakdowns and violations by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from berthage import DenseTable, InvalidProblemError, ProblemBuilder, evaluate
from berthage.solving.infeasibility import static_infeasibility


def test_integers_beyond_floats_are_summed_exactly() -> None:
    b = ProblemBuilder()
    for v in range(20):
        b.add_variable(f"v{v}", 2, [10**18 + v, 2**53 + 1], multiplicity=3)
    b.add_pairwise(0, 1, [[2**62 + 1, 0], [0, 2**53 + 1]], multiplicity=5)
    problem = b.build()
    low, high = evaluate(problem, [0] * 20).objective, evaluate(problem, [1] * 20).objective
    assert low == 3 * sum(10**18 + v for v in range(20)) + 5 * (2**62 + 1)
    assert high == 3 * 20 * (2**53 + 1) + 5 * (2**53 + 1)
    assert type(low) is int
    assert low > 2**64, "beyond int64, as the published totals are"


def test_two_costs_that_one_float_cannot_tell_apart_are_told_apart() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [2**60, 2**60 + 1])
    problem = b.build()
    assert problem.unary[0] == problem.unary[1]
    assert evaluate(problem, [1]).objective - evaluate(problem, [0]).objective == 1


def test_mixed_lists_of_large_integers_and_infinity_stay_exact() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3, [2**53 + 1, math.inf, 0])
    b.add_variable("b", 2, [0, 0])
    b.add_pairwise("a", "b", DenseTable([[2**53 + 1, math.inf], [0, 0], [math.inf, 1]]))
    problem = b.build()
    assert evaluate(problem, [0, 0]).objective == 2 * (2**53 + 1)
    assert evaluate(problem, [1, 0]).objective == math.inf


def test_a_forbidden_label_beside_large_integers_survives_lowering() -> None:
    from berthage import lower_relations

    b = ProblemBuilder()
    b.add_variable("a", 2, [2**53 + 1, 2**60 + 1])
    b.forbid("a", [0], name="no")
    lowered = lower_relations(b.build())
    assert evaluate(lowered, [0]).objective == math.inf
    assert not evaluate(lowered, [0]).feasible
    assert evaluate(lowered, [1]).objective == 2**60 + 1


def test_float_sums_are_rounded_once() -> None:
    b = ProblemBuilder()
    for v in range(10):
        b.add_variable(f"v{v}", 1, [0.1])
    assert evaluate(b.build(), [0] * 10).objective == 1.0


def test_an_objective_is_an_int_exactly_when_everything_is_whole() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1, [2.0])
    assert type(evaluate(b.build(), [0]).objective) is int
    b.add_constant(0.5)
    assert evaluate(b.build(), [0]).objective == 2.5


def test_costs_of_1e308_are_costs_and_a_sum_beyond_floats_is_an_error_that_says_so() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [1e308, 0])
    b.add_variable("b", 2, [1e308, 1])
    whole = b.build()
    b.add_constant(0.5)
    fractional = b.build()
    for problem in (whole, fractional):
        assert evaluate(problem, [1, 1]).objective == 1 + problem.constant
        assert evaluate(problem, [0, 1]).feasible, "enormous is not forbidden"
        assert evaluate(problem, [0, 1]).objective == pytest.approx(1e308)
        with pytest.raises(InvalidProblemError, match="rescale"):
            evaluate(problem, [0, 0])


def test_everything_forbidden_is_named() -> None:
    b = ProblemBuilder()
    b.add_variable("a", ["x", "y"], [math.inf, 0])
    b.add_variable("b", 2)
    b.add_pairwise("a", "b", [[math.inf, 0], [0, math.inf]], name="link")
    b.forbid("b", [0], name="no zero")
    b.add_budget("cap", {"a": [5, 0]}, upper=4)
    found = evaluate(b.build(), [0, 0])
    assert found.objective == math.inf
    assert not found.feasible
    assert [(v.kind, v.name) for v in found.violations] == [
        ("forbidden label", "a"),
        ("forbidden pair", "link"),
        ("relation", "no zero"),
        ("budget", "cap"),
    ]
    assert all(v.detail for v in found.violations)
    assert "'x'" in found.violations[0].detail


def test_an_edge_of_high_multiplicity_and_cost_zero_over_inf_is_no_nan() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [0, math.inf], multiplicity=32)
    found = evaluate(b.build(), [0])
    assert found.objective == 0
    assert found.unary.tolist() == [0.0]


def test_linear_budgets_are_two_sided_and_exact() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3)
    b.add_variable("b", 3)
    weights = [0, 2**40, 2**62]
    b.add_budget("sum", {"a": weights, "b": weights}, lower=2**40, upper=2**63)
    problem = b.build()
    assert evaluate(problem, [2, 2]).feasible
    assert evaluate(problem, [2, 2]).budget_use[0].used == 2**63
    assert evaluate(problem, [1, 0]).feasible
    found = evaluate(problem, [0, 0])
    assert [v.name for v in found.violations] == ["sum"]
    assert "under" in found.violations[0].detail


def test_a_budget_one_byte_over_is_over() -> None:
    size = 16_000_000_000_000_000  # beyond what a relative tolerance of 1e-9 would notice
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_budget("memory", {"a": [size, size + 1]}, upper=size)
    problem = b.build()
    assert evaluate(problem, [0]).feasible
    assert not evaluate(problem, [1]).feasible


def test_float_budgets_forgive_rounding_and_nothing_more() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.add_budget("sum", {name: [0.1, 0.2] for name in "abc"}, upper=0.3)
    b.add_interval_budget("peak", [(name, 0, 2, [0.1, 0.2]) for name in "abc"], limit=0.3)
    problem = b.build()
    assert evaluate(problem, [0, 0, 0]).feasible
    assert len(evaluate(problem, [0, 0, 1]).violations) == 2


def test_intervals_are_half_open_and_the_peak_is_named() -> None:
    b = ProblemBuilder()
    for name in ("early", "late", "never"):
        b.add_variable(name, 2)
    rows = [("early", 0, 3, [2, 5]), ("late", 3, 6, [2, 6]), ("never", 4, 4, [100, 100])]
    b.add_interval_budget("memory", rows, limit=5)
    problem = b.build()
    fits = evaluate(problem, [1, 0, 1])
    assert fits.feasible
    assert (fits.budget_use[0].used, fits.budget_use[0].instant) == (5, 0)
    over = evaluate(problem, [1, 1, 0])
    assert (over.budget_use[0].used, over.budget_use[0].instant) == (6, 3)
    assert "instant 3" in over.violations[0].detail
    assert "'late'" in over.violations[0].detail


def test_a_variable_may_be_live_twice() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1)
    b.add_interval_budget("memory", [("a", 0, 3, [2]), ("a", 2, 4, [3])], limit=4)
    found = evaluate(b.build(), [0])
    assert found.budget_use[0].used == 5
    assert found.budget_use[0].instant == 2
    assert not found.feasible


def test_soft_budgets_cost_instead_of_forbidding() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [0, 1])
    b.add_budget("under", {"a": [0, 9]}, lower=4, price=2)
    b.add_interval_budget("peak", [("a", 0, 2, [7, 1]), ("a", 1, 3, [7, 1])], limit=10, price=3)
    problem = b.build()
    found = evaluate(problem, [0])
    assert found.feasible
    assert found.penalties == {"under": 8, "peak": 12}
    assert found.objective == 20
    assert evaluate(problem, [1]).objective == 1
    assert evaluate(problem, [1]).penalties == {}


def test_the_breakdown_counts_multiplicities() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1, [3], multiplicity=4)
    b.add_variable("b", 1, [1])
    b.add_pairwise("b", "a", [[2]], multiplicity=5)
    found = evaluate(b.build(), [0, 0])
    assert found.unary.tolist() == [12.0, 1.0]
    assert found.pairwise.tolist() == [10.0]
    assert found.objective == 23


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ([0], "2, got"),
        ([0, 0, 0], "2, got"),
        ([[0, 0]], "2, got"),
        ([0, 2], "'b' has 2 labels"),
        ([-1, 0], "'a' has 2 labels"),
        ([0.0, 1.0], "integers"),
        ([0, 2**40], "'b'"),
    ],
)
def test_assignments_that_are_none_are_refused(assignment: object, message: str) -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    with pytest.raises(InvalidProblemError, match=message):
        evaluate(b.build(), assignment)  # type: ignore[arg-type]


def test_the_empty_problem_costs_its_constant() -> None:
    b = ProblemBuilder()
    b.add_constant(4)
    found = evaluate(b.build(), [])
    assert (found.objective, found.feasible) == (4, True)
    assert evaluate(b.build(), np.zeros(0, dtype=np.int64)).objective == 4


def test_core_and_the_evaluator_forgive_the_same_rounding() -> None:
    from berthage import Reason, SolverOutcome, Termination, solve
    from berthage.testing import brute_force, reference_evaluate

    # The least possible sum is below the lower limit, by less than what the (larger) upper limit lets pass.
    b = ProblemBuilder()
    b.add_variable("a", 1)
    b.add_budget("sum", {"a": [1.5 - 1e-7]}, lower=1.5, upper=1e6)
    problem = b.build()
    assert evaluate(problem, [0]).feasible
    assert reference_evaluate(problem, [0]).feasible
    assert brute_force(problem).feasible
    answer = SolverOutcome(Termination(Reason.OPTIMAL), np.zeros(1, dtype=np.int32), 0.0)
    assert solve(problem, lambda *_: answer, presolve=False).termination.reason is Reason.OPTIMAL


@pytest.mark.parametrize(("use", "limit", "fits"), [(2**53 + 4, 2**53 + 3, False), (2**53 + 1, 2**53 + 1, True)])
def test_whole_budgets_beyond_2_53_are_compared_exactly(use: int, limit: int, fits: bool) -> None:
    for kind in ("linear", "interval"):
        b = ProblemBuilder()
        b.add_variable("x", 1)
        if kind == "linear":
            b.add_budget("m", {"x": [use]}, upper=limit)
        else:
            b.add_interval_budget("m", [("x", 0, 1, [use])], limit=limit)
        assert evaluate(b.build(), [0]).feasible is fits
        assert (static_infeasibility(b.build()) is None) is fits


def test_static_checks_add_fractions_as_evaluate_does() -> None:
    b = ProblemBuilder()
    b.add_budget("m", {b.add_variable(f"v{i}", 1): [w] for i, w in enumerate([1e17, 0.5, -1e17])}, lower=0.4)
    assert evaluate(b.build(), [0, 0, 0]).feasible
    assert static_infeasibility(b.build()) is None
