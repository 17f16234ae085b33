"""The array formulation: exact on every assignment, and as lean as it claims."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from berthage import ClassedTable, DenseTable, LazyTable, PlacementProblem, ProblemBuilder, evaluate
from berthage.linear import LinearProgram, linear_program
from berthage.testing import ArrayOracle


def random_problem(seed: int) -> PlacementProblem:
    """Up to five variables with everything a problem can hold."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    sizes = [int(rng.integers(1, 5)) for _ in range(n)]
    whole = rng.random() < 0.5

    def costs(*shape: int) -> NDArray[np.float64]:
        drawn = rng.integers(-5, 6, shape).astype(float) if whole else rng.normal(size=shape)
        if rng.random() < 0.3:
            drawn[rng.random(shape) < 0.15] = np.inf
        return drawn

    b = ProblemBuilder(f"random {seed}")
    b.add_constant(7)
    for v in range(n):
        b.add_variable(f"v{v}", sizes[v], costs(sizes[v]), multiplicity=int(rng.integers(1, 4)))
    for _ in range(int(rng.integers(0, 8)) if n > 1 else 0):
        u, v = map(int, rng.choice(n, 2, replace=False))
        table: object = costs(sizes[u], sizes[v])
        kind = rng.integers(0, 4)
        if kind == 0:
            table = np.add.outer(costs(sizes[u]), costs(sizes[v]))
        elif kind == 1:
            classes = rng.integers(0, 2, sizes[u]), rng.integers(0, 3, sizes[v])
            table = ClassedTable(DenseTable(costs(2, 3)), *classes)
        b.add_pairwise(u, v, table, multiplicity=int(rng.integers(1, 3)))  # type: ignore[arg-type]
    for _ in range(int(rng.integers(0, 3)) if n > 1 else 0):
        u, v = map(int, rng.choice(n, 2, replace=False))
        kind = rng.integers(0, 3)
        if kind == 0:
            b.allow_pairs(u, v, rng.random((sizes[u], sizes[v])) < 0.8)
        elif kind == 1:
            b.tie(u, v, rng.integers(-1, sizes[v], sizes[u]))
        elif sizes[u] == sizes[v]:
            b.tie(u, v, rng.permutation(sizes[u]))
    if rng.random() < 0.4:
        price = None if rng.random() < 0.5 else 2
        weights = {v: rng.integers(-5, 9, sizes[v]) * 1000003 for v in range(n)}
        b.add_budget("bytes", weights, lower=-4 * 1000003, upper=n * 3 * 1000003, price=price)
    if rng.random() < 0.5:
        items = []
        for v in range(n):
            start = int(rng.integers(0, 6))
            use = rng.integers(0, 9, sizes[v]) if rng.random() < 0.7 else rng.random(sizes[v]) * 9
            items.append((v, start, start + int(rng.integers(0, 4)), use))
        price = None if rng.random() < 0.5 else 3
        b.add_interval_budget("memory", items, limit=int(rng.integers(4, 14)), price=price)
    return b.build()


def assignments(problem: PlacementProblem) -> list[NDArray[np.int32]]:
    ranges = [range(int(k)) for k in problem.num_labels]
    return [np.array(labels, dtype=np.int32) for labels in itertools.product(*ranges)]


def satisfied(program: LinearProgram, x: NDArray[np.float64]) -> bool:
    activity = program.activity(x)
    rows = bool((activity <= program.row_upper + 1e-7).all() and (activity >= program.row_lower - 1e-7).all())
    return rows and bool((x <= program.upper + 1e-9).all() and (x >= program.lower - 1e-9).all())


@pytest.mark.parametrize("form", ["dense", "running"])
@pytest.mark.parametrize("block", range(4))
def test_every_assignment_is_a_point_exactly_when_it_is_feasible(form: str, block: int) -> None:
    checked = 0
    for seed in range(40 * block, 40 * block + 40):
        problem = random_problem(seed)
        program = linear_program(problem, intervals=form)  # type: ignore[arg-type]
        for labels in assignments(problem):
            evaluation = evaluate(problem, labels)
            x = program.encode(labels)
            assert (x is not None and satisfied(program, x)) == evaluation.feasible, (seed, labels)
            if x is not None and evaluation.feasible:
                assert program.objective(x) == pytest.approx(float(evaluation.objective), abs=1e-8)
                assert np.array_equal(program.decode(x).assignment, labels)
                held = program.block >= 0
                sums = np.bincount(program.block[held], weights=x[held], minlength=program.num_blocks)
                assert (sums == 1.0).all()
                checked += 1
    assert checked > 100


def pair_columns(program: LinearProgram) -> int:
    return int((program.block >= len(program.group_ptr) - 1).sum())


def two_variables(table: object, size: int = 4) -> LinearProgram:
    b = ProblemBuilder()
    b.add_variable("a", size, np.arange(size))
    b.add_variable("b", size)
    b.add_pairwise("a", "b", table)  # type: ignore[arg-type]
    return linear_program(b.build())


