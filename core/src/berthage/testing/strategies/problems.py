"""Strategies for whole problems."""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import StrEnum
from typing import Any

import numpy as np
from hypothesis import strategies as st

from berthage import ClassedTable, CostTable, DenseTable, LazyTable, PlacementProblem, ProblemBuilder
from berthage.testing.lazy import ArrayOracle
from berthage.testing.strategies import budgets as _budgets
from berthage.testing.strategies import relations as _relations
from berthage.testing.strategies.costs import Costs, cost_values

__all__ = ["ALL_FEATURES", "Feature", "assignments", "infeasible_problems", "problems", "trees"]


class Feature(StrEnum):
    """What may occur in a drawn problem."""

    INFINITIES = "infinities"
    """Forbidden labels and pairs, as infinite costs."""
    RELATIONS = "relations"
    """Hard relations: forbidden labels and pairs, fixed labels, ties (direct or through a map)."""
    LINEAR_BUDGETS = "linear-budgets"
    """Hard linear budgets, one- or two-sided."""
    INTERVAL_BUDGETS = "interval-budgets"
    """Hard interval budgets, touching and empty intervals included."""
    SOFT_BUDGETS = "soft-budgets"
    """Soft budgets of whichever kinds are allowed."""
    CLASSED_TABLES = "classed-tables"
    """Tables over classes of labels."""
    LAZY_TABLES = "lazy-tables"
    """Tables priced on demand."""
    MULTIPLICITIES = "multiplicities"
    """Variables and edges that count several times."""
    PARALLEL_EDGES = "parallel-edges"
    """Parallel, reversed and self edges."""
    NAMES = "names"
    """Awkward names (signs, brackets, spaces, arrows) and coordinates."""


ALL_FEATURES: frozenset[Feature] = frozenset(Feature)
_ALL_COSTS: tuple[Costs, ...] = tuple(Costs)
_NAMES = ("a+1", "a-1", "a 1", "a[1]", "a->1", "a/1", "λ", "x0", "x_0", "-", "1", "a,1", "a=1")
_LABELS = ("S(0)", "S(1)", "R", "P(sum)", "S(0)R", "+", "-", "0")


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    features: Collection[Feature] = ALL_FEATURES,
    costs: Collection[Costs] = _ALL_COSTS,
    min_variables: int = 0,
    max_variables: int = 6,
    max_labels: int = 4,
    max_states: int = 2000,
) -> PlacementProblem:
    """Problems with at most ``max_states`` joint assignments; feasible or not.

    Args:
        draw: supplied by Hypothesis.
        features: what may occur; each occurs in some of the problems only.
        costs: kinds of numbers to choose from.
        min_variables: least number of variables; 0 includes the empty problem.
        max_variables: greatest number of variables.
        max_labels: greatest number of labels of a variable; single-label variables occur.
        max_states: greatest number of joint assignments.
    """
    kind = draw(st.sampled_from(sorted(costs)))
    allowed = [feature for feature in Feature if feature in features]
    coins = draw(st.lists(st.booleans(), min_size=len(allowed), max_size=len(allowed)))
    chosen = {feature for feature, heads in zip(allowed, coins, strict=True) if heads}
    builder = ProblemBuilder(name="drawn")
    # Sampled, not drawn as an integer: Hypothesis likes the least integer, and the empty problem is soon known.
    most = max(max_variables, min_variables)
    count = draw(st.sampled_from([min_variables, *(2 * list(range(min_variables + 1, most + 1)))]))
    sizes = _add_variables(draw, builder, count, kind, chosen, max_labels, max_states)
    if count:
        self_edges = Feature.PARALLEL_EDGES in chosen
        for u, v in draw(_edges(count, parallel=self_edges)):
            _add_edge(draw, builder, u, v, sizes, kind, chosen)
        if Feature.RELATIONS in chosen:
            _relations.add_relations(draw, builder, sizes)
        _budgets.add_budgets(
            draw,
            builder,
            sizes,
            kind,
            linear=Feature.LINEAR_BUDGETS in chosen,
            interval=Feature.INTERVAL_BUDGETS in chosen,
            soft=Feature.SOFT_BUDGETS in chosen,
        )
    builder.add_constant(draw(st.sampled_from([0, 0, 7, -3])))
    return builder.build()


@st.composite
def trees(
    draw: st.DrawFn,
    *,
    costs: Collection[Costs] = (Costs.INTEGER, Costs.EIGHTHS),
    max_variables: int = 7,
    max_labels: int = 3,
) -> PlacementProblem:
    """Connected acyclic problems without constraints: the local-polytope relaxation of these is integral."""
    kind = draw(st.sampled_from(sorted(costs)))
    builder = ProblemBuilder(name="tree")
    count = draw(st.integers(1, max_variables))
    sizes = _add_variables(draw, builder, count, kind, set(), max_labels, max_labels**max_variables)
    for v in range(1, count):
        parent = draw(st.integers(0, v - 1))
        ends = (parent, v) if draw(st.booleans()) else (v, parent)
        builder.add_pairwise(*ends, draw(_matrices(kind, sizes[ends[0]], sizes[ends[1]], False)))
    return builder.build()


