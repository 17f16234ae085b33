"""Removing columns that no optimal assignment uses, by message passing over the program's own rows.

Messages are dual values of the marginal rows. Sequential tree-reweighted passes (Kolmogorov, PAMI 2006, in the form of
SRMP, PAMI 2015) raise the dual bound; rounding along the way gives an assignment. A column whose reduced cost exceeds
the gap between the two cannot be part of anything better, so it is fixed to 0. The bound holds for any messages and
any extra rows, so budgets do no harm: they only make the assignment harder to find.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from berthage import InvalidProblemError, SolveContext
from berthage.linear import LinearProgram

if TYPE_CHECKING:
    from collections.abc import MutableMapping

__all__ = ["fix_dear"]

Floats = NDArray[np.float64]

_MAX_PASSES = 200
_CHECK_EVERY = 4
_STALL_CHECKS = 5
_STALL_GAIN = 1e-3
_SHARE_OF_TIME = 0.3
"""Share of the time limit that message passing may use."""

_WORK = 20.0
_WORK_PER_CELL = 4e-9
_WORK_PER_PAIR = 2e-4
"""A pass counts as so much work; they end when `_WORK` is used up: seconds, roughly, but the same at every run."""


@dataclass(slots=True)
class _Pair:
    """A pair of groups: costs by class, and a message to either side."""

    first: int
    second: int
    class_first: NDArray[np.int64]
    class_second: NDArray[np.int64]
    cost: Floats
    to_first: Floats
    to_second: Floats


class _Messages:
    """The reparametrised program: unary costs of each group, and pairs between them."""

    def __init__(self, program: LinearProgram) -> None:
        self.program = program
        open_cost = np.where(program.upper > 0.0, program.cost, np.inf)
        ptr = program.group_ptr
        self.unary = [open_cost[ptr[g] : ptr[g + 1]].copy() for g in range(len(ptr) - 1)]
        self.pairs = [self._pair(p, open_cost) for p in range(len(program.pair_first))]
        self.forward: list[list[_Pair]] = [[] for _ in self.unary]
        self.backward: list[list[_Pair]] = [[] for _ in self.unary]
        for pair in self.pairs:
            self.forward[pair.first].append(pair)
            self.backward[pair.second].append(pair)

    def _pair(self, p: int, open_cost: Floats) -> _Pair:
        program = self.program
        g, h = int(program.pair_first[p]), int(program.pair_second[p])
        sizes = program.group_ptr[[g + 1, h + 1]] - program.group_ptr[[g, h]]
        at = int(program.pair_class_ptr[p])
        cells = program.pair_cells[program.pair_cell_ptr[p] : program.pair_cell_ptr[p + 1]].reshape(
            -1, int(program.pair_width[p])
        )
        cost = np.where(cells >= 0, open_cost[np.maximum(cells, 0)], np.inf)
        class_first = program.pair_classes[at : at + sizes[0]]
        class_second = program.pair_classes[at + sizes[0] : at + sizes[0] + sizes[1]]
        for group, classes in ((g, class_first), (h, class_second)):
            self.unary[group][classes < 0] = np.inf
        return _Pair(g, h, class_first, class_second, cost, np.zeros(cost.shape[0]), np.zeros(cost.shape[1]))

    def sweep(self, *, backward: bool) -> NDArray[np.int64]:
        """One pass over all groups; returns the labels (within each group) that rounding along the way chose."""
        order = range(len(self.unary) - 1, -1, -1) if backward else range(len(self.unary))
        chosen = np.full(len(self.unary), -1, dtype=np.int64)
        for g in order:
            behind, ahead = (self.forward[g], self.backward[g]) if backward else (self.backward[g], self.forward[g])
            unary = self.unary[g]
            for pair in behind:
                self._collect(pair, g)
            # Rounding: the costs of neighbours that are settled in place of their messages.
            settled = unary.copy()
            for pair in behind:
                mine, other, cost, message = _sides(pair, g)
                at = other[chosen[pair.second if pair.first == g else pair.first]]
                row = cost[:, at] if at >= 0 else np.full(cost.shape[0], np.inf)
                settled += _spread(row - message, mine)
            chosen[g] = int(np.argmin(settled)) if np.isfinite(settled).any() else int(np.argmin(unary))
            if ahead:
                share = 1.0 / max(len(behind), len(ahead))
                amount = share * unary
                for pair in ahead:
                    self._send(pair, g, amount)
        return chosen

    def _collect(self, pair: _Pair, g: int) -> None:
        """Move what the pair costs at least, per class of `g`, to the labels of `g`."""
        mine, _, cost, _ = _sides(pair, g)
        own, far = (pair.to_first, pair.to_second) if pair.first == g else (pair.to_second, pair.to_first)
        gain = (cost - far[None, :]).min(axis=1) - own
        self._move(pair, g, mine, np.where(np.isfinite(gain), gain, 0.0), np.isinf(gain))

    def _send(self, pair: _Pair, g: int, amount: Floats) -> None:
        """Move `amount` (per label; the least of a class counts) from the labels of `g` to the pair."""
        mine = pair.class_first if pair.first == g else pair.class_second
        count = len(pair.to_first if pair.first == g else pair.to_second)
        least = np.full(count, np.inf)
        live = mine >= 0
        np.minimum.at(least, mine[live], amount[live])
        self._move(pair, g, mine, np.where(np.isfinite(least), -least, 0.0), np.zeros(count, dtype=bool))

    def _move(self, pair: _Pair, g: int, mine: NDArray[np.int64], gain: Floats, dead: NDArray[np.bool_]) -> None:
        if pair.first == g:
            pair.to_first += gain
        else:
            pair.to_second += gain
        self.unary[g] += _spread(gain, mine)
        if dead.any():
            self.unary[g][np.isin(mine, np.flatnonzero(dead))] = np.inf

    def bound(self) -> float:
        """Dual bound on ``cost @ x``."""
        total = math.fsum(float(unary.min()) for unary in self.unary)
        return total + math.fsum(float(self._rest(pair).min()) for pair in self.pairs)

    @staticmethod
    def _rest(pair: _Pair) -> Floats:
        return pair.cost - pair.to_first[:, None] - pair.to_second[None, :]

    def dear(self, slack: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Label columns and pair columns whose reduced cost exceeds `slack`."""
        ptr = self.program.group_ptr
        extra = [unary - unary.min() for unary in self.unary]
        rests = [self._rest(pair) for pair in self.pairs]
        for pair, rest in zip(self.pairs, rests, strict=True):
            rest -= rest.min()
            extra[pair.first] += _spread(rest.min(axis=1), pair.class_first)
            extra[pair.second] += _spread(rest.min(axis=0), pair.class_second)
        labels = [ptr[g] + np.flatnonzero(~(more <= slack)) for g, more in enumerate(extra)]
        cells: list[NDArray[np.int64]] = []
        for p, (pair, rest) in enumerate(zip(self.pairs, rests, strict=True)):
            # What the best label of each class adds already counts this pair's row minimum: take that out again.
            first = _class_min(extra[pair.first], pair.class_first, rest.shape[0]) - rest.min(axis=1)
            second = _class_min(extra[pair.second], pair.class_second, rest.shape[1]) - rest.min(axis=0)
            total = rest + _at_least_zero(first)[:, None] + _at_least_zero(second)[None, :]
            begin = self.program.pair_cell_ptr[p]
            column = self.program.pair_cells[begin : begin + rest.size]
            cells.append(column[(~(total <= slack)).reshape(-1) & (column >= 0)])
        empty = np.zeros(0, dtype=np.int64)
        return np.concatenate([empty, *labels]), np.concatenate([empty, *cells])


