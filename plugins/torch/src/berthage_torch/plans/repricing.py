"""A plan at other shapes or prices: its placements are kept, all its costs are made anew."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from berthage import InvalidProblemError, evaluate

from .assigning import Misfit, labels_of
from .comparing import Difference
from .plan import Plan
from .planning import plan_at
from .retracing import retrace

__all__ = ["REPRICED", "Repriced", "reprice"]

REPRICED = "repriced"
"""The termination of a plan whose placements were found at other shapes or prices: nothing is proved of it."""


@dataclass(frozen=True, eq=False, slots=True)
class Repriced:
    """A plan at other shapes or prices.

    Attributes:
        before: The plan as it was.
        plan: The same placements with the new costs; without a bound, for what was proved was proved of the old ones.
            None when some placements are impossible.
        misfits: The placements that are impossible at the new shapes.
        broken: The demands that the placements do not meet there.
        difference: What each node and each part of the objective costs more; None without a plan.
    """

    before: Plan
    plan: Plan | None
    misfits: tuple[Misfit, ...]
    broken: tuple[str, ...]
    difference: Difference | None

    def require(self) -> Plan:
        """The plan.

        Raises:
            InvalidProblemError: There is none; the message names the placements that are impossible.
        """
        if self.plan is None:
            told = "; ".join(f"{each.node!r} as {each.placement}: {each.why}" for each in self.misfits[:5])
            more = f"; and {len(self.misfits) - 5} more" if len(self.misfits) > 5 else ""
            raise InvalidProblemError(f"the plan is impossible there: {told}{more}. Search again at these shapes")
        return self.plan


def reprice(plan: Plan, **changes: Any) -> Repriced:
    """Price a plan again. See `Plan.reprice`."""
    again = retrace(plan, **changes)
    # What is alike at the new shapes need not have been alike at the old ones: every node stands for itself.
    built = again.build(demanding=False, tie="none")
    x, misfits = labels_of(plan, built)
    if x is None:
        return Repriced(plan, None, misfits, (), None)
    evaluation = evaluate(built.problem, x)
    impossible = tuple(
        Misfit(violation.name, "", violation.detail)
        for violation in evaluation.violations
        if violation.kind.startswith("forbidden")
    )
    if impossible:
        return Repriced(plan, None, impossible, (), None)
    under = again.build(tie="none")
    y, misfits = labels_of(plan, under)
    if y is None:
        return Repriced(plan, None, misfits, (), None)
    demanded = evaluate(under.problem, y)
    priced = plan_at(
        built,
        x,
        demanded,
        model=plan.model,
        cost_model=again.cost_model,
        solver=plan.solver,
        termination=REPRICED,
        bound=-math.inf,
        settings=again.settings,
    )
    groups = {node.name: node.group for node in plan.nodes}
    nodes = tuple(dataclasses.replace(node, group=groups[node.name]) for node in priced.nodes)
    priced = dataclasses.replace(priced, nodes=nodes)
    broken = tuple(dict.fromkeys(violation.name for violation in demanded.violations))
    return Repriced(plan, priced, (), broken, plan.diff(priced))
