"""Each rule of the plugin `presolve` on problems small enough to know the answer by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from berthage import ClassedTable, DenseTable, LazyTable, PlacementProblem, ProblemBuilder, evaluate
from berthage.testing import KnownAnswer, brute_force, known_answers
from berthage.testing.lazy import ArrayOracle

presolve = pytest.importorskip("berthage_presolve.presolve")
engine = pytest.importorskip("berthage_presolve.engine")

ALL = presolve.Presolve.rules
INF = math.inf


def pair(costs: list[list[float]], **unary: list[float]) -> ProblemBuilder:
    """Two variables, x and y, and one table."""
    b = ProblemBuilder("pair")
    for name, size in (("x", len(costs)), ("y", len(costs[0]))):
        b.add_variable(name, size, unary.get(name))
    b.add_pairwise("x", "y", costs)
    return b


def solved(problem: PlacementProblem, rules: tuple[str, ...]) -> tuple[engine.Reduced, float]:
    """Reduce, solve the parts by brute force, lift, and check that the lifted assignment costs the same."""
    reduced = engine.reduce_problem(problem, rules)
    assert reduced.infeasibility is None
    truths = [brute_force(part) for part in reduced.parts]
    total = sum(truth.objective for truth in truths)
    lifted = evaluate(problem, reduced.lift([truth.assignments[0] for truth in truths]))
    assert lifted.feasible
    assert lifted.objective == pytest.approx(total, abs=1e-12 + reduced.bound_error)
    return reduced, total


def test_nothing_to_do_returns_the_problem_itself() -> None:
    problem = pair([[0, 3, 1], [3, 0, 1], [1, 3, 0]]).build()
    reduced = engine.reduce_problem(problem, ("arc-consistency", "merge-ties"))
    assert reduced.parts == (problem,)
    assert reduced.lift([np.array([1, 2], dtype=np.int32)]).tolist() == [1, 2]
    assert [part.tolist() for part in reduced.project(np.array([2, 0], dtype=np.int32))] == [[2, 0]]


def test_arc_consistency_removes_labels_without_a_partner() -> None:
    b = pair([[INF, INF], [1, INF], [2, 3]])
    b.add_variable("z", 2)
    b.add_pairwise("y", "z", [[0, 5], [INF, INF]])
    reduced, total = solved(b.build(), ("arc-consistency",))
    (part,) = reduced.parts
    assert part.num_labels.tolist() == [2, 1, 2]  # y loses its second label to z, x its first to y
    assert [part.label_name(0, label) for label in range(2)] == ["1", "2"]
    assert total == 1


def test_arc_consistency_names_what_clashes() -> None:
    b = ProblemBuilder("clash")
    b.add_variable("x", 2)
    b.add_variable("y", 2)
    b.allow_pairs("x", "y", [[False, True], [True, False]], name="differ")
    b.tie("x", "y", name="same")
    b.fix("x", 0, name="first")
    found = engine.reduce_problem(b.build(), ("arc-consistency",)).infeasibility
    assert found is not None
    assert {"differ", "same"} <= set(found.constraints)


def test_a_tie_is_one_variable_with_the_names_of_the_first() -> None:
    b = ProblemBuilder("tie")
    b.add_variable("x", ["R", "S(0)", "S(1)"], [1, 2, 3])
    b.add_variable("y", ["S(1)", "R"], [10, 30])
    b.tie("x", "y")
    reduced, total = solved(b.build(), ("arc-consistency", "merge-ties"))
    (part,) = reduced.parts
    assert part.variable_names == ("x",)
    assert [part.label_name(0, label) for label in range(2)] == ["R", "S(1)"]
    assert part.unary.tolist() == [31, 13]
    assert total == 13


def test_a_chain_of_ties_and_its_edges_become_one_unary_cost() -> None:
    b = ProblemBuilder("chain")
    for i in range(6):
        b.add_variable(f"v{i}", 3, [0, i, 1])
    for i in range(5):
        b.tie(f"v{i}", f"v{i + 1}")
        b.add_pairwise(f"v{i + 1}", f"v{i}", np.diag([4.0, 2.0, 0.0]))
    reduced, total = solved(b.build(), ("merge-ties",))
    (part,) = reduced.parts
    assert (part.num_variables, part.num_edges) == (1, 0)
    assert part.unary.tolist() == [20, 15 + 10, 6]
    assert total == 6


def test_a_variable_that_is_a_function_of_another_is_merged_into_it() -> None:
    b = ProblemBuilder("function")
    b.add_variable("x", 4, [0, 1, 2, 3])
    b.add_variable("y", 2, [5, 0])
    b.tie("x", "y", [0, 0, 1, 1])
    b.add_variable("z", 2)
    b.add_pairwise("y", "z", [[0, 1], [7, 3]])
    reduced, total = solved(b.build(), ("merge-ties",))
    (part,) = reduced.parts
    assert part.variable_names == ("x", "z")
    assert part.num_labels.tolist() == [4, 2]
    assert part.tables[0].kind in ("classed", "dense")
    assert total == 5


def test_pairs_that_would_make_more_joint_choices_stay_an_edge() -> None:
    b = ProblemBuilder("blocks")
    b.add_variable("x", 4)
    b.add_variable("y", 4)
    b.allow_pairs("x", "y", np.kron(np.eye(2, dtype=bool), np.ones((2, 2), dtype=bool)), name="same half")
    reduced, _ = solved(b.build(), ("merge-ties",))
    assert reduced.parts[0].num_variables == 2


def test_merged_edges_keep_sharing_their_table() -> None:
    table = np.arange(25.0).reshape(5, 5)
    b = ProblemBuilder("shared")
    shared = b.add_table(table)
    for i in range(8):
        b.add_variable(f"v{i}", 5)
    for i in range(0, 8, 2):
        b.tie(f"v{i}", f"v{i + 1}")
    for i in range(1, 7, 2):
        b.add_pairwise(f"v{i}", f"v{i + 1}", shared)
    reduced, _ = solved(b.build(), ("merge-ties",))
    (part,) = reduced.parts
    assert (part.num_variables, part.num_edges, len(part.tables)) == (4, 3, 1)


def test_classed_tables_stay_classed_through_ties_and_removed_labels() -> None:
    classes = np.arange(40) % 4
    b = ProblemBuilder("classed")
    b.add_variable("x", 40)
    b.add_variable("y", 40)
    b.add_variable("z", 40)
    b.add_pairwise("x", "y", ClassedTable(DenseTable(np.arange(16.0).reshape(4, 4)), classes, classes))
    b.forbid("x", [0, 1, 2])
    b.tie("y", "z")
    reduced = engine.reduce_problem(b.build(), ("arc-consistency", "merge-ties"))
    (part,) = reduced.parts
    (table,) = part.tables
    assert part.num_labels.tolist() == [37, 40]
    assert isinstance(table, ClassedTable)
    assert table.table.shape == (4, 4)


def test_single_labels_go_into_their_neighbours_and_the_constant() -> None:
    b = ProblemBuilder("singles")
    b.add_constant(100)
    b.add_variable("x", 1, [7], multiplicity=3)
    b.add_variable("y", 1, [1])
    b.add_variable("z", 2, [0, 5])
    b.add_pairwise("x", "y", [[2]], multiplicity=5)
    b.add_pairwise("z", "x", [[9], [3]])
    reduced, total = solved(b.build(), ("single-labels",))
    (part,) = reduced.parts
    assert part.variable_names == ("z",)
    assert part.unary.tolist() == [9, 8]
    assert part.constant == 100 + 21 + 1 + 10
    assert total == 140


def test_decided_variables_that_forbid_each_other_are_a_contradiction() -> None:
    found = engine.reduce_problem(pair([[INF]]).build(), ("single-labels",)).infeasibility
    assert found is not None
    assert set(found.constraints) == {"x", "y"}


def test_pins_of_a_linear_budget() -> None:
    b = ProblemBuilder("pins")
    b.add_variable("x", 3)
    b.add_variable("y", 2)
    b.add_budget("bytes", {"x": [1, 4, 6], "y": [3, 5]}, upper=8, lower=5)
    reduced, _ = solved(b.build(), ("budget-pins",))
    (part,) = reduced.parts
    # 6 does not fit beside 3; the lower limit then rules out nothing
    assert part.num_labels.tolist() == [2, 2]


def test_pins_of_an_interval_budget_look_at_the_worst_instant() -> None:
    b = ProblemBuilder("pins over time")
    b.add_variable("always", 2)
    b.add_variable("early", 2)
    b.add_variable("late", 1)
    rows = [("always", 0, 10, [2, 5]), ("early", 0, 3, [1, 2]), ("late", 7, 9, [6])]
    b.add_interval_budget("memory", rows, limit=8)
    reduced, _ = solved(b.build(), ("budget-pins",))
    assert reduced.parts[0].num_labels.tolist() == [1, 2, 1]  # 5 + 6 > 8 while `late` lives
    reduced, _ = solved(b.build(), ALL)
    assert sum(part.num_variables for part in reduced.parts) == 0  # then nothing can go over the limit any more


def test_a_budget_that_cannot_be_met_names_the_instant_and_what_is_live() -> None:
    b = ProblemBuilder("peak")
    b.add_variable("x", 2)
    b.add_variable("y", 2)
    b.add_variable("z", 2)
    b.allow_pairs("x", "y", [[False, False], [False, True]], name="both large")
    rows = [("x", 0, 4, [1, 4]), ("y", 2, 6, [1, 4]), ("z", 5, 8, [1, 1])]
    b.add_interval_budget("memory", rows, limit=7)
    found = engine.reduce_problem(b.build(), ALL).infeasibility
    assert found is not None
    assert found.constraints == ("memory",)
    assert found.instant is not None
    assert 2 <= found.instant < 4
    assert set(found.live) == {"x", "y"}
    assert found.least_limit == 8


def test_fixed_use_is_carried_where_something_undecided_is_live() -> None:
    b = ProblemBuilder("carrier")
    b.add_variable("x", 2, [5, 0])
    b.add_variable("y", 2, [0, 1])
    b.add_variable("block", 1)
    b.add_variable("far", 1)
    b.add_pairwise("x", "y", [[0, 2], [1, 0]])
    rows = [("x", 0, 4, [0, 3]), ("y", 0, 4, [3, 1]), ("block", 0, 4, [2]), ("far", 6, 8, [5])]
    b.add_interval_budget("memory", rows, limit=7)
    problem = b.build()
    reduced = engine.reduce_problem(problem, ("single-labels",))
    (part,) = reduced.parts
    (budget,) = part.interval_budgets
    assert part.num_variables == 3
    assert part.num_labels[2] == 1
    assert budget.limit == 7
    assert sorted(budget.weights.tolist()) == [0, 1, 2, 3, 3]
    assert solved(problem, ("single-labels",))[1] == brute_force(problem).objective
    projected = reduced.project(np.array([1, 1, 0, 0], dtype=np.int32))
    assert [labels.tolist() for labels in projected] == [[1, 1, 0]]


def test_fixed_use_of_a_soft_budget_is_priced() -> None:
    b = ProblemBuilder("soft")
    b.add_variable("x", 1)
    b.add_variable("y", 1)
    b.add_budget("linear", {"x": [4], "y": [3]}, upper=5, price=10)
    b.add_interval_budget("over time", [("x", 0, 3, [4]), ("y", 1, 2, [3])], limit=6, price=100)
    reduced, total = solved(b.build(), ALL)
    assert total == 120
    assert reduced.parts[0].num_variables == 0


def test_a_negative_limit_is_exceeded_even_when_nothing_is_live() -> None:
    b = ProblemBuilder("negative")
    b.add_variable("x", 2)
    b.add_interval_budget("memory", [("x", 3, 3, [1, 2])], limit=-4, price=5)
    assert solved(b.build(), ALL)[1] == brute_force(b.build()).objective == 20
    b.add_interval_budget("hard", [("x", 3, 3, [1, 2])], limit=-4)
    found = engine.reduce_problem(b.build(), ALL).infeasibility
    assert found is not None
    assert found.constraints == ("hard",)


def test_dominated_labels_go_and_the_first_of_equals_stays() -> None:
    problem = pair([[0, 2, 0], [1, 2, 0], [0, 2, 0]], x=[1, 1, 1], y=[0, 0, 9]).build()
    reduced, total = solved(problem, ("dominated-labels",))
    (part,) = reduced.parts
    assert part.num_labels.tolist() == [1, 1]
    assert reduced.lift([np.zeros(2, dtype=np.int32)]).tolist() == [0, 0]
    assert [labels.tolist() for labels in reduced.project(np.array([1, 1], dtype=np.int32))] == [[0, 0]]
    assert total == 1


def test_a_dominated_label_that_uses_less_of_a_budget_stays() -> None:
    b = ProblemBuilder("budgeted")
    b.add_variable("cheap or small", 3, [0, 5, 6])
    b.add_variable("other", 2, [0, 5])
    b.add_budget("bytes", {0: [4, 2, 2], 1: [4, 2]}, upper=6)
    reduced, total = solved(b.build(), ("dominated-labels",))
    assert reduced.parts[0].num_labels.tolist() == [2, 2]
    assert total == 5


def test_a_lower_limit_protects_heavy_labels() -> None:
    b = ProblemBuilder("lower")
    b.add_variable("x", 2, [0, 5])
    b.add_variable("y", 2, [0, 5])
    b.add_budget("at least", {0: [0, 3], 1: [0, 3]}, lower=3)
    reduced, total = solved(b.build(), ("dominated-labels",))
    assert reduced.parts[0].num_labels.tolist() == [2, 2]
    assert total == 5


def test_a_forbidden_pair_keeps_a_label_from_dominating() -> None:
    allowed, total = solved(pair([[0, 3], [3, 3]], y=[50, 0]).build(), ("dominated-labels",))
    assert allowed.parts[0].num_labels.tolist() == [1, 1]
    assert total == 3
    forbidden, total = solved(pair([[0, INF], [3, 3]], y=[50, 0]).build(), ("dominated-labels",))
    assert forbidden.parts[0].num_labels.tolist() == [2, 2]
    assert total == 3


def test_a_tree_is_eliminated_completely() -> None:
    rng = np.random.default_rng(5)
    b = ProblemBuilder("tree")
    b.add_variable("v0", 3, rng.integers(0, 9, 3))
    for i in range(1, 8):
        b.add_variable(f"v{i}", 3, rng.integers(0, 9, 3))
        b.add_pairwise(int(rng.integers(i)), i, rng.integers(0, 9, (3, 3)))
    problem = b.build()
    reduced, total = solved(problem, ("eliminate",))
    (part,) = reduced.parts
    assert part.num_variables == 0
    assert part.constant == total == brute_force(problem).objective
    assert isinstance(part.constant, int)


def test_a_cycle_is_eliminated_and_a_complete_graph_is_not() -> None:
    rng = np.random.default_rng(6)
    cycle, complete = ProblemBuilder("cycle"), ProblemBuilder("complete")
    for b, edges in (
        (cycle, [(i, (i + 1) % 7) for i in range(7)]),
        (complete, [(i, j) for i in range(4) for j in range(i)]),
    ):
        for i in range(max(max(edge) for edge in edges) + 1):
            b.add_variable(f"v{i}", 3)
        for u, v in edges:
            b.add_pairwise(u, v, rng.integers(0, 99, (3, 3)))
    assert solved(cycle.build(), ("eliminate",))[0].parts[0].num_variables == 0
    assert solved(complete.build(), ("eliminate",))[0].parts[0].num_variables == 4


def test_what_carries_budget_weight_is_not_eliminated() -> None:
    b = pair([[0, 1], [1, 0]], x=[1, 0], y=[0, 1])
    b.add_budget("bytes", {"x": [1, 2], "y": [2, 3]}, upper=4)
    reduced, _ = solved(b.build(), ("eliminate",))
    assert reduced.parts[0].num_variables == 2


def test_a_budget_with_room_for_everything_blocks_nothing() -> None:
    b = pair([[0, 1], [1, 0]], x=[1, 0], y=[0, 1])
    b.add_budget("roomy", {"x": [1, 2], "y": [2, 3]}, upper=5)
    b.add_interval_budget("apart", [("x", 0, 2, [1, 5]), ("y", 2, 4, [1, 5])], limit=5)
    reduced, _ = solved(b.build(), ("eliminate",))
    assert reduced.parts[0].num_variables == 0


def test_elimination_declines_where_the_new_table_would_be_much_larger() -> None:
    rng = np.random.default_rng(7)
    b = ProblemBuilder("hub")
    b.add_variable("small", 2)
    for name in ("left", "right"):
        b.add_variable(name, 60)
        b.add_pairwise(name, "small", rng.random((60, 2)))
    for name in ("left", "right"):  # keep these two from being eliminated themselves
        for i in range(3):
            b.add_variable(f"{name} {i}", 2)
            b.add_pairwise(name, f"{name} {i}", rng.random((60, 2)))
    for i in range(3):
        b.add_pairwise(f"left {i}", f"left {(i + 1) % 3}", rng.random((2, 2)))
        b.add_pairwise(f"right {i}", f"right {(i + 1) % 3}", rng.random((2, 2)))
    problem = b.build()
    reduced = engine.reduce_problem(problem, ("eliminate",))
    assert "small" in reduced.parts[0].variable_names


def test_lazy_tables_are_not_priced() -> None:
    oracle = ArrayOracle(np.arange(12.0).reshape(3, 4))
    table = LazyTable(oracle)
    b = ProblemBuilder("lazy")
    b.add_variable("x", 3)
    b.add_variable("y", 4)
    b.add_variable("z", 3)
    b.add_variable("leaf", 2)
    b.add_pairwise("x", "y", table)
    b.add_pairwise("y", "leaf", np.arange(8.0).reshape(4, 2))
    b.tie("z", "x")
    b.forbid("x", [1])
    reduced = engine.reduce_problem(b.build(), ALL)
    assert table.calls == 0
    (part,) = reduced.parts
    assert part.num_variables == 2
    assert [kept.kind for kept in part.tables] == ["lazy"]
    assert solved(b.build(), ALL)[1] == brute_force(b.build()).objective


def test_parallel_and_reversed_edges_add_up() -> None:
    b = ProblemBuilder("parallel")
    for name in "xyz":
        b.add_variable(name, 3)
    costs = np.array([[0, 7, 3], [2, 0, 5], [4, 1, 0]])
    shared = b.add_table(costs)
    b.add_pairwise("x", "y", shared)
    b.add_pairwise("x", "y", shared, multiplicity=2)
    b.add_pairwise("y", "x", costs.T * 10)
    b.add_pairwise("y", "z", costs)
    b.add_pairwise("z", "x", costs)
    reduced, _ = solved(b.build(), ("merge-edges",))
    (part,) = reduced.parts
    assert part.num_edges == 3
    between = [e for e in range(3) if {int(part.edge_u[e]), int(part.edge_v[e])} == {0, 1}]
    (e,) = between
    dense = part.tables[int(part.edge_table[e])].to_dense() * part.edge_multiplicity[e]
    assert ((dense if part.edge_u[e] == 0 else dense.T) == 13 * costs).all()


def test_an_edge_that_is_a_sum_of_two_costs_is_folded() -> None:
    problem = pair([[1, 5, 3], [2, 6, 4]]).build()
    reduced, total = solved(problem, ("merge-edges",))
    assert reduced.parts[0].num_edges == 0
    assert total == 1


def test_components_come_apart_and_budgets_hold_them_together() -> None:
    b = ProblemBuilder("apart")
    for i in range(6):
        b.add_variable(f"v{i}", 2, [0, 1])
    b.add_pairwise(0, 1, [[3, 1], [1, 3]])
    b.add_pairwise(4, 5, [[3, 1], [1, 3]])
    b.add_budget("bytes", {1: [3, 1], 3: [3, 2]}, upper=5)
    rows = [(2, 0, 4, [3, 1]), (4, 3, 6, [3, 1]), (0, 8, 9, [5, 4]), (3, 8, 9, [2, 1])]
    b.add_interval_budget("memory", rows, limit=5)
    reduced, total = solved(b.build(), ("components",))
    assert [part.variable_names for part in reduced.parts] == [("v0", "v1", "v3"), ("v2", "v4", "v5")]
    assert total == brute_force(b.build()).objective


def test_sums_beyond_floats_are_not_combined() -> None:
    big = 2**53 + 1
    b = ProblemBuilder("big")
    b.add_variable("x", 2, [big, big + 2])
    b.add_variable("y", 2, [big, INF])
    b.add_pairwise("x", "y", [[big, 0], [0, big]])
    problem = b.build()
    reduced, total = solved(problem, ALL)
    assert total == brute_force(problem).objective == 2 * big + 2
    assert reduced.parts[0].num_labels.tolist() == [2, 1]
    assert reduced.bound_error == 0


def test_float_budgets_stay_equalities_when_constants_are_taken_off() -> None:
    b = ProblemBuilder("equality")
    b.add_variable("x", 3)
    b.add_variable("y", 2)
    b.add_variable("fixed", 1)
    b.add_budget("sum", {"x": [1, 7, 0], "y": [0, 7], "fixed": [-0.5]}, lower=6.5, upper=6.5)
    reduced, _ = solved(b.build(), ("single-labels",))
    (budget,) = reduced.parts[0].linear_budgets
    assert budget.lower == budget.upper == 7
    b = ProblemBuilder("large")
    b.add_variable("x", 2)
    b.add_variable("y", 2)
    b.add_variable("fixed", 1)
    b.add_budget("sum", {"x": [0, 3.5], "y": [0, 1.5], "fixed": [1e10]}, upper=1e10)
    problem = b.build()
    assert evaluate(problem, [1, 1, 0]).feasible  # within the slack that float budgets of this size have
    (part,) = engine.reduce_problem(problem, ("single-labels",)).parts
    assert evaluate(part, [1, 1]).feasible


@pytest.mark.parametrize("case", known_answers(), ids=lambda case: case.name)
def test_known_answers(case: KnownAnswer) -> None:
    reduced = engine.reduce_problem(case.problem, ALL)
    if not case.feasible:
        assert reduced.infeasibility is not None or not all(brute_force(part).feasible for part in reduced.parts)
        return
    _, total = solved(case.problem, ALL)
    assert total == pytest.approx(case.objective, abs=1e-12 + reduced.bound_error)
    if case.assignment is not None:
        assert reduced.project(np.array(case.assignment, dtype=np.int32)) is not None


def test_warm_up_compiles_every_kernel_once() -> None:
    from berthage_presolve import (
        kernels_consistency,
        kernels_dominance,
        kernels_elimination,
        kernels_joins,
    )

    presolve.warmup()
    for case in known_answers():
        engine.reduce_problem(case.problem, ALL)
    outer = {
        kernels_consistency: ("incidence", "propagate", "allowed_pairs", "has_infinite", "separate", "hash_maps"),
        kernels_dominance: ("dominated",),
        kernels_elimination: ("contract", "choose_eliminated"),
        kernels_joins: ("join",),
    }
    compiled = {name: len(vars(module)[name].signatures) for module, names in outer.items() for name in names}
    assert set(compiled.values()) == {1}, compiled
