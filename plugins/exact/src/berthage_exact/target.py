"""What an assignment must cost less than to be of interest: the best so far, the gap allowed, a cutoff."""

from __future__ import annotations

import math
from dataclasses import dataclass

from berthage import SolveContext

from .network import Network

PROOF_TOLERANCE = 1e-9
"""Relative gap that counts as a proof when no larger one is asked for (core's own figure)."""

FINER = 16.0
"""Numbers are made anew when they become that much finer."""


@dataclass(frozen=True, eq=False, slots=True)
class Target:
    """The target of one solve.

    Attributes:
        context: Core's side, which keeps the best assignment.
        whole: Whether all objectives are whole numbers.
    """

    context: SolveContext
    whole: bool

    @property
    def tolerance(self) -> float:
        """Relative gap at which the search is over."""
        return max(self.context.params.gap, PROOF_TOLERANCE)

    def upper(self) -> float:
        """No assignment that costs more is of interest; inf when nothing is known."""
        best, cutoff = self.context.best_objective, self.context.params.cutoff
        return min(math.inf if best is None else float(best), math.inf if cutoff is None else float(cutoff))

    def value(self) -> float:
        """Nothing of which the bound is this or more needs to be searched."""
        best, cutoff = self.context.best_objective, self.context.params.cutoff
        if best is None:
            return math.inf if cutoff is None else math.nextafter(float(cutoff), math.inf)
        value = float(best)
        if self.whole and abs(value) < 2.0**52:
            # Half a unit below the best, any bound stands for the next whole number, which is the best.
            return min(value - 0.5, value - self.context.params.gap * max(1.0, abs(value)))
        if self.context.params.gap <= PROOF_TOLERANCE:
            return value - 0.5 * PROOF_TOLERANCE * max(1.0, abs(value))
        return value - self.context.params.gap * max(1.0, abs(value))

    def units(self, network: Network) -> int:
        """`value` in a network's units: a bound of so many units, turned back, is at least the value."""
        value = self.value()
        units = network.units(value)
        while value < math.inf and network.cost(units) < value and units < 1 << 57:
            units += max(1, abs(units) >> 50)
        return units

    def closes(self, bound: float) -> bool:
        """Whether the bound proves the best assignment within the tolerance."""
        best = self.context.best_objective
        if best is None:
            return False
        if self.whole and abs(bound) < 2.0**52:
            bound = max(bound, float(math.ceil(bound - 1e-6 - 1e-9 * abs(bound))))
        return float(best) - bound <= self.tolerance * max(1.0, abs(float(best)))

    def wants_finer(self, network: Network) -> bool:
        """Whether rounding may hide the proof, and numbers would be much finer for the best assignment."""
        best = self.context.best_objective
        if best is None:
            return False
        rounding = network.terms / network.scale
        if rounding < 0.25 * PROOF_TOLERANCE * max(1.0, abs(float(best))):
            return False
        return network.span_of(float(best)) * FINER <= network.span
