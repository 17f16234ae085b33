"""`PlacementProblem`: reading, sizes, names, and derivations that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from berthage import (
    ClassedTable,
    DenseTable,
    InvalidProblemError,
    LazyTable,
    PlacementProblem,
    ProblemBuilder,
    evaluate,
)
from berthage.testing import ArrayOracle


def layered() -> PlacementProblem:
    b = ProblemBuilder("layered")
    b.add_variable("weight", ["R", "S(0)", "S(1)"], [1, math.inf, 3], coordinates=[[0, 0], [1, 0], [0, 1]])
    b.add_variable("input", ["R", "S(0)"], [4, 5], multiplicity=2)
    b.add_variable("output", 2)
    b.add_variable("alone", 1, [9])
    b.add_pairwise("weight", "input", ClassedTable(DenseTable([[1, 2], [3, 4]]), [0, 0, 1], [0, 1]))
    b.add_pairwise("output", "input", LazyTable(ArrayOracle(np.ones((2, 2)))), name="feeds")
    b.tie("input", "output", [0, 1], name="follow")
    b.add_budget("memory", {"weight": [4, 2, 2], "output": [0, 1]}, upper=5)
    b.add_interval_budget("peak", [("weight", 0, 9, [4, 2, 2]), ("input", 2, 3, [1, 1])], limit=5, price=2)
    return b.build()


def test_reading() -> None:
    p = layered()
    assert (p.num_variables, p.num_edges) == (4, 2)
    assert p.num_labels.tolist() == [3, 2, 2, 1]
    assert p.label_ptr.tolist() == [0, 3, 5, 7, 8]
    assert p.unary_of(1).tolist() == [4, 5]
    assert p.label_name(0, 2) == "S(1)"
    assert p.label_name(2, 1) == "1"
    assert p.edge_name(0) == "weight -- input"
    assert p.edge_name(1) == "feeds"
    assert p.constraint_names == ("follow", "memory", "peak")
    assert p.has_budgets
    assert p.has_relations
    assert p.is_integral
    assert "layered" in repr(p)
    with pytest.raises(InvalidProblemError, match="'wieght'"):
        p.variable_index("wieght")


def test_statistics() -> None:
    stats = layered().stats()
    assert stats.as_dict() == {
        "variables": 4,
        "labels": 8,
        "max_labels": 3,
        "edges": 2,
        "tables": 2,
        "cells": 10,
        "stored_cells": 4,
        "classed_tables": 1,
        "lazy_tables": 1,
        "relations": 1,
        "linear_budgets": 1,
        "interval_budgets": 1,
        "forbidden_labels": 1,
        "components": 2,
        "integral": True,
    }
    empty = ProblemBuilder().build().stats()
    assert (empty.variables, empty.labels, empty.max_labels, empty.components) == (0, 0, 0, 0)


def test_restricted_labels_keep_their_names_and_coordinates() -> None:
    derived = layered().restrict({"weight": [2, 0], "output": [1]})
    problem = derived.problem
    assert [problem.label_name(0, i) for i in range(2)] == ["R", "S(1)"]
    coordinates = problem.labels(0).coordinates
    assert coordinates is not None
    assert coordinates.tolist() == [[0, 0], [0, 1]]
    assert problem.label_name(2, 0) == "1"
    assert problem.tables[0].kind == "classed"
    assert derived.lift([1, 1, 0, 0]).tolist() == [2, 1, 1, 0]
    assert derived.project([1, 0, 1, 0]) is None
    assert evaluate(problem, [1, 1, 0, 0]).objective == evaluate(layered(), [2, 1, 1, 0]).objective


def test_projecting_reorders_and_keeps_what_lies_inside() -> None:
    part = layered().project(["output", "input"]).problem
    assert part.variable_names == ("output", "input")
    assert part.num_edges == 1
    assert part.constraint_names == ("follow", "memory", "peak")
    assert evaluate(part, [0, 0]).objective == 8 + 1
    assert not evaluate(part, [0, 1]).feasible
    assert layered().project([]).problem.num_variables == 0


@pytest.mark.parametrize(
    ("derive", "message"),
    [
        (lambda p: p.restrict({"weight": []}), "'weight'.*no label"),
        (lambda p: p.restrict({"wieght": [0]}), "'wieght'"),
        (lambda p: p.restrict({9: [0]}), "variable 9"),
        (lambda p: p.restrict({"weight": [3]}), "3"),
        (lambda p: p.restrict(np.ones(3, dtype=bool)), "mask"),
        (lambda p: p.project([0, 0]), "twice"),
        (lambda p: p.project([4]), "variable 4"),
        (lambda p: p.project(["nope"]), "'nope'"),
        (lambda p: p.without("memroy"), "'memory'"),
    ],
)
def test_derivations_that_make_no_sense_are_refused(derive: Callable[[PlacementProblem], object], message: str) -> None:
    with pytest.raises(InvalidProblemError, match=message):
        derive(layered())


def test_problems_are_values() -> None:
    first, second = layered(), layered()
    assert first == second
    assert {first: "x"}[second] == "x"
    assert first != "layered"
    assert first != first.without("follow").problem
    with pytest.raises(AttributeError):
        first.name = "other"  # type: ignore[misc]


def test_budgets_forgive_rounding_of_floats_relative_to_their_limit() -> None:
    b = ProblemBuilder()
    b.add_variable("a", 1)
    for name, weight, lower, upper in (
        ("whole", 5, 0, 1e6),
        ("wide", 0.5, 2, 1e6),
        ("small", 0.5, -math.inf, 0.25),
        ("below", 0.5, 4.0, math.inf),
        ("none", 0.5, -math.inf, math.inf),
    ):
        b.add_budget(name, {"a": [weight]}, lower=lower, upper=upper)
    b.add_interval_budget("peak", [("a", 0, 1, [0.5])], limit=20)
    problem = b.build()
    slacks = {budget.name: budget.slack for budget in (*problem.linear_budgets, *problem.interval_budgets)}
    assert slacks == pytest.approx({"whole": 0, "wide": 1e-3, "small": 1e-9, "below": 4e-9, "none": 1e-9, "peak": 2e-8})
