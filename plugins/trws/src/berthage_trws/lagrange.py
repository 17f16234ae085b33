"""Budgets by Lagrangian multipliers: a price on each row that binds, found by ascent on the dual bound.

For multipliers ``λ ≥ 0`` on the upper and lower sides of the rows, the bound of the problem with ``λ·weights`` added
to the unary costs, less ``λ·limits``, is a lower bound on the budgeted problem. A soft budget of price ``p`` allows
multipliers that sum to at most ``p``. Messages are kept from step to step. Only rows that some rounding violated
(local peaks over time) take part: cutting planes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .budgets import Budgets
from .layout import Words
from .search import Search
from .tables import Floats
from .within import BudgetedSearch

FIRST_SWEEPS = 30
"""Sweeps before the first multiplier step."""

PATIENCE = 8
"""Steps without a better bound before the step length is cut and the best multipliers are taken up again."""

CUT = 0.6
LINE_STEPS = 40
LINE_PATIENCE = 4
LEAST_LENGTH = 1e-3
DEFLECTION = 0.4
THOROUGH_EVERY = 10


@dataclass(eq=False, slots=True)
class Dual:
    """Multipliers in units of cost per limit (``λ · size``): above the upper and below the lower limit of each row."""

    budgets: Budgets
    upper: Floats
    lower: Floats

    def rates(self) -> Floats:
        """Net cost per unit of use of each row."""
        rates: Floats = (self.upper - self.lower) / self.budgets.rows.size
        return rates

    def offset(self) -> tuple[float, float]:
        """What the multipliers take off the bound (to be added), and its rounding error."""
        rows = self.budgets.rows
        terms = np.concatenate([
            -(self.upper / rows.size) * np.where(self.upper > 0.0, rows.upper, 0.0),
            (self.lower / rows.size) * np.where(self.lower > 0.0, rows.lower, 0.0),
        ])  # fmt: skip
        return math.fsum(terms.tolist()), 2.0**-50 * float(np.abs(terms).sum())

    def project(self) -> None:
        """Back to what is valid: not negative, zero where there is no limit, within the price of soft budgets."""
        rows = self.budgets.rows
        self.upper[~np.isfinite(rows.upper) | (self.upper < 0.0)] = 0.0
        self.lower[~np.isfinite(rows.lower) | (self.lower < 0.0)] = 0.0
        for b in np.flatnonzero(np.isfinite(rows.price)).tolist():
            mine = slice(int(rows.budget_ptr[b]), int(rows.budget_ptr[b + 1]))
            for side in (self.upper, self.lower):
                total = float((side[mine] / rows.size[mine]).sum())
                if total > rows.price[b]:
                    side[mine] *= rows.price[b] / total * (1.0 - 1e-12)


def ascend_budgeted(search: Search, budgets: Budgets, start: Words | None) -> None:
    """Solve a problem with budgets; fills in ``search``."""
    within = BudgetedSearch(search, budgets)
    if start is not None:
        within.offer(start, thorough=True)
    ascent = _Ascent(search, budgets, within)
    ascent.run()
    search.budgets, search.multipliers = budgets, ascent.best


class _Ascent:
    """The ascent on the multipliers."""

    def __init__(self, search: Search, budgets: Budgets, within: BudgetedSearch) -> None:
        self.search, self.budgets, self.within = search, budgets, within
        count = budgets.count
        self.dual = Dual(budgets, np.zeros(count), np.zeros(count))
        self.best = self.dual.upper.copy(), self.dual.lower.copy()
        self.best_value = self.value = -math.inf
        self.active: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)
        self.steps = 0
        layout = search.engine.layout
        self.highest = layout.highest + 1e-9 * abs(layout.highest) + 1.0
        if np.isfinite(budgets.rows.price).any():
            self.highest = math.inf  # soft penalties have no simple ceiling

    def run(self) -> None:
        """Ascend, then let the messages settle at the best multipliers."""
        search = self.search
        self.best_value = self._sweep(FIRST_SWEEPS)
        state = self._round(thorough=True)
        gradient = self._gradient(state)
        if gradient.any() and self._lines(state) == 1:
            state, gradient = self._along(int(np.argmax(gradient)), gradient)
        length, stale, direction = 1.0, 0, np.zeros(2 * self.budgets.count)
        while gradient.any() and length >= LEAST_LENGTH and self._goes_on():
            direction = (1.0 - DEFLECTION) * gradient + DEFLECTION * direction
            step = length * self._room() / max(float(direction @ direction), 1e-300)
            state = self._try(np.concatenate([self.dual.upper, self.dual.lower]) + step * direction)
            stale = 0 if self.value == self.best_value else stale + 1
            if stale >= PATIENCE:
                stale, length = 0, length * CUT
                direction[:] = 0.0
                state = self._try(np.concatenate(self.best))
            gradient = self._gradient(state)
        self._settle()
        search.stats["multiplier_steps"] = self.steps
        search.stats["priced_rows"] = int(np.count_nonzero(self.dual.upper + self.dual.lower))

    def _goes_on(self) -> bool:
        search = self.search
        return self.steps < search.options.budget_steps and not search.proved and not search.stopped()

    def _try(self, multipliers: Floats, patience: int = 1) -> Words:
        """Take up multipliers, sweep ``patience`` times as often as a step does, and round; returns the rounding."""
        count = self.budgets.count
        self.dual.upper, self.dual.lower = multipliers[:count].copy(), multipliers[count:].copy()
        self.dual.project()
        self._apply()
        self.value = self._sweep(patience * self.search.options.sweeps_per_step)
        self.steps += 1
        if self.value > self.best_value:
            self.best_value, self.best = self.value, (self.dual.upper.copy(), self.dual.lower.copy())
        return self._round(thorough=self.steps % THOROUGH_EVERY == 0)

    def _along(self, side: int, gradient: Floats) -> tuple[Words, Floats]:
        """Maximise over one multiplier alone: where the tangents of a point on either side of the top meet.

        The dual is concave and the violation is its slope, so a point with a violation lies left of the top.
        """
        count = self.budgets.count
        left, right = (0.0, self.best_value, float(gradient[side])), None
        at = self._room() / max(left[2], 1e-300)
        state = np.zeros(0, np.uint64)
        for _ in range(LINE_STEPS):
            trial = np.zeros(2 * count)
            trial[side] = at
            state = self._try(trial, LINE_PATIENCE)
            gradient = self._gradient(state)
            if not self._goes_on() or self._lines(state) > 1:
                break
            taken = float((self.dual.upper if side < count else self.dual.lower)[side % count])
            slope = float(self._excess(state)[side])
            if slope > 0.0:
                left = (taken, self.value, slope)
                if taken < 0.999 * at:
                    break  # held back by the price of a soft budget
            else:
                right = (taken, self.value, slope)
            if right is None:
                at = 2.0 * taken
                continue
            width = right[0] - left[0]
            if width <= 1e-4 * right[0] or slope == 0.0:
                break
            meet = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
            inside = left[0] + 0.1 * width < meet < right[0] - 0.1 * width
            at = meet if inside else left[0] + 0.5 * width  # values lag behind their tangents: halve instead
        return state, gradient

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _apply(self) -> None:
        layout = self.search.engine.layout
        added, size = self.budgets.unary(self.dual.rates())
        missing = len(layout.unary) - len(added)
        added, size = np.pad(added, (0, missing)), np.pad(size, (0, missing))
        self.search.engine.set_unary(layout.unary + added, np.abs(layout.unary) + size)

    def _sweep(self, count: int) -> float:
        """Sweep; returns the (uncertified) bound at the present multipliers."""
        search = self.search
        value = -math.inf
        for _ in range(count):
            if search.stopped():
                return value
            swept = search.engine.sweep()
            if swept is None:
                continue
            search.sweeps += 1
            value = swept + self.dual.offset()[0]
        if search.closes(search.cost(value)) or value > self.highest:
            self._certify()
        return value

    def _certify(self) -> None:
        offset, slack = self.dual.offset()
        self.search.certify(offset, slack, self.highest)

    def _round(self, thorough: bool) -> Words:
        """Round at the present prices, offer what repair makes of it, and return the rounding itself."""
        engine = self.search.engine
        states = [engine.assign(True), engine.assign(False)]
        for state in states:
            engine.improve(state, pairs=thorough)
        values = [self._priced(state) for state in states]
        chosen = int(values[1] < values[0])
        for state in states:
            self.within.offer(state.copy(), thorough)
        return states[chosen]

    def _priced(self, state: Words) -> float:
        energy = self.search.engine.energy(state)
        return energy + float(self.dual.rates() @ self.budgets.use(state))

    def _excess(self, state: Words) -> Floats:
        """How far each row is above its upper and then below its lower limit (negative: within), in limits."""
        rows, use = self.budgets.rows, self.budgets.use(state)
        return np.concatenate([(use - rows.upper) / rows.size, (rows.lower - use) / rows.size])

    def _lines(self, state: Words) -> int:
        """How many sides of rows take part."""
        excess = self._excess(state)
        taking_part = np.tile(self.active, 2) & (excess > 0.0)
        return int(np.count_nonzero(taking_part | (np.concatenate([self.dual.upper, self.dual.lower]) > 0.0)))

    def _gradient(self, state: Words) -> Floats:
        """Slope of the dual: the excess of the rows that take part. New peaks of the use over time join them."""
        rows, excess = self.budgets.rows, self._excess(state)
        worst = np.maximum(excess[: self.budgets.count], excess[self.budgets.count :])
        first = np.concatenate([[True], rows.budget[1:] != rows.budget[:-1]])
        last = np.concatenate([first[1:], [True]])
        before, after = np.concatenate([[-np.inf], worst[:-1]]), np.concatenate([worst[1:], [-np.inf]])
        self.active |= (worst > 0.0) & (first | (worst > before)) & (last | (worst >= after))
        slope = np.where(np.tile(self.active, 2) & np.isfinite(excess), excess, 0.0)
        slope[(np.concatenate([self.dual.upper, self.dual.lower]) <= 0.0) & (slope < 0.0)] = 0.0
        return slope

    def _room(self) -> float:
        """How far the bound is thought to be from the optimum: the numerator of Polyak's step."""
        value = self.best_value
        if self.search.best_energy < math.inf:
            return max(self.search.best_energy - value, 1e-9 * max(1.0, abs(value)))
        return max(0.1 * abs(value), 1e-3 * self.search.engine.layout.stand_in)

    def _settle(self) -> None:
        """Sweep at the best multipliers until the bound stops rising, and certify it."""
        search, options = self.search, self.search.options
        self.dual.upper[:], self.dual.lower[:] = self.best
        self._apply()
        before = -math.inf
        while not search.stopped() and not search.proved:
            value = self._sweep(options.window)
            self._round(thorough=True)
            self._certify()
            if not value > before + max(options.min_gain, 1e-9) * max(1.0, abs(value)):
                break
            before = value
        if not search.proved:
            self._certify()
