"""Running rules to a fixed point, and the way back from what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import Infeasibility, PlacementProblem
from berthage.solving import RunContext
from berthage_presolve import intake
from berthage_presolve.components import components
from berthage_presolve.consistency import arc_consistency
from berthage_presolve.contraction import eliminate, merge_edges
from berthage_presolve.dominance import remove_dominated
from berthage_presolve.emit import Part, emit
from berthage_presolve.joins import merge_ties
from berthage_presolve.lifting import Step
from berthage_presolve.limits import pin_labels, settle
from berthage_presolve.outcome import Contradiction, Outcome
from berthage_presolve.singles import fix_singles
from berthage_presolve.state import Array, Work

Int32Array = npt.NDArray[np.int32]
Rule = Callable[[Work], Outcome]

RULES: Final[Mapping[str, Rule]] = {
    "arc-consistency": arc_consistency,
    "budget-pins": pin_labels,
    "merge-ties": merge_ties,
    "single-labels": fix_singles,
    "merge-edges": merge_edges,
    "dominated-labels": remove_dominated,
    "eliminate": eliminate,
}
"""Rules in the order of a round; ``components`` comes once, after the last round."""
COMPONENTS: Final = "components"
MOST_ROUNDS: Final = 20
SMALL: Final = 1000
"""Up to so many labels, rounds go on to the fixed point;"""
WORTHWHILE: Final = 0.01
"""beyond, they stop once a round removes less than this share of the labels and edges."""
_KEEPS_COSTS: Final = frozenset({"arc-consistency", "budget-pins"})


@dataclass(frozen=True, slots=True)
class Reduced:
    """Smaller problems and the way back; see `berthage.solving.chain.Reduced`."""

    parts: tuple[PlacementProblem, ...]
    infeasibility: Infeasibility | None = None
    report: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    bound_error: float = 0.0
    steps: tuple[Step, ...] = ()
    kept: tuple[Part, ...] = ()
    size: int = 0

    def lift(self, assignments: Sequence[Int32Array]) -> Int32Array:
        """The original assignment, int32[n], that the parts' assignments stand for."""
        labels: Array = np.zeros(self.size, dtype=np.int64)
        for part, chosen in zip(self.kept, assignments, strict=True):
            labels[part.variables] = np.asarray(chosen)[: len(part.variables)]
        for step in reversed(self.steps):
            labels = step.lift(labels)
        return labels.astype(np.int32)

    def project(self, assignment: Int32Array) -> tuple[Int32Array, ...] | None:
        """The parts' assignments for an original one; None when it is infeasible."""
        labels: Array | None = np.asarray(assignment, dtype=np.int64)
        for step in self.steps:
            if labels is None:
                return None
            labels = step.project(labels)
        if labels is None:
            return None
        parts = [labels[part.variables].astype(np.int32) for part in self.kept]
        return tuple(
            np.append(labels, np.int32(0)) if part.has_carrier else labels
            for part, labels in zip(self.kept, parts, strict=True)
        )


def reduce_problem(problem: PlacementProblem, rules: Sequence[str], context: RunContext | None = None) -> Reduced:
    """Apply the named rules until none changes anything, then split what is left.

    Args:
        problem: What to reduce.
        rules: Names from `RULES`, and ``"components"``.
        context: Asked between rules whether to stop.
    """
    work = intake.intake(problem)
    exact, budgets_exact = intake.is_exact(work), intake.budgets_are_exact(work)
    active = [name for name in RULES if name in rules]
    if not exact or not budgets_exact:
        active = [name for name in active if name in _KEEPS_COSTS and (budgets_exact or name != "budget-pins")]
    try:
        work, steps, counts, rounds, changed = _run(work, active, budgets_exact, context)
    except Contradiction as found:
        return Reduced((), found.infeasibility, {"infeasible": True})
    parts = [np.arange(work.size)]
    if COMPONENTS in rules and exact and budgets_exact:
        parts = components(work) or parts
    report: dict[str, int | float | str | bool] = {"rounds": rounds, **counts}
    if not changed and len(parts) == 1:
        whole = Part(problem, parts[0])
        return Reduced((problem,), None, report, 0.0, (), (whole,), work.size)
    if exact and budgets_exact:
        kept = tuple(
            emit(
                work,
                variables,
                problem.name if len(parts) == 1 else f"{problem.name} (part {i + 1} of {len(parts)})",
                work.constant if i == 0 else 0,
            )
            for i, variables in enumerate(parts)
        )
    else:
        # Sums of these numbers are beyond float64: only labels go, and core's own derivation keeps every digit.
        mask = np.zeros(len(problem.unary), dtype=np.bool_)
        mask[np.repeat(problem.label_ptr[:-1], work.counts) + work.lead_label] = True
        kept = (Part(problem.restrict(mask).problem, parts[0]),)
    report |= {
        "parts": len(kept),
        "variables left": sum(part.problem.num_variables for part in kept),
        "labels left": sum(len(part.problem.unary) for part in kept),
        "edges left": sum(part.problem.num_edges for part in kept),
    }
    return Reduced(tuple(part.problem for part in kept), None, report, work.error, steps, kept, work.size)


def _run(
    work: Work, active: Sequence[str], upkeep: bool, context: RunContext | None
) -> tuple[Work, tuple[Step, ...], dict[str, int], int, bool]:
    """Rounds of the active rules; a rule runs again only when something changed since it last changed nothing."""
    steps: list[Step] = []
    counts: dict[str, int] = {}
    version, clean = 0, dict.fromkeys(active, -1)
    changed = False

    def take(outcome: Outcome) -> Work:
        steps.extend(outcome.steps)
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
        return outcome.work

    if upkeep and active and work.heads:
        outcome = settle(work)
        work, changed = take(outcome), outcome.changed
    rounds = 0
    for _ in range(MOST_ROUNDS):
        before, load = version, len(work.unary) + len(work.edges)
        for name in active:
            if clean[name] == version:
                continue
            if context is not None and context.stop_reason() is not None:
                return work, tuple(steps), counts, rounds, changed
            outcome = RULES[name](work)
            if not outcome.changed:
                clean[name] = version
                continue
            work, changed, version = take(outcome), True, version + 1
            if upkeep and work.heads:
                work = take(settle(work))
        if version == before:
            break
        rounds += 1
        if load > SMALL and load - len(work.unary) - len(work.edges) < WORTHWHILE * load:
            break
    return work, tuple(steps), counts, rounds, changed