def test_a_separable_table_needs_no_pair_columns() -> None:
    program = two_variables(np.add.outer([3.5, -1.25, 0.1, 7.0], [0.3, 0.7, -2.9, 1e-3]))
    assert pair_columns(program) == 0
    assert program.num_rows == 2


def test_labels_a_table_treats_alike_share_pair_columns() -> None:
    dense = np.array([[0, 5, 5, 9], [0, 5, 5, 9], [4, 1, 1, 0], [4, 1, 1, 0]])
    assert pair_columns(two_variables(dense)) == 2 * 3


def test_rows_that_differ_by_a_constant_are_alike() -> None:
    base = np.array([[0, 5, 1, 9], [3, 0, 2, 0]])
    table = np.stack([base[0], base[0] + 100, base[1], base[1] - 7])
    assert pair_columns(two_variables(table)) == 2 * 4


def test_classed_tables_cost_classes_not_labels() -> None:
    rng = np.random.default_rng(1)
    rows, cols = rng.integers(0, 3, 40), rng.integers(0, 4, 40)
    table = ClassedTable(DenseTable(rng.random((3, 4))), rows, cols)
    assert pair_columns(two_variables(table, 40)) <= 3 * 4


def test_parallel_and_reversed_edges_become_one_pair() -> None:
    rng = np.random.default_rng(2)
    one, two = rng.random((3, 3)), rng.random((3, 3))
    b = ProblemBuilder()
    b.add_variable("a", 3)
    b.add_variable("b", 3)
    b.add_pairwise("a", "b", one, multiplicity=2)
    b.add_pairwise("b", "a", two)
    program = linear_program(b.build())
    assert pair_columns(program) == 9
    for i, j in itertools.product(range(3), repeat=2):
        x = program.encode(np.array([i, j], dtype=np.int32))
        assert x is not None
        assert program.objective(x) == pytest.approx(2 * one[i, j] + two[j, i])


def test_a_neighbour_with_one_allowed_label_folds_into_the_labels() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3)
    b.add_variable("b", 2, [0, np.inf])
    b.add_pairwise("a", "b", [[4, 0], [2, 0], [np.inf, 0]])
    program = linear_program(b.build())
    assert pair_columns(program) == 0
    assert program.upper.tolist()[:3] == [1, 1, 0]
    assert program.cost.tolist()[:2] == [2, 0]
    assert program.offset == 2


def test_forbidden_labels_and_pairs_have_no_column() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3, [1, np.inf, 2])
    b.add_variable("b", 2)
    b.add_pairwise("a", "b", [[0, np.inf], [7, 7], [1, 0]])
    program = linear_program(b.build())
    assert program.col_of_label.tolist() == [0, -1, 1, 2, 3]
    assert pair_columns(program) == 3


def test_one_to_one_ties_share_columns() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3, [1, 2, 4])
    b.add_variable("b", 3, [10, 20, 40])
    b.tie("a", "b", [2, 0, 1])
    program = linear_program(b.build())
    assert program.num_cols == 3
    assert program.col_of_label.tolist() == [0, 1, 2, 1, 2, 0]
    assert (program.cost + program.offset).tolist() == [41, 12, 24]


def test_a_cycle_of_ties_that_contradicts_itself_leaves_no_label() -> None:
    b = ProblemBuilder()
    for name in "abc":
        b.add_variable(name, 2)
    b.tie("a", "b", [0, 1])
    b.tie("b", "c", [0, 1])
    b.tie("c", "a", [1, 0])
    assert linear_program(b.build()).impossible


def test_lazy_tables_are_priced_once() -> None:
    values = np.random.default_rng(3).random((3, 4))
    b = ProblemBuilder()
    b.add_variable("a", 3)
    b.add_variable("b", 4)
    b.add_pairwise("a", "b", LazyTable(ArrayOracle(values)))
    program = linear_program(b.build())
    x = program.encode(np.array([2, 1], dtype=np.int32))
    assert x is not None
    assert program.objective(x) == pytest.approx(values[2, 1])


def test_the_cutoff_is_a_row() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 3, [1, 5, 9])
    program = linear_program(b.build(), cutoff=5)
    kept = [satisfied(program, np.eye(3)[i]) for i in range(3)]
    assert kept == [True, True, False]


def test_an_empty_problem_has_nothing() -> None:
    program = linear_program(ProblemBuilder().build())
    assert (program.num_cols, program.num_rows) == (0, 0)
    assert program.decode(np.zeros(0)).assignment.tolist() == []


def test_columns_agree_with_rows() -> None:
    program = linear_program(random_problem(5))
    col_ptr, row_index, value = program.to_csc()
    dense = np.zeros((program.num_rows, program.num_cols))
    owner = np.repeat(np.arange(program.num_cols), np.diff(col_ptr))
    dense[row_index, owner] = value
    x = np.random.default_rng(0).random(program.num_cols)
    assert np.allclose(dense @ x, program.activity(x))
