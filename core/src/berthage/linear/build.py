"""From a placement problem to its array formulation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berthage.linear.budgets import linear_budget_rows
from berthage.linear.groups import Groups, group_labels
from berthage.linear.intervals import IntervalForm, interval_budget_rows
from berthage.linear.pairs import PairColumns, pair_columns
from berthage.linear.pool import PairTerms, pair_terms
from berthage.linear.program import LinearProgram
from berthage.linear.ragged import ragged, segment_min, starts_of
from berthage.linear.rows import Collector

if TYPE_CHECKING:
    from berthage.problem.model import PlacementProblem

__all__ = ["linear_program"]

Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)


def linear_program(
    problem: PlacementProblem, *, intervals: IntervalForm = "auto", cutoff: float | None = None
) -> LinearProgram:
    """Write a placement problem as a (mixed-integer) linear program in arrays.

    Every variable's allowed labels sum to 1; every pair of variables with a cost or relation has columns
    whose marginals equal the labels (the local polytope). Parallel edges are combined, separable parts folded
    into the labels, labels that a table treats alike share pair columns: each of these leaves the bound of
    the relaxation as it is.

    Args:
        problem: The problem; it is only read. Lazy tables are priced in full.
        intervals: How interval budgets are written: ``dense`` rows, ``running`` sums, or ``auto`` by size.
        cutoff: Only points with an objective of at most this count: adds the objective as a row.

    Returns:
        The program. `LinearProgram.decode` reads a solution back.
    """
    groups = group_labels(problem)
    terms = pair_terms(problem, groups)
    scale = _objective_scale(problem, terms)
    if scale != 1.0:
        terms = replace(terms, values=terms.values * scale)
    pairs = pair_columns(terms, groups)
    unary, magnitude = _unary_costs(problem, groups, scale)
    label_cost = unary + pairs.unary
    possible = np.isfinite(label_cost)
    low = segment_min(label_cost, groups.ptr, 0.0)
    low[~np.isfinite(low)] = 0.0
    sizes = groups.sizes
    shifted = np.where(possible, label_cost - np.repeat(low, sizes), 0.0)
    out = Collector()
    out.columns(shifted, 0.0, possible.astype(np.float64))
    pair_base = out.columns(pairs.cost, 0.0, 1.0)
    _simplex_rows(groups, out)
    _marginal_rows(groups, pairs, pair_base, out)
    budgets = len(problem.linear_budgets)
    for index, linear in enumerate(problem.linear_budgets):
        linear_budget_rows(problem, groups, index, linear, scale, out)
    for index, interval in enumerate(problem.interval_budgets):
        interval_budget_rows(problem, groups, budgets + index, interval, scale, intervals, out)
    constant = float(problem.constant) * scale
    offset = float(np.sum(low)) + constant
    cost, lower, upper = out.finish_columns()
    whole = not magnitude.any() and not pairs.magnitude.any() and not pairs.error
    whole &= constant.is_integer() and float(np.abs(low).sum()) + abs(constant) < 2.0**52
    cost_error = np.zeros(len(cost))
    offset_error = 0.0
    if not whole:
        cost_error[: len(shifted)] = (4.0 * _EPS) * (magnitude + pairs.magnitude + np.repeat(np.abs(low), sizes))
        cost_error += (8.0 * _EPS) * cost
        offset_error = pairs.error + 4.0 * _EPS * (float(np.abs(low).sum()) + abs(constant))
    if cutoff is not None:
        row = out.rows(-np.inf, cutoff * scale - offset + _slack(cutoff * scale, offset, offset_error, cost_error))
        priced = np.flatnonzero(cost)
        out.entries(row, priced, cost[priced])
    rows = out.finish_rows()
    label_columns, pair_count = len(shifted), len(pairs.cost)
    num_groups, num_pairs = len(sizes), len(pairs.first)
    block = np.full(len(cost), -1, dtype=np.int64)
    block[:label_columns] = np.repeat(np.arange(num_groups), sizes)
    block[pair_base : pair_base + pair_count] = num_groups + pairs.pair
    cell_ptr = starts_of(pairs.shape[:, 0] * pairs.shape[:, 1])
    cells = np.full(int(cell_ptr[-1]), -1, dtype=np.int64)
    width = pairs.shape[:, 1]
    cells[cell_ptr[pairs.pair] + pairs.row * width[pairs.pair] + pairs.col] = pair_base + np.arange(pair_count)
    integer = np.zeros(len(cost), dtype=bool)
    integer[:label_columns] = True
    return LinearProgram(
        cost=cost,
        lower=lower,
        upper=upper,
        integer=integer,
        row_ptr=rows.ptr,
        col_index=rows.index,
        value=rows.value,
        row_lower=rows.lower,
        row_upper=rows.upper,
        row_budget=rows.budget,
        offset=offset,
        scale=scale,
        cost_error=cost_error,
        offset_error=offset_error,
        col_of_label=groups.col_of_label,
        block=block,
        num_blocks=num_groups + num_pairs,
        label_ptr=np.asarray(problem.label_ptr, dtype=np.int64),
        group_of=groups.group_of,
        group_ptr=groups.ptr,
        sel_ptr=groups.sel_ptr,
        sel=groups.sel,
        pair_first=pairs.first,
        pair_second=pairs.second,
        pair_classes=pairs.label_class,
        pair_class_ptr=pairs.class_ptr,
        pair_width=width,
        pair_cell_ptr=cell_ptr,
        pair_cells=cells,
    )


def _slack(cutoff: float, offset: float, offset_error: float, cost_error: Floats) -> float:
    """How much a cutoff row is relaxed so that rounding excludes no assignment at the cutoff."""
    if not offset_error and not cost_error.any():
        return 0.0
    return offset_error + 64.0 * _EPS * (abs(cutoff) + abs(offset))


def _objective_scale(problem: PlacementProblem, terms: PairTerms) -> float:
    """A power of two that keeps every sum of costs far from overflow; 1.0 for all but extreme costs."""
    with np.errstate(over="ignore"):
        top = abs(float(problem.constant))
        for values, weights in (
            (problem.unary, np.asarray(problem.multiplicity)),
            (terms.values, terms.weight),
        ):
            size = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
            top = max(top, size * float(weights.max(initial=1)))
    return 1.0 if top < 1e280 else 2.0**-120


def _unary_costs(problem: PlacementProblem, groups: Groups, scale: float) -> tuple[Floats, Floats]:
    """Unary cost of every label column (summed over tied variables), and what its rounding is relative to."""
    held = np.flatnonzero(groups.col_of_label >= 0)
    per_label = np.repeat(np.asarray(problem.multiplicity, dtype=np.float64), np.asarray(problem.num_labels))
    cost: Floats = problem.unary[held] * scale * per_label[held]
    column, count = groups.col_of_label[held], int(groups.ptr[-1])
    total: Floats = np.bincount(column, weights=cost, minlength=count).astype(np.float64)
    if np.array_equal(cost, np.rint(cost)) and float(np.abs(cost).sum()) < 2.0**52:
        return total, np.zeros(count)
    size: Floats = np.bincount(column, weights=np.abs(cost), minlength=count).astype(np.float64)
    return total, size


def _simplex_rows(groups: Groups, out: Collector) -> None:
    """The label columns of a group sum to 1."""
    count = len(groups.root)
    row = out.rows(np.ones(count), np.ones(count))
    column = np.arange(int(groups.ptr[-1]))
    out.entries(row + np.repeat(np.arange(count), groups.sizes), column, 1.0)


def _marginal_rows(groups: Groups, pairs: PairColumns, base: int, out: Collector) -> None:
    """The pair columns of a class sum to the label columns of that class, on either side."""
    count = pairs.shape.sum(axis=1)
    start = starts_of(count)
    row = out.rows(np.zeros(int(start[-1])), np.zeros(int(start[-1])))
    column = base + np.arange(len(pairs.cost))
    out.entries(row + start[pairs.pair] + pairs.row, column, 1.0)
    out.entries(row + start[pairs.pair] + pairs.shape[pairs.pair, 0] + pairs.col, column, 1.0)
    sizes = groups.sizes
    first, second = sizes[pairs.first], sizes[pairs.second]
    for group, length, at, shift in (
        (pairs.first, first, pairs.class_ptr[:-1], np.zeros_like(first)),
        (pairs.second, second, pairs.class_ptr[:-1] + first, pairs.shape[:, 0]),
    ):
        label, owner = ragged(groups.ptr[group], length)
        place, _ = ragged(at, length)
        classes = pairs.label_class[place]
        live = classes >= 0
        out.entries(row + start[owner[live]] + shift[owner[live]] + classes[live], label[live], -1.0)
