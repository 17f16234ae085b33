"""`ProblemBuilder`: what it takes, what it refuses, and that a refusal names the culprit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from berthage import ClassedTable, DenseTable, InvalidProblemError, LabelSet, ProblemBuilder, evaluate
from berthage.problem import RelationKind


def two(names: tuple[str, str] = ("a", "b")) -> ProblemBuilder:
    b = ProblemBuilder("two")
    b.add_variable(names[0], ["R", "S(0)", "S(1)"], [1, 2, 3])
    b.add_variable(names[1], 2, [0, 5])
    return b


def test_variables_and_labels_go_by_name_or_index() -> None:
    b = two()
    b.add_pairwise("a", 1, [[0, 1], [2, 3], [4, 5]])
    b.fix("a", "S(1)", name="fixed")
    b.forbid(1, ["0"], name="not zero")
    problem = b.build()
    assert evaluate(problem, [2, 1]).objective == 3 + 5 + 5
    assert evaluate(problem, [2, 1]).feasible
    assert [v.name for v in evaluate(problem, [0, 0]).violations] == ["fixed", "not zero"]
    assert problem.label_name(0, 2) == "S(1)"
    assert problem.label_name(1, 1) == "1"
    assert problem.edge_name(0) == "a -- b"
    assert problem.variable_index("b") == 1


def test_names_that_differ_only_in_signs_are_different() -> None:
    b = two(("x+1", "x-1"))
    b.add_budget("m+", {"x+1": [1, 2, 3]}, upper=2)
    b.add_budget("m-", {"x-1": [1, 2]}, upper=1)
    problem = b.build()
    assert problem.variable_names == ("x+1", "x-1")
    assert problem.constraint_names == ("m+", "m-")
    assert [v.name for v in evaluate(problem, [2, 0]).violations] == ["m+"]
    assert problem.without("m+").problem.constraint_names == ("m-",)


def test_costs_accumulate() -> None:
    b = two()
    b.add_unary("a", [10, 10, 10])
    b.add_constant(100)
    b.add_constant(-1)
    assert evaluate(b.build(), [0, 1]).objective == 11 + 5 + 99


def test_a_self_edge_is_its_diagonal() -> None:
    b = two()
    assert b.add_pairwise("b", "b", [[7, 99], [99, 8]], multiplicity=3) is None
    problem = b.build()
    assert problem.num_edges == 0
    assert evaluate(problem, [0, 0]).objective == 1 + 21
    assert evaluate(problem, [0, 1]).objective == 1 + 5 + 24


@pytest.mark.parametrize("first", ["unary", "edge"])
def test_a_self_edge_and_unary_costs_keep_their_own_multiplicity_in_any_order(first: str) -> None:
    b = ProblemBuilder()
    b.add_variable("a", 2, [1, 0], multiplicity=3)
    steps: list[Callable[[], object]] = [
        lambda: b.add_unary("a", [10, 0]),
        lambda: b.add_pairwise("a", "a", [[100, 0], [0, 0]], multiplicity=2),
    ]
    for step in steps if first == "unary" else steps[::-1]:
        step()
    assert evaluate(b.build(), [0]).objective == 3 * 1 + 3 * 10 + 2 * 100


def test_bulk_input_means_the_same_as_one_by_one() -> None:
    one, bulk = ProblemBuilder("p"), ProblemBuilder("p")
    for name, costs, copies in (("a", [1, 2], 1), ("b", [3, 4, 5], 2), ("c", [6, 7], 3)):
        one.add_variable(name, len(costs), costs, multiplicity=copies)
    table = DenseTable([[1, 2, 3], [4, 5, 6]])
    square = DenseTable([[0, 1], [1, 0]])
    one.add_pairwise("a", "b", table)
    one.add_pairwise("c", "a", square, multiplicity=4)
    one.add_pairwise("c", "c", square)
    bulk.add_variables(["a", "b", "c"], [2, 3, 2], [1, 2, 3, 4, 5, 6, 7], multiplicity=[1, 2, 3])
    indices = [bulk.add_table(table), bulk.add_table(square)]
    bulk.add_edges([0, 2, 2], [1, 0, 2], [indices[0], indices[1], indices[1]], [1, 4, 1])
    first, second = one.build(), bulk.build()
    for chosen in ([0, 0, 0], [1, 2, 1], [0, 1, 1]):
        assert evaluate(first, chosen).objective == evaluate(second, chosen).objective
    assert first.unary.tolist() == second.unary.tolist()


def test_a_table_is_stored_once_however_many_edges_use_it() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    table = DenseTable([[0, 1], [1, 0]])
    b.add_pairwise("a", "b", table)
    b.add_pairwise("b", "c", table)
    b.add_pairwise("a", "c", b.add_table(table))
    assert len(b.build().tables) == 1


def test_ties_follow_label_names_unless_told_otherwise() -> None:
    b = ProblemBuilder()
    b.add_variable("a", ["R", "S(0)", "P"])
    b.add_variable("b", ["S(0)", "R"])
    b.tie("a", "b", name="same")
    problem = b.build()
    assert evaluate(problem, [0, 1]).feasible
    assert evaluate(problem, [1, 0]).feasible
    assert not evaluate(problem, [0, 0]).feasible
    assert not evaluate(problem, [2, 0]).feasible, "P has no partner"


def test_relations_added_in_bulk_share_a_name_and_go_together() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    same = np.array([0, 1], dtype=np.int32)
    b.add_relations(RelationKind.TIE, [0, 1], [1, 2], [same, same], "all agree")
    problem = b.build()
    assert problem.constraint_names == ("all agree",)
    assert len(problem.relations) == 2
    assert not problem.without("all agree").problem.has_relations


def test_constraint_names_are_made_distinct_or_refused() -> None:
    b = two()
    assert b.forbid("a", ["R"]) != b.forbid("a", ["S(0)"])
    b.add_budget("memory", {"a": [1, 1, 1]}, upper=1)
    with pytest.raises(InvalidProblemError, match="memory"):
        b.add_budget("memory", {"a": [1, 1, 1]}, upper=1)


def test_arrays_of_the_caller_may_change_afterwards() -> None:
    costs, table, weights = np.array([1.0, 2.0]), np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([1, 2])
    mask = np.array([[True, False], [True, True]])
    b = ProblemBuilder()
    b.add_variable("a", 2, costs)
    b.add_variable("b", 2, costs)
    b.add_pairwise("a", "b", table)
    b.allow_pairs("a", "b", mask, name="pairs")
    b.add_budget("w", {"a": weights}, upper=2)
    problem = b.build()
    before = evaluate(problem, [1, 1])
    for array in (costs, table, weights):
        array[:] = 77
    mask[:] = False
    after = evaluate(problem, [1, 1])
    assert after.objective == before.objective == 7
    assert after.feasible
    assert not problem.unary.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        problem.unary[0] = 3


def test_building_twice_gives_equal_problems_and_the_builder_goes_on() -> None:
    b = two()
    first = b.build()
    assert first == b.build()
    b.add_variable("c", 1)
    b.add_unary("a", [1, 1, 1])
    assert first.num_variables == 2
    assert first.unary[0] == 1
    assert b.build().num_variables == 3


REFUSED: dict[str, tuple[Callable[[ProblemBuilder], object], str]] = {
    "NaN cost": (lambda b: b.add_variable("c", 2, [0, math.nan]), "'c'.*NaN"),
    "minus infinity": (lambda b: b.add_variable("c", 2, [0, -math.inf]), "'c'.*-inf"),
    "cost per label": (lambda b: b.add_variable("c", 3, [1, 2]), "'c'"),
    "text cost": (lambda b: b.add_variable("c", 1, ["dear"]), "'c'"),
    "no label": (lambda b: b.add_variable("c", 0), "'c'"),
    "repeated label": (lambda b: b.add_variable("c", ["R", "R"]), "'c'.*'R'"),
    "repeated name": (lambda b: b.add_variable("a", 1), "'a'"),
    "multiplicity": (lambda b: b.add_variable("c", 1, multiplicity=0), "'c'"),
    "coordinates": (lambda b: b.add_variable("c", 2, coordinates=[[1]]), "'c'"),
    "unknown variable": (lambda b: b.add_unary("zz", [1]), "'zz'"),
    "unknown index": (lambda b: b.add_unary(7, [1]), "7"),
    "unary length": (lambda b: b.add_unary("a", [1]), "'a'"),
    "NaN in a table": (lambda b: b.add_pairwise("a", "b", [[0, math.nan]] * 3), "a -- b.*NaN"),
    "unbalanced table": (lambda b: b.add_pairwise("a", "b", [[0, 1], [2], [3, 4]]), "a -- b"),
    "transposed table": (lambda b: b.add_pairwise("a", "b", [[0, 1, 2], [3, 4, 5]]), r"\(2, 3\).*\(3, 2\)"),
    "arity three": (lambda b: b.add_pairwise("a", "b", np.zeros((3, 2, 2))), "a -- b"),
    "unknown table": (lambda b: b.add_pairwise("a", "b", 4), "table 4"),
    "edge multiplicity": (lambda b: b.add_pairwise("a", "b", np.zeros((3, 2)), multiplicity=0), "a -- b"),
    "classes": (lambda b: b.add_pairwise("a", "b", ClassedTable(DenseTable([[1]]), [0, 0, 1], [0, 0])), "row"),
    "unknown label": (lambda b: b.fix("a", "S(9)"), r"'a'.*'S\(9\)'"),
    "label index": (lambda b: b.forbid("b", [2]), "'b'.*2"),
    "relation with itself": (lambda b: b.tie("a", "a"), "'a' twice"),
    "tie out of range": (lambda b: b.tie("a", "b", np.array([0, 1, 2])), "0 to 1"),
    "pairs shape": (lambda b: b.allow_pairs("a", "b", np.ones((2, 3), dtype=bool)), r"\[3, 2\]"),
    "weights per label": (lambda b: b.add_budget("m", {"a": [1, 2]}, upper=1), "'m'.*'a'"),
    "infinite weight": (lambda b: b.add_budget("m", {"b": [1, math.inf]}, upper=1), "'m'.*'b'"),
    "NaN weight": (lambda b: b.add_budget("m", {"b": [1, math.nan]}, upper=1), "'m'.*'b'"),
    "text weight": (lambda b: b.add_budget("m", {"b": ["x", "y"]}, upper=1), "'m'.*'b'"),
    "crossed limits": (lambda b: b.add_budget("m", {"b": [1, 2]}, lower=2, upper=1), "'m'"),
    "NaN limit": (lambda b: b.add_budget("m", {"b": [1, 2]}, upper=math.nan), "'m'"),
    "variable twice": (lambda b: b.add_budget("m", {"b": [1, 2], 1: [1, 2]}, upper=1), "'m'.*twice"),
    "negative price": (lambda b: b.add_budget("m", {"b": [1, 2]}, upper=1, price=-1), "'m'.*price"),
    "ends before start": (lambda b: b.add_interval_budget("m", [("b", 3, 2, [1, 1])], limit=1), "'m'.*'b'"),
    "negative use": (lambda b: b.add_interval_budget("m", [("b", 0, 2, [1, -1])], limit=1), "'m'"),
    "no limit": (lambda b: b.add_interval_budget("m", [("b", 0, 2, [1, 1])], limit=math.inf), "'m'.*finite"),
    "NaN price": (
        lambda b: b.add_interval_budget("m", [("b", 0, 2, [1, 1])], limit=1, price=math.nan),
        "'m'.*price",
    ),
    "infinite constant": (lambda b: b.add_constant(math.inf), "finite"),
    "NaN constant": (lambda b: b.add_constant(math.nan), "finite"),
    "bulk names": (lambda b: b.add_variables(["c", "d"], [1]), "2 variable names"),
    "bulk costs": (lambda b: b.add_variables(["c", "d"], [1, 2], [1]), "3 labels"),
    "bulk edge": (lambda b: b.add_edges([0], [5], [0]), "variable 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_input_is_refused_naming_the_culprit(case: str) -> None:
    action, message = REFUSED[case]
    b = two()
    before = b.build()
    with pytest.raises(InvalidProblemError, match=f"(?s){message}"):
        action(b)
    assert b.build() == before, "a refused call leaves nothing behind"


def test_label_sets_are_shared_and_keep_coordinates() -> None:
    labels = LabelSet.of(["R", "S(0)"], coordinates=[[0, 0], [1, 0]])
    b = ProblemBuilder()
    b.add_variable("a", labels)
    b.add_variable("b", labels)
    problem = b.build()
    assert len(problem.label_sets) == 1
    assert problem.labels(1).coordinates is not None
    assert problem.labels(1).coordinates.tolist() == [[0, 0], [1, 0]]
    assert list(problem.labels(0)) == ["R", "S(0)"]


@pytest.mark.parametrize("field", ["lower", "upper", "price"])
def test_limits_and_prices_beyond_int64_are_kept(field: str) -> None:
    big = -(10**30) if field == "lower" else 10**30
    b = ProblemBuilder()
    b.add_variable("x", 2)
    b.add_budget("m", {"x": [0, 1]}, **{field: big})
    assert getattr(b.build().linear_budgets[0], field) == big


def test_numbers_beyond_floats_and_times_beyond_int64_are_refused_by_name() -> None:
    b = ProblemBuilder()
    b.add_variable("x", 1)
    with pytest.raises(InvalidProblemError, match=r"constant.*digits"):
        b.add_constant(10**400)
    with pytest.raises(InvalidProblemError, match=r"live over.*beyond int64"):
        b.add_interval_budget("m", [("x", 0, 2**63, [1])], limit=1)
    y = b.add_variable("y", 1)
    with pytest.raises(InvalidProblemError, match="mixes fractions"):
        b.add_budget("m", {"x": [2**60 + 1], y: [0.5]}, upper=1)
    t = b.add_table([[0]])
    with pytest.raises(InvalidProblemError, match="multiplicity"):
        b.add_edges([0], [1], [t], multiplicity=[2**40])


def test_equal_numbers_of_different_kinds_make_equal_problems() -> None:
    digests = set()
    for number in (1.5, np.float64(1.5)):
        b = ProblemBuilder()
        b.add_constant(number)
        digests.add(b.build().digest)
    assert len(digests) == 1


def test_a_view_of_something_writable_is_copied() -> None:
    costs = np.zeros((2, 2))
    view = costs[:]
    view.flags.writeable = False
    table = DenseTable(view)
    costs[0, 0] = 7
    assert table.values[0, 0] == 0


def test_the_budget_of_a_projection_is_necessary() -> None:
    b = ProblemBuilder()
    b.add_variable("v0", 2)
    b.add_variable("v1", 2)
    b.add_budget("m", {"v0": [0, 1], "v1": [-2, 9]}, lower=5, upper=6)
    budget = b.build().project(["v0"]).problem.linear_budgets[0]
    assert (budget.lower, budget.upper) == (-4, 8)
