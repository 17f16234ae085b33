"""Changes to a linear program keep what they must keep."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from berthage import PlacementProblem, ProblemBuilder, evaluate
from berthage.linear import LinearProgram, linear_program
from berthage_ilp.cuts import cuts_against
from berthage_ilp.program import Cut, coarse_budgets, compress, drop_useless, with_cuts


def problem(upper: float = 10.0, lower: float = -np.inf, scale: int = 1) -> PlacementProblem:
    builder = ProblemBuilder("three")
    for name in "abc":
        builder.add_variable(name, 3, [3, 1, 0])
    builder.add_pairwise("a", "b", [[0, 2, 4], [2, 0, 2], [4, 2, 0]])
    builder.add_budget("room", {v: [1 * scale, 4 * scale, 7 * scale] for v in "abc"}, upper=upper, lower=lower)
    return builder.build()


def assignments(instance: PlacementProblem) -> list[NDArray[np.int32]]:
    sizes = instance.num_labels.tolist()
    return [np.array(x, dtype=np.int32) for x in itertools.product(*(range(k) for k in sizes))]


def holds(program: LinearProgram, x: NDArray[np.float64]) -> bool:
    activity = program.activity(x)
    rows = (activity >= program.row_lower - 1e-6) & (activity <= program.row_upper + 1e-6)
    columns = (x >= program.lower - 1e-9) & (x <= program.upper + 1e-9)
    return bool(rows.all() and columns.all())


def test_cuts_become_rows() -> None:
    program = with_cuts(linear_program(problem()), [Cut(np.array([0, 3, 3]), 1.0)])
    row = slice(int(program.row_ptr[-2]), int(program.row_ptr[-1]))
    assert program.col_index[row].tolist() == [0, 3]
    assert program.value[row].tolist() == [1.0, 2.0]
    assert (program.row_lower[-1], program.row_upper[-1]) == (-np.inf, 1.0)
    assert with_cuts(program, []) is program


def test_useless_labels_are_dropped_and_feasible_assignments_kept() -> None:
    instance = problem(upper=6)
    program = linear_program(instance)
    smaller = drop_useless(program)
    assert (smaller.upper < program.upper).sum() == 3  # 7 does not fit anywhere
    for x in assignments(instance):
        column = program.encode(x)
        assert column is not None
        if evaluate(instance, x).feasible:
            assert holds(smaller, column)


def test_compressing_there_and_back() -> None:
    instance = problem(upper=6)
    small = compress(drop_useless(linear_program(instance)))
    assert small.program.num_cols < small.columns
    assert not small.impossible
    x = np.array([0, 0, 0], dtype=np.int32)
    column = linear_program(instance).encode(x)
    assert column is not None
    assert holds(small.program, column[small.kept])
    assert np.array_equal(small.expand(column[small.kept]), column)


def test_compressing_notices_a_row_that_cannot_hold() -> None:
    program = with_cuts(linear_program(problem()), [Cut(np.array([0]), -1.0)])
    program.upper.flags.writeable = True
    program.upper[0] = 0.0
    assert compress(program).impossible


@pytest.mark.parametrize("window", [(-np.inf, 9_876_543_210), (5_333_333_333, np.inf), (5_000_000_001, 9_000_000_001)])
def test_coarse_budgets_only_relax(window: tuple[float, float]) -> None:
    instance = problem(lower=window[0], upper=window[1], scale=1_234_567_891)
    program = linear_program(instance)
    coarse = coarse_budgets(program)
    rows = coarse.row_budget >= 0
    whole = coarse.value[np.repeat(rows, np.diff(coarse.row_ptr))]
    assert np.array_equal(whole, np.rint(whole))
    assert whole.max() <= 2**17
    refused = 0
    for x in assignments(instance):
        column = program.encode(x)
        assert column is not None
        if evaluate(instance, x).feasible:
            assert holds(coarse, column)
        else:
            refused += not holds(coarse, column)
    assert refused > 0


def test_whole_budget_rows_stay_as_they_are() -> None:
    program = linear_program(problem())
    assert coarse_budgets(program) is program


@pytest.mark.parametrize("window", [(-np.inf, 9), (14, np.inf), (9, 12)])
def test_cover_cuts_refuse_the_assignment_and_no_feasible_one(window: tuple[float, float]) -> None:
    instance = problem(lower=window[0], upper=window[1])
    program = linear_program(instance)
    everything = assignments(instance)
    feasible = [x for x in everything if evaluate(instance, x).feasible]
    for x in everything:
        cuts = cuts_against(instance, program, x)
        if evaluate(instance, x).feasible:
            assert cuts == []
            continue
        cut_down = with_cuts(program, cuts)
        column = program.encode(x)
        assert column is not None
        assert not holds(cut_down, column)
        for other in feasible:
            kept = program.encode(other)
            assert kept is not None
            assert holds(cut_down, kept)


def test_cover_cuts_of_an_interval_budget() -> None:
    builder = ProblemBuilder("times")
    for name in "abc":
        builder.add_variable(name, 2)
    rows = [("a", 0, 2, [1, 5]), ("a", 3, 4, [1, 9]), ("b", 1, 4, [2, 6]), ("c", 3, 5, [0, 4])]
    builder.add_interval_budget("memory", rows, limit=12)
    instance = builder.build()
    program = linear_program(instance)
    feasible = [x for x in assignments(instance) if evaluate(instance, x).feasible]
    for x in assignments(instance):
        for cut in cuts_against(instance, program, x):
            for other in feasible:
                kept = program.encode(other)
                assert kept is not None
                assert kept[cut.columns].sum() <= cut.limit


def test_an_assignment_without_a_broken_budget_is_cut_alone() -> None:
    builder = ProblemBuilder("pair")
    builder.add_variable("a", 2)
    builder.add_variable("b", 2)
    builder.add_pairwise("a", "b", [[np.inf, 1], [2, 3]])
    instance = builder.build()
    (cut,) = cuts_against(instance, linear_program(instance), np.array([0, 0], dtype=np.int32))
    assert (len(cut.columns), cut.limit) == (2, 1.0)
