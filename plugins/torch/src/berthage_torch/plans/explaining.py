"""Why a node is placed as it is: what it costs, what came second, and what another placement would cost downstream."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, PlacementProblem, Registry, SolveResult, evaluate, load_registry, solve
from berthage_nccl import placements as codes
from berthage_torch.pricing.strategies import Strategies
from berthage_torch.searching.building import BuiltProblem
from berthage_torch.searching.demands import placement_of

from .comparing import Change
from .placed import PlannedEdge, PlannedNode
from .plan import Plan
from .planning import plan_at
from .retracing import labels_of, retrace, strategy

if TYPE_CHECKING:
    from berthage_torch.searching.run import SearchResult

__all__ = ["Alternative", "Explanation", "explain"]

Labels = npt.NDArray[np.int64]


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
    if problem is None:
        built = retrace(plan, registry=registry, **model).build()
    else:
        built = problem if isinstance(problem, BuiltProblem) else problem.built
    questions = _Questions(plan, node, built, time_limit, registry or load_registry())
    return dataclasses.replace(
        told,
        choices=len(questions.space),
        runner_up=questions.otherwise() if runner_up and len(questions.space) > 1 else None,
        against=tuple(questions.placed(text) for text in asked),
    )


class _Questions:
    """What another choice of one node would cost."""

    def __init__(
        self, plan: Plan, node: PlannedNode, built: BuiltProblem, time_limit: float | None, registry: Registry
    ) -> None:
        _check(plan, built)
        x, misfits = labels_of(plan, built)
        if x is None:
            first = misfits[0]
            raise InvalidProblemError(
                f"the plan does not fit the problem: {first.node!r} placed {first.placement}: {first.why}"
            )
        self.plan, self.node, self.built, self.x = plan, node, built, x
        index = built.graph.by_name[node.name].index
        self.space: Strategies = built.strategies[index]
        self.variable = int(built.variable[index])
        self.evaluation = evaluate(built.problem, x)
        effort = plan.settings.params
        limit = effort.time_limit if time_limit is None else time_limit
        self._params = dataclasses.replace(effort, time_limit=limit, cutoff=None)  # what costs more is asked for here
        self._registry = registry

    def otherwise(self) -> Alternative:
        """The runner-up: any strategy but the chosen one."""
        chosen = int(self.x[self.variable])
        return self._answer("", np.delete(np.arange(len(self.space), dtype=np.int64), chosen))

    def placed(self, text: str) -> Alternative:
        """A placement of the first output (of the first argument of a node without outputs), or a whole strategy."""
        if "->" in text:
            squeezed = "".join(text.split())
            hits = [k for k in range(len(self.space)) if "".join(self.space.name(k).split()) == squeezed]
        else:
            side = self.space.outputs if self.space.outputs.shape[1] else self.space.inputs
            wanted = placement_of(text, self.built.pricer.mesh, self.node.name)
            hits = np.flatnonzero((side[:, 0] == wanted).all(axis=1)).tolist() if side.shape[1] else []
        if not hits:
            raise InvalidProblemError(f"{self.node.name!r} cannot be placed {text!r}; it can be {self._possible(text)}")
        return self._answer(text, np.array(hits, dtype=np.int64))

    def _possible(self, text: str) -> str:
        if "->" in text:
            names = [self.space.name(k) for k in range(len(self.space))]
        else:
            side = self.space.outputs if self.space.outputs.shape[1] else self.space.inputs
            names = sorted({codes.format(row) for row in side[:, 0].tolist()}) if side.shape[1] else ["nothing"]
        return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")

    def _answer(self, asked: str, labels: Labels) -> Alternative:
        base = float(self.evaluation.objective)
        alone, alone_label = self._alone(labels)
        changed = self.x.copy()
        changed[self.variable] = alone_label
        broken = tuple(dict.fromkeys(v.name for v in evaluate(self.built.problem, changed).violations))
        result, found = self._solve(labels)
        plan: Plan | None = None
        name, dearer = self.space.name(alone_label), None
        changes: tuple[Change, ...] = ()
        if found is not None:
            name = self.space.name(int(found[self.variable]))
            plan = self._plan(result, found)
            dearer = plan.objective - base
            changes = self._elsewhere(plan)
        return Alternative(
            asked=asked,
            strategy=name,
            alone_strategy=self.space.name(alone_label),
            alone_us=alone if math.isfinite(alone) else None,
            broken=broken,
            downstream_us=dearer,
            least_us=float(result.bound) - base,
            termination=result.termination.reason.value,
            reason="" if found is not None else _why(result),
            plan=plan,
            changes=changes,
        )

    def _plan(self, result: SolveResult, found: npt.NDArray[np.int32]) -> Plan:
        return plan_at(
            self.built,
            found,
            evaluate(self.built.problem, found),
            model=self.plan.model,
            cost_model=self.built.pricer.cost_model,  # type: ignore[arg-type]  # a plan's is one that explains itself
            solver=result.solver,
            termination=result.termination.reason.value,
            bound=float(result.bound),
            settings=self.plan.settings,
        )

    def _elsewhere(self, plan: Plan) -> tuple[Change, ...]:
        """The nodes that another plan places differently, those that decide together with this one aside."""
        return tuple(
            change
            for change in self.plan.diff(plan).placed_elsewhere
            if change.before is not None and change.before.group != self.node.group
        )

    def _alone(self, labels: Labels) -> tuple[float, int]:
        """What the cheapest of some labels costs more with all else kept (inf when impossible), and which it is.

        One that breaks nothing comes before those that do.
        """
        costs = _costs_of(self.built.problem, self.x, self.variable)
        order = labels[np.argsort(costs[labels], kind="stable")]
        kept = self.x.copy()
        for label in order.tolist():
            kept[self.variable] = label
            if math.isfinite(costs[label]) and evaluate(self.built.problem, kept).feasible:
                break
        else:
            label = int(order[0])
        return float(costs[label] - costs[self.x[self.variable]]), int(label)

    def _solve(self, labels: Labels) -> tuple[SolveResult, npt.NDArray[np.int32] | None]:
        """The best plan in which the node takes one of some labels, by the plan's own solver."""
        derived = self.built.problem.restrict({self.variable: labels.tolist()})
        settings = self.plan.settings
        result = solve(
            derived.problem,
            self.plan.solver,
            params=self._params,
            options=dict(settings.options),
            presolve=settings.presolve,
            registry=self._registry,
        )
        return result, None if result.assignment is None else derived.lift(result.assignment)


