"""Rule ``budget-pins``, and the upkeep of budgets: what cannot bind is dropped, what is fixed is taken off."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from berthage import Infeasibility
from berthage_presolve.kernels_consistency import critical_segments
from berthage_presolve.outcome import Contradiction, Outcome
from berthage_presolve.state import EPSILON, Array, BoolArray, Fixed, Work, spans
from berthage_presolve.transform import combine_rows, keep_labels, take_rows


@dataclass(frozen=True, slots=True)
class Timeline:
    """Use of one interval budget between the instants at which it may change.

    Attributes:
        instants: int64[s+1], sorted; segment i lasts from ``instants[i]`` to ``instants[i + 1]``.
        first: int64[r], first segment of each row.
        last: int64[r], segment after the last one.
        least: float64[s], least use of each segment.
        most: float64[s], greatest use.
        fixed: float64[s], decided use.
    """

    instants: Array
    first: Array
    last: Array
    least: Array
    most: Array
    fixed: Array


def row_extremes(work: Work) -> tuple[Array, Array]:
    """Least and greatest weight of every row."""
    rows = work.rows
    if not len(rows.at):
        return np.zeros(0), np.zeros(0)
    return np.minimum.reduceat(rows.weights, rows.at), np.maximum.reduceat(rows.weights, rows.at)


def timeline(work: Work, rows: Array, fixed: Array, low: Array, high: Array) -> Timeline:
    """The use over time of one budget, given its rows, its fixed rows, and the extremes of the rows."""
    starts = np.concatenate([work.rows.start[rows], work.fixed.start[fixed]])
    stops = np.concatenate([work.rows.stop[rows], work.fixed.stop[fixed]])
    instants, where = np.unique(np.concatenate([starts, stops]), return_inverse=True)
    first, last = where[: len(starts)], where[len(starts) :]
    constant = work.fixed.weight[fixed]
    use = []
    for values in (
        np.concatenate([low, constant]),
        np.concatenate([high, constant]),
        np.concatenate([0.0 * low, constant]),
    ):
        change = np.bincount(first, weights=values, minlength=len(instants))
        change -= np.bincount(last, weights=values, minlength=len(instants))
        use.append(np.cumsum(change)[:-1])
    return Timeline(instants, first[: len(rows)], last[: len(rows)], *use)


def range_max(values: Array, first: Array, last: Array) -> Array:
    """The maximum of ``values[first[i]:last[i]]`` for every i (never empty), by a table of powers of two."""
    levels = [values]
    while 2 ** len(levels) <= len(values):
        before, step = levels[-1], 2 ** (len(levels) - 1)
        levels.append(np.maximum(before[:-step], before[step:]))
    length = last - first
    level = np.frexp(length.astype(np.float64))[1] - 1
    result = np.empty(len(first))
    for i in range(len(levels)):
        mine = level == i
        result[mine] = np.maximum(levels[i][first[mine]], levels[i][last[mine] - 2**i])
    return result


def pin_labels(work: Work) -> Outcome:
    """Remove labels that a hard budget cannot afford even when everything else uses as little as it can.

    For an interval budget a label is judged at the instant of its interval at which the others' least use is greatest.

    Raises:
        Contradiction: When the least use of a budget exceeds its limit, or a variable loses every label.
    """
    rows = work.rows
    alive = np.ones(len(work.unary), dtype=np.bool_)
    low, high = row_extremes(work)
    blame = np.full(len(alive), -1, dtype=np.int64)
    for index, head in enumerate(work.heads):
        if not head.hard or not head.alive:
            continue
        mine = np.arange(*np.searchsorted(rows.budget, (index, index + 1)))
        counts = work.counts[rows.var[mine]]
        cells = spans(rows.at[mine], counts)
        labels = spans(work.ptr[:-1][rows.var[mine]], counts)
        if head.interval:
            bad = _interval(work, index, mine, low, high, counts, cells)
        else:
            bad = _linear(work, index, mine, low, high, counts, cells)
        alive[labels[bad]] = False
        blame[labels[bad]] = index
    gone = int(len(alive) - alive.sum())
    if not gone:
        return Outcome(work)
    empty = np.flatnonzero(~np.logical_or.reduceat(alive, work.ptr[:-1]))
    if len(empty):
        raise Contradiction(_no_room(work, int(empty[0]), blame))
    new, step = keep_labels(work, alive)
    return Outcome(new, (step,), {"labels over budget": gone}, True)


def _linear(work: Work, index: int, mine: Array, low: Array, high: Array, counts: Array, cells: Array) -> BoolArray:
    head = work.heads[index]
    least, most = float(low[mine].sum()), float(high[mine].sum())
    guard = 0.0 if head.whole else EPSILON * 4.0 * float(np.abs(work.rows.weights[cells]).sum())
    over = under = head.tolerance + guard
    if least > head.upper + over or most < head.lower - under:
        raise Contradiction(_clash(work, index, least if least > head.upper + over else most))
    weights = work.rows.weights[cells]
    bad: BoolArray = least - np.repeat(low[mine], counts) + weights > head.upper + over
    bad |= most - np.repeat(high[mine], counts) + weights < head.lower - under
    return bad


def _clash(work: Work, index: int, reach: float) -> Infeasibility:
    head = work.heads[index]
    side, limit = ("least", head.upper) if reach > head.upper else ("greatest", head.lower)
    shown = int(reach) if head.whole else reach
    detail = (
        f"budget {head.name!r}: with what the other constraints leave, the {side} possible use of the open variables "
        f"is {shown}, and {limit} is what is left of the limit"
    )
    return Infeasibility(detail, (head.name,))


def _interval(work: Work, index: int, mine: Array, low: Array, high: Array, counts: Array, cells: Array) -> BoolArray:
    head = work.heads[index]
    fixed = np.flatnonzero(work.fixed.budget == index)
    time = timeline(work, mine, fixed, low[mine], high[mine])
    if not len(time.least):
        return np.zeros(0, dtype=np.bool_)
    guard = head.tolerance
    if not head.whole:
        guard += EPSILON * 4.0 * float(high[mine].sum() + work.fixed.weight[fixed].sum())
    worst = int(time.least.argmax())
    if time.least[worst] > head.upper + guard:
        raise Contradiction(_overflow(work, index, mine, fixed, low, time, worst))
    if not len(mine):
        return np.zeros(0, dtype=np.bool_)
    peak = range_max(time.least, time.first, time.last)
    bad: BoolArray = np.repeat(peak - low[mine], counts) + work.rows.weights[cells] > head.upper + guard
    return bad


def _overflow(
    work: Work, index: int, mine: Array, fixed: Array, low: Array, time: Timeline, worst: int
) -> Infeasibility:
    head = work.heads[index]
    instant = int(time.instants[worst])
    open_rows = mine[(time.first <= worst) & (worst < time.last)]
    closed = fixed[(work.fixed.start[fixed] <= instant) & (instant < work.fixed.stop[fixed])]
    leads = np.concatenate([work.lead[work.rows.var[open_rows]], work.fixed.lead[closed]])
    weight = np.concatenate([low[open_rows], work.fixed.weight[closed]])
    names = dict.fromkeys(work.problem.variable_names[i] for i in leads[np.argsort(-weight, kind="stable")].tolist())
    least = int(time.least[worst]) if head.whole else float(time.least[worst])
    detail = (
        f"budget {head.name!r}: at instant {instant} the {len(names)} live variables use at least {least}, above the "
        f"limit {head.upper}; no assignment can exist below a limit of {least}"
    )
    return Infeasibility(detail, (head.name,), instant, tuple(names), least)


def _no_room(work: Work, variable: int, blame: Array) -> Infeasibility:
    why = blame[int(work.ptr[variable]) : int(work.ptr[variable + 1])]
    budgets = tuple(work.heads[i].name for i in np.unique(why[why >= 0]).tolist())
    name = work.names(np.array([variable]))[0]
    detail = f"variable {name!r} has no label left: none fits into {', '.join(budgets)} beside the others' least use"
    return Infeasibility(detail, budgets)


def settle(work: Work) -> Outcome:
    """Take constant rows off, shrink intervals to critical instants, and drop budgets that cannot be violated.

    Soft budgets that only constants use turn into a constant cost. This is upkeep for the other rules: a variable
    whose use is constant, or that is live only where there is room for all, carries no budget weight.

    Raises:
        Contradiction: When what is fixed violates a hard linear budget.
    """
    work, constant_rows = _split_constant(work)
    rows = work.rows
    low, high = row_extremes(work)
    keep = np.ones(len(rows.at), dtype=np.bool_)
    keep_fixed = np.ones(len(work.fixed.budget), dtype=np.bool_)
    start, stop = rows.start.copy(), rows.stop.copy()
    fixed_start, fixed_stop = work.fixed.start.copy(), work.fixed.stop.copy()
    heads, constant = list(work.heads), work.constant
    error = work.error
    for index, head in enumerate(heads):
        if not head.alive:
            continue
        mine = np.arange(*np.searchsorted(rows.budget, (index, index + 1)))
        fixed = np.flatnonzero(work.fixed.budget == index)
        if head.interval:
            time = timeline(work, mine, fixed, low[mine], high[mine])
            over = np.flatnonzero(time.most > head.upper)
            if head.hard and len(over) and time.least.max() > head.upper + head.tolerance:
                raise Contradiction(_overflow(work, index, mine, fixed, low, time, int(time.least.argmax())))
            if len(over) and len(mine):
                critical = _critical(time, head.upper)
                _cut(critical, mine, start, stop, keep)
                _cut(critical, fixed, fixed_start, fixed_stop, keep_fixed)
                continue
            peak = float(time.most.max(initial=0.0))  # a limit below 0 is exceeded even when nothing is live
            if peak > head.upper + head.tolerance and head.hard:
                raise Contradiction(
                    Infeasibility(f"the limit of budget {head.name!r} is negative", (head.name,), least_limit=0)
                )
            if peak > head.upper and head.price is not None:
                constant += _penalty(head.price, peak - head.upper, head.whole)
            keep_fixed[fixed] = False
        else:
            least, most = float(low[mine].sum()), float(high[mine].sum())
            upper = head.upper if most > head.upper else math.inf
            lower = head.lower if least < head.lower else -math.inf
            heads[index] = head = replace(head, upper=upper, lower=lower)
            if len(mine) and (math.isfinite(upper) or math.isfinite(lower)):
                continue
            outside = max(0.0 - head.upper, head.lower - 0.0, 0.0)
            if outside > head.tolerance and head.hard:
                raise Contradiction(_clash(work, index, 0.0))
            if outside and head.price is not None:
                constant += _penalty(head.price, outside, head.whole)
        keep[mine] = False
        heads[index] = replace(head, alive=False)
    changed = constant_rows > 0 or not keep.all() or not keep_fixed.all() or tuple(heads) != work.heads
    changed = changed or bool((start != rows.start).any() or (stop != rows.stop).any())
    if isinstance(constant, float) and constant != work.constant:
        error += EPSILON * (abs(constant) + abs(work.constant))
    new_rows = take_rows(replace(rows, start=start, stop=stop), work.counts, np.flatnonzero(keep))
    if changed:
        new_rows = combine_rows(new_rows, work.counts)
    stay = np.flatnonzero(keep_fixed)
    new_fixed = Fixed(
        work.fixed.budget[stay], work.fixed.lead[stay], fixed_start[stay], fixed_stop[stay], work.fixed.weight[stay]
    )
    new = replace(work, heads=tuple(heads), rows=new_rows, fixed=new_fixed, constant=constant, error=error)
    return Outcome(new, changed=changed, counts={"budget rows": len(rows.at) + constant_rows - len(new_rows.at)})


def _penalty(price: int | float, amount: int | float, whole: bool) -> int | float:
    exact = whole and float(price).is_integer() and float(amount).is_integer()
    return int(price) * int(amount) if exact else price * amount


def _critical(time: Timeline, limit: int | float) -> Array:
    """Instants that decide whether the budget is kept."""
    starts, stops = np.zeros(len(time.most), dtype=np.bool_), np.zeros(len(time.most) + 1, dtype=np.bool_)
    starts[time.first] = True
    stops[time.last] = True
    instants: Array = time.instants[critical_segments(starts, stops[:-1], time.fixed, time.most, float(limit))]
    return instants


def _cut(critical: Array, which: Array, start: Array, stop: Array, keep: Array) -> None:
    """Shrink the intervals of some rows to the critical instants in them; those without any are not kept."""
    first = np.searchsorted(critical, start[which], "left")
    last = np.searchsorted(critical, stop[which], "left") - 1
    hit = first <= last
    keep[which[~hit]] = False
    start[which[hit]] = critical[first[hit]]
    stop[which[hit]] = critical[last[hit]] + 1


def _split_constant(work: Work) -> tuple[Work, int]:
    """Move rows whose weight does not depend on the label into limits (linear) or into `Fixed` (interval)."""
    rows = work.rows
    low, high = row_extremes(work)
    constant = np.flatnonzero(low == high)
    if not len(constant):
        return work, 0
    heads = list(work.heads)
    interval = np.array([head.interval for head in heads])[rows.budget[constant]]
    linear = constant[~interval]
    for index in np.unique(rows.budget[linear]).tolist():
        head = heads[index]
        values = low[linear[rows.budget[linear] == index]]
        used = int(values.sum()) if head.whole else math.fsum(values.tolist())
        heads[index] = replace(head, lower=head.lower - used, upper=head.upper - used)
    moved = constant[interval & (low[constant] > 0)]
    fixed = Fixed(
        np.concatenate([work.fixed.budget, rows.budget[moved]]),
        np.concatenate([work.fixed.lead, work.lead[rows.var[moved]]]),
        np.concatenate([work.fixed.start, rows.start[moved]]),
        np.concatenate([work.fixed.stop, rows.stop[moved]]),
        np.concatenate([work.fixed.weight, low[moved]]),
    )
    stay = np.ones(len(rows.at), dtype=np.bool_)
    stay[constant] = False
    new = replace(work, heads=tuple(heads), rows=take_rows(rows, work.counts, np.flatnonzero(stay)), fixed=fixed)
    return new, len(constant)
