"""What a rule returns, and how it says that there is no assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berthage import Infeasibility
from berthage_presolve.lifting import Step
from berthage_presolve.state import Work


@dataclass(frozen=True, slots=True)
class Outcome:
    """A smaller `Work`, the way back, and what was removed.

    Attributes:
        work: After the rule.
        steps: Steps in the order in which they were taken; empty when nothing changed.
        counts: What was removed, by name, to add up over rounds.
        changed: Whether anything changed (a budget may shrink without a step).
    """

    work: Work
    steps: tuple[Step, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    changed: bool = False


class Contradiction(Exception):
    """There is no assignment. A result rather than an error: the engine catches it."""

    def __init__(self, infeasibility: Infeasibility) -> None:
        super().__init__(infeasibility.detail)
        self.infeasibility = infeasibility