@st.composite
def infeasible_problems(draw: st.DrawFn, *, features: Collection[Feature] = ALL_FEATURES) -> PlacementProblem:
    """Problems that no assignment satisfies, by a contradiction planted in any of several ways."""
    ways = ["labels", "table"]
    if Feature.RELATIONS in features:
        ways += ["fixed", "ties"]
    if Feature.LINEAR_BUDGETS in features:
        ways += ["linear", "equality"]
    if Feature.INTERVAL_BUDGETS in features:
        ways += ["interval"]
    builder = ProblemBuilder(name="infeasible")
    sizes = _add_variables(draw, builder, draw(st.integers(2, 4)), Costs.INTEGER, set(), 3, 200)
    for u, v in draw(_edges(len(sizes), parallel=False)):
        _add_edge(draw, builder, u, v, sizes, Costs.INTEGER, set())
    rows, cols = sizes[0], sizes[1]
    match draw(st.sampled_from(ways)):
        case "labels":
            builder.add_unary(0, [math.inf] * rows)
        case "table":
            builder.add_pairwise(0, 1, np.full((rows, cols), math.inf))
        case "fixed":
            builder.fix(0, 0, name="first")
            builder.forbid(0, [0], name="second")
        case "ties":
            builder.tie(0, 1, dict.fromkeys(range(rows), 0), name="tie")
            builder.forbid(1, [0], name="not zero")
        case "linear":
            builder.add_budget("memory", {0: [3] * rows, 1: [4] * cols}, upper=6)
        case "equality":
            builder.add_budget("even", {0: [2] * rows, 1: [4] * cols}, lower=5, upper=5)
        case _:
            lives = [(0, 0, 2, [3] * rows), (1, 1, 3, [4] * cols)]
            builder.add_interval_budget("memory over time", lives, limit=6)
    return builder.build()


def assignments(problem: PlacementProblem) -> st.SearchStrategy[list[int]]:
    """Label indices, one per variable; feasible or not."""
    return st.tuples(*(st.integers(0, int(k) - 1) for k in problem.num_labels)).map(list)


def _add_variables(
    draw: st.DrawFn,
    builder: ProblemBuilder,
    count: int,
    kind: Costs,
    chosen: Collection[Feature],
    max_labels: int,
    max_states: int,
) -> list[int]:
    named = Feature.NAMES in chosen
    names = list(draw(st.permutations(_NAMES)))[:count] if named and count <= len(_NAMES) else []
    sizes: list[int] = []
    for v in range(count):
        room = max(1, min(max_labels, max_states // math.prod(sizes)))
        size = draw(st.integers(1, room))
        sizes.append(size)
        labels: Any = size
        coordinates = None
        if named and size <= len(_LABELS) and draw(st.booleans()):
            labels = list(draw(st.permutations(_LABELS)))[:size]
            coordinates = np.arange(2 * size, dtype=np.int32).reshape(size, 2)
        many = draw(st.sampled_from([1, 2, 3, 32])) if Feature.MULTIPLICITIES in chosen else 1
        cost = draw(cost_values(kind, size, infinities=Feature.INFINITIES in chosen))
        name = names[v] if names else f"v{v}"
        builder.add_variable(name, labels, cost, coordinates=coordinates, multiplicity=many)
    return sizes


@st.composite
def _edges(draw: st.DrawFn, count: int, *, parallel: bool) -> list[tuple[int, int]]:
    """About half of all pairs, either way round; with ``parallel`` some again, reversed or as self edges."""
    pairs = [(u, v) for u in range(count) for v in range(u + 1, count)]
    marks = draw(st.lists(st.integers(0, 7), min_size=len(pairs), max_size=len(pairs)))
    edges = [pair if mark < 7 else pair[::-1] for pair, mark in zip(pairs, marks, strict=True) if mark > 3]
    if parallel:
        ends = st.integers(0, count - 1)
        edges += draw(st.lists(st.tuples(ends, ends), max_size=4))
    return edges


def _matrices(kind: Costs, rows: int, cols: int, infinities: bool) -> st.SearchStrategy[list[list[Any]]]:
    return cost_values(kind, rows * cols, infinities=infinities).map(
        lambda flat: [flat[r * cols : (r + 1) * cols] for r in range(rows)]
    )


def _add_edge(
    draw: st.DrawFn,
    builder: ProblemBuilder,
    u: int,
    v: int,
    sizes: list[int],
    kind: Costs,
    chosen: Collection[Feature],
) -> None:
    many = draw(st.sampled_from([1, 2, 31])) if Feature.MULTIPLICITIES in chosen else 1
    table = draw(_tables(kind, sizes[u], sizes[v], chosen))
    builder.add_pairwise(u, v, table, multiplicity=many)


@st.composite
def _tables(draw: st.DrawFn, kind: Costs, rows: int, cols: int, chosen: Collection[Feature]) -> CostTable:
    infinities = Feature.INFINITIES in chosen
    kinds = ["dense"]
    if Feature.CLASSED_TABLES in chosen:
        kinds.append("classed")
    # A lazy oracle prices in float64, which has no room for big integers.
    if Feature.LAZY_TABLES in chosen and kind is not Costs.BIG:
        kinds.append("lazy")
    match draw(st.sampled_from(kinds)):
        case "classed":
            shape = draw(st.tuples(st.integers(1, rows), st.integers(1, cols)))
            inner = draw(_tables(kind, *shape, set(chosen) - {Feature.CLASSED_TABLES}))
            row_class = draw(st.lists(st.integers(0, shape[0] - 1), min_size=rows, max_size=rows))
            col_class = draw(st.lists(st.integers(0, shape[1] - 1), min_size=cols, max_size=cols))
            return ClassedTable(inner, row_class, col_class)
        case "lazy":
            slack = draw(st.sampled_from([0.0, 1.0, 5.0]))
            return LazyTable(ArrayOracle(draw(_matrices(kind, rows, cols, infinities)), slack))
        case _:
            return DenseTable(draw(_matrices(kind, rows, cols, infinities)))