def _check(plan: Plan, built: BuiltProblem) -> None:
    """Make sure that a problem is the plan's own."""
    mesh = built.pricer.mesh
    if dict(zip(mesh.names, mesh.sizes, strict=True)) != dict(plan.mesh):
        raise InvalidProblemError(f"the problem is for the mesh {mesh}, the plan for {dict(plan.mesh)}")
    if built.graph.key != plan.graph_key:
        raise InvalidProblemError(
            "the problem is of another model than the plan, or at other shapes; price the plan there first: reprice"
        )
    if built.pricer.cost_model.key != plan.cost_model[1]:
        raise InvalidProblemError("the problem has prices of another cost model; price the plan by it first: reprice")


def _costs_of(problem: PlacementProblem, x: npt.NDArray[np.int32], variable: int) -> npt.NDArray[np.float64]:
    """What each label of a variable costs, with its edges, when all else is kept: ``float64[K]``."""
    costs = problem.unary_of(variable) * problem.multiplicity[variable]
    labels = np.arange(len(costs))
    ends = ((problem.edge_u, problem.edge_v, False), (problem.edge_v, problem.edge_u, True))
    for near, far, flipped in ends:
        for edge in np.flatnonzero(near == variable).tolist():
            table, other = problem.tables[problem.edge_table[edge]], x[far[edge]]
            priced = table.lookup(other, labels) if flipped else table.lookup(labels, other)
            costs = costs + priced * problem.edge_multiplicity[edge]
    return np.asarray(costs, dtype=np.float64)


def _why(result: SolveResult) -> str:
    """Why a solve has no assignment."""
    reason = result.infeasibility
    if reason is None:
        return result.termination.detail or result.termination.reason.value.replace("_", " ")
    names: Iterable[str] = reason.constraints
    return reason.detail or "these clash: " + ", ".join(names)
