"""Why a node is placed as it is: what it costs, what came second, and what another placement would cost downstream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .comparing import Change
from .placed import PlannedEdge, PlannedNode, strategy

if TYPE_CHECKING:
    from berthage import Registry
    from berthage_torch.searching.building import BuiltProblem
    from berthage_torch.searching.run import SearchResult

    from .plan import Plan

__all__ = ["Alternative", "Explanation", "explain"]


@dataclass(frozen=True, eq=False, slots=True)
class Alternative:
    """Another placement of a node, and what it would cost. Differences are in microseconds, of all copies together.

    Attributes:
        asked: The placement that was asked for; "" for the runner-up, the best plan that places the node otherwise.
        strategy: The strategy that the best plan with this placement gives the node; where there is no such plan, the
            one that costs least with all else kept.
        alone_strategy: The strategy of this placement that costs least with all else kept.
        alone_us: What that costs more than the plan; None when it is impossible.
        broken: The demands that the change alone would break.
        downstream_us: What the best plan with this placement costs more when all else is free to move; None when there
            is none or none was found.
        least_us: It can be no less than this; -inf when nothing is proved.
        termination: Why the search for that plan stopped.
        reason: Why there is no such plan; "" when there is.
        plan: That plan.
        changes: The other nodes that it places differently.
    """

    asked: str
    strategy: str
    alone_strategy: str
    alone_us: float | None
    broken: tuple[str, ...]
    downstream_us: float | None
    least_us: float
    termination: str
    reason: str
    plan: Plan | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Explanation:
    """What a node does in a plan, and what else it could do.

    Attributes:
        node: The node, with its compute.
        strategy: Its strategy, ``"S(0)R, RS(1) -> S(0)S(1)"``.
        copies: How many nodes decided together with it, itself included.
        arguments: The moves of its arguments to it, by position.
        shared: For arguments with several users, the moves to the copies that they share.
        outgoing: The moves of its outputs.
        choices: How many strategies it could choose from; None when the problem was not made again.
        runner_up: The best plan that places it otherwise; None when it was not asked for or there is no choice.
        against: The placements that were asked about.
    """

    node: PlannedNode
    strategy: str
    copies: int
    arguments: tuple[PlannedEdge, ...]
    shared: tuple[PlannedEdge, ...]
    outgoing: tuple[PlannedEdge, ...]
    choices: int | None = None
    runner_up: Alternative | None = None
    against: tuple[Alternative, ...] = ()


def explain(
    plan: Plan,
    name: str,
    *,
    against: str | Sequence[str] = (),
    runner_up: bool = True,
    problem: SearchResult | BuiltProblem | None = None,
    time_limit: float | None = None,
    registry: Registry | None = None,
    **model: Any,
) -> Explanation:
    """Explain a node of a plan. See `Plan.explain`."""
    node = plan.node(name)
    arguments = tuple(edge for edge in plan.edges if edge.consumer == node.name)
    taken = {(edge.producer, edge.output) for edge in arguments}
    told = Explanation(
        node,
        strategy(node.inputs, node.outputs),
        plan.multiplicity(node.name),
        arguments,
        tuple(edge for edge in plan.edges if not edge.consumer and (edge.producer, edge.output) in taken),
        tuple(edge for edge in plan.edges if edge.producer == node.name),
    )
    asked = (against,) if isinstance(against, str) else tuple(against)
    if not (asked or runner_up):
        return told
    from .alternatives import Alternatives, problem_of

    built = problem_of(plan, problem, registry, model)
    others = Alternatives(plan, node, built, time_limit, registry)
    return dataclasses.replace(
        told,
        choices=others.choices,
        runner_up=others.runner_up() if runner_up else None,
        against=tuple(others.placed(text) for text in asked),
    )
