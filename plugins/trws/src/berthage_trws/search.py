"""One solve in progress: the best assignment and bound so far, and when to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from berthage import Limit, PlacementProblem, SolveContext

from .budgets import Budgets
from .engine import Engine
from .layout import Words
from .options import TrwsOptions
from .tables import Floats

PROOF_TOLERANCE = 1e-9
"""Relative gap that counts as a proof when no larger one is asked for (core's own figure)."""

KICKING_CALLS, KICKING_SLACK = 64, 2.0
CALL_WORK = 1 << 22
KICKING_SHARE = 0.1
LEAST_KICKING, KICKING_PER_LABEL = 1 << 27, 1 << 16
"""Numbers that iterated local search reads: a share of the table cells that the sweeps read, or at least so many (the
first figure, on small problems the second for each label)."""

PAIRS_EVERY = 5
"""Every so many roundings the local search moves pairs even if the assignment is not the best so far."""


@dataclass(eq=False, slots=True)
class Search:
    """State of one solve of one problem.

    Attributes:
        problem: The problem (relations lowered).
        engine: Its messages.
        context: Core's side.
        options: The solver's options.
        bound: Best certified lower bound, in units of the problem's costs with its constant.
        infeasible: Whether it is proved that nothing is feasible (within the cutoff).
        sweeps: Sweeps done.
        budgets: The rows of the budgets, once they were priced.
        multipliers: The best multipliers of the rows' upper and lower limits, in cost per limit.
        tells_bound: Whether core is told of the bound; not where the engine lacks labels that the problem allows.
    """

    problem: PlacementProblem
    engine: Engine
    context: SolveContext
    options: TrwsOptions
    bound: float = -math.inf
    infeasible: bool = False
    sweeps: int = 0
    roundings: int = 0
    best_energy: float = math.inf
    candidate: Words | None = None
    limit: Limit | None = None
    budgets: Budgets | None = None
    multipliers: tuple[Floats, Floats] | None = None
    stats: dict[str, int | float | str | bool] = field(default_factory=dict)
    tells_bound: bool = True

    # -- units ---------------------------------------------------------------------------------------------------------

    def cost(self, scaled: float) -> float:
        """A scaled cost in the problem's units, constant included."""
        return scaled / self.engine.layout.scale + float(self.problem.constant)

    # -- stopping ------------------------------------------------------------------------------------------------------

    @property
    def sweep_limit(self) -> int:
        """Most sweeps allowed."""
        asked = self.context.params.iteration_limit
        return self.options.max_sweeps if asked is None else min(asked, self.options.max_sweeps)

    def stopped(self) -> bool:
        """Whether the clock, the user or the iteration limit says to stop; remembers which."""
        if self.limit is None:
            self.limit = self.context.stop_reason()
            if self.limit is None and self.sweeps >= self.sweep_limit:
                self.limit = Limit.ITERATIONS
        return self.limit is not None

    @property
    def tolerance(self) -> float:
        """Relative gap at which the search is over."""
        return max(self.context.params.gap, PROOF_TOLERANCE)

    def closes(self, bound: float) -> bool:
        """Whether ``bound`` (in the problem's units) proves the best assignment optimal within the tolerance."""
        best = self.context.best_objective
        if best is None:
            return False
        if self.problem.is_integral and abs(bound) < 2.0**52:
            bound = max(bound, float(math.ceil(bound - 1e-6 - 1e-9 * abs(bound))))
        return float(best) - bound <= self.tolerance * max(1.0, abs(float(best)))

    @property
    def proved(self) -> bool:
        """Whether the search is over: optimal or infeasible."""
        return self.infeasible or self.closes(self.bound)

    # -- progress ------------------------------------------------------------------------------------------------------

    def certify(self, offset: float = 0.0, slack: float = 0.0, highest: float = math.inf) -> None:
        """Compute the certified bound from the current messages and keep it if better.

        Args:
            offset: Scaled number to add (what multipliers take off), known within ``slack``.
            slack: Rounding error of ``offset``.
            highest: Scaled cost above which no feasible assignment lies.
        """
        value = self.engine.bound() + offset - slack
        if value > highest or value == math.inf:
            self.infeasible = True
            return
        constant = float(self.problem.constant)
        bound = self.cost(value)
        bound -= 2.0**-51 * (abs(bound) + abs(constant))
        if bound > self.bound:
            self.bound = bound
            if self.tells_bound:
                self.context.bound(bound)
        cutoff = self.context.params.cutoff
        if cutoff is not None and self.context.best_objective is None and self.bound > cutoff:
            self.infeasible = True

    def offer(self, state: Words) -> float:
        """Offer an assignment to core if it looks better than the best; returns its scaled energy."""
        energy = self.engine.energy(state)
        better = energy < self.best_energy
        if better and self.context.incumbent(self.engine.layout.to_variables(state)) is not None:
            self.best_energy = energy
        return energy

    def round(self) -> None:
        """Round the messages both ways, search locally from the better assignment, and offer it."""
        engine, polish = self.engine, self.options.polish
        states = [engine.assign(True), engine.assign(False)]
        if polish != "off":
            for state in states:
                engine.improve(state, pairs=False)
        energies = [engine.energy(state) for state in states]
        chosen = int(energies[1] < energies[0])
        best = states[chosen]
        worth = energies[chosen] < self.best_energy or self.roundings % PAIRS_EVERY == 0
        if polish == "pairs" and worth and not self.closes_at(energies[chosen]):
            engine.improve(best, pairs=True)
        self.roundings += 1
        energy = self.offer(best)
        if self.candidate is None or energy <= self.best_energy:
            self.candidate = best

    def closes_at(self, energy: float) -> bool:
        """Whether an assignment of this scaled energy would already be proved optimal."""
        cost = self.cost(energy)
        return cost - self.bound <= self.tolerance * max(1.0, abs(cost))


def kick(search: Search) -> None:
    """Iterated local search from the best rounding for a share of the work that the sweeps took; offers the best."""
    state = search.candidate
    if state is None or search.options.polish != "pairs":
        return
    engine, layout = search.engine, search.engine.layout
    seed = np.array([(search.context.params.seed + 0x9E3779B97F4A7C15) % 2**63 * 2 + 1], np.uint64)
    least = min(LEAST_KICKING, KICKING_PER_LABEL * len(layout.unary))
    work = max(least, KICKING_SHARE * float(layout.work.sum()) * search.sweeps)
    calls = max(KICKING_CALLS, int(work / CALL_WORK))
    best, tally = state.copy(), np.zeros(3)
    for call in range(calls):
        usual = tally[2] / tally[1] if tally[1] else 0.0
        slack = KICKING_SLACK * usual * (1.0 - 2.0 * (call % KICKING_CALLS) / KICKING_CALLS)
        if engine.kick(state, best, seed, int(work / calls), tally, slack):
            search.offer(best)
        if search.proved or search.context.stop_reason() is not None:
            break


def ascend(search: Search) -> None:
    """Sweep until the gap closes, the bound stops rising or a limit is met (problems without budgets)."""
    sweep_up(search)
    if not search.proved and search.context.stop_reason() is None:
        kick(search)


def sweep_up(search: Search) -> None:
    """Sweep until the gap closes, the bound stops rising or a limit is met; the bound is then certified."""
    highest = search.engine.layout.highest
    highest += 1e-9 * abs(highest) + 1.0
    _sweep_up(search, highest)
    if not search.proved:
        search.certify(highest=highest)


def _sweep_up(search: Search, highest: float) -> None:
    engine, options = search.engine, search.options
    least_gain = max(options.min_gain, 2e-7 if engine.layout.gamma.dtype == np.float32 else 0.0)
    window_start = -math.inf
    while not search.stopped():
        value = engine.sweep()
        if value is None:
            continue  # told to stop inside a sweep
        search.sweeps += 1
        sweep = search.sweeps
        if sweep <= 2 or sweep % options.rounding_every == 0:
            search.round()
        bound = search.cost(value)
        if search.closes(bound) or value > highest:
            search.certify(highest=highest)
            if search.proved:
                return
        if sweep % options.window == 0:
            search.certify(highest=highest)
            gain, window_start = value - window_start, value
            if search.proved or gain <= least_gain * max(
                abs(value), abs(search.best_energy) if search.best_energy < math.inf else 0.0
            ):
                return