def _sides(pair: _Pair, g: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """Classes of `g`, classes of the other group, costs with `g` as rows, and the message to `g`."""
    if pair.first == g:
        return pair.class_first, pair.class_second, pair.cost, pair.to_first
    return pair.class_second, pair.class_first, pair.cost.T, pair.to_second


def _spread(by_class: Floats, classes: NDArray[np.int64]) -> Floats:
    """Values of the labels from values of their classes; 0 for a label without class (its unary cost is inf)."""
    return np.where(classes >= 0, by_class[np.maximum(classes, 0)], 0.0)


def _at_least_zero(values: Floats) -> Floats:
    return np.maximum(np.nan_to_num(values, nan=np.inf, posinf=np.inf), 0.0)


def _class_min(values: Floats, classes: NDArray[np.int64], count: int) -> Floats:
    least = np.full(count, np.inf)
    live = classes >= 0
    np.minimum.at(least, classes[live], values[live])
    return least


def fix_dear(
    program: LinearProgram, context: SolveContext, stats: MutableMapping[str, int | float | str | bool]
) -> LinearProgram:
    """Fix to 0 the columns that cannot be part of a better assignment than the best one known.

    Every assignment that costs less than that one, and that one itself, stays feasible, so an optimum of the result is
    an optimum of the program, and a bound on it holds for the program up to that cost.

    Args:
        program: The program.
        context: Told of assignments and of the bound; asked for the time left.
        stats: Receives ``fixing_passes``, ``fixed_labels`` and ``fixed_pairs``.

    Returns:
        The program with upper bounds lowered; the program itself when no feasible assignment is known.
    """
    messages = _Messages(program)
    left = context.remaining()
    least = left * (1.0 - _SHARE_OF_TIME) if math.isfinite(left) else -math.inf
    cells = sum(pair.cost.size for pair in messages.pairs)
    affordable = int(_WORK / (_WORK_PER_CELL * cells + _WORK_PER_PAIR * len(messages.pairs) + 1e-3))
    history: list[float] = []
    passes = 0
    while passes < min(_MAX_PASSES, affordable):
        labels = messages.sweep(backward=bool(passes % 2))
        passes += 1
        with suppress(InvalidProblemError):  # costs more than a float can hold
            context.incumbent(_assignment(program, labels))
        if context.stop_reason() is not None or context.remaining() < least:
            break
        if passes % _CHECK_EVERY:
            continue
        history.append(messages.bound())
        gap = _gap(program, context, history[-1])
        if math.isinf(history[-1]) or gap <= _margin(program, history[-1]):
            break
        scale = min(gap, abs(history[-1]) + 1.0)
        if len(history) > _STALL_CHECKS and history[-1] - history[-1 - _STALL_CHECKS] <= _STALL_GAIN * scale:
            break
    if context.stop_reason() is not None:
        return program
    current = messages.bound()
    if math.isinf(current):
        return program  # nothing is feasible: the engine is to say so
    context.bound(program.bound_of(current - _margin(program, current)))
    stats["fixing_passes"] = passes
    if context.best_objective is None:
        return program
    gap = _gap(program, context, current)
    slack = gap + _margin(program, current) + _margin(program, current + gap)
    fixed_labels, fixed_pairs = messages.dear(slack)
    stats["fixed_labels"], stats["fixed_pairs"] = len(fixed_labels), len(fixed_pairs)
    upper = program.upper.copy()
    upper[fixed_labels] = 0.0
    upper[fixed_pairs] = 0.0
    return replace(program, upper=upper)


def _assignment(program: LinearProgram, labels: NDArray[np.int64]) -> NDArray[np.int32]:
    at = program.sel_ptr[:-1] + labels[program.group_of]
    assignment: NDArray[np.int32] = program.sel[at].astype(np.int32)
    return assignment


def _gap(program: LinearProgram, context: SolveContext, bound: float) -> float:
    """Best objective known less the bound, in the program's units; inf when no assignment is known."""
    if context.best_objective is None:
        return math.inf
    return float(context.best_objective) * program.scale - program.offset - bound


def _margin(program: LinearProgram, value: float) -> float:
    """More than the rounding error of costs and sums of this size, `_MAX_PASSES` passes of messages included."""
    told = value - (program.bound_of(value) * program.scale - program.offset)
    return told + 1e-9 * (abs(value) + abs(program.offset)) + 1e-13 * float(np.max(program.cost, initial=0.0))
