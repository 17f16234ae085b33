"""Other strategies of one node of a plan: what they cost alone, and what the best plans that have them cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, Registry, SolveResult, evaluate, load_registry, solve
from berthage_nccl import placements as codes
from berthage_torch.pricing.strategies import Strategies
from berthage_torch.searching.building import BuiltProblem, build_problem
from berthage_torch.searching.demands import placement_of

from .assigning import Followers, labels_of
from .comparing import Change
from .explaining import Alternative
from .nearest import nearest
from .placed import PlannedNode
from .plan import Plan
from .planning import plan_at
from .retracing import retrace

if TYPE_CHECKING:
    from berthage_torch.searching.run import SearchResult

__all__ = ["Alternatives", "problem_of"]

Labels = npt.NDArray[np.int64]


def problem_of(
    plan: Plan, given: SearchResult | BuiltProblem | None, registry: Registry | None, model: Mapping[str, Any]
) -> BuiltProblem:
    """The problem of a plan: the one at hand, or made again with ``model`` as `retrace` takes it.

    After a search near a seed it is made again too, of the same graph: what else there is, is asked of everything.
    """
    if given is None:
        return retrace(plan, registry=registry, **model).build()
    if isinstance(given, BuiltProblem):
        return given
    built = given.built
    if given.seeding is None:
        return built
    return build_problem(built.graph, built.pricer, given.constraints, tie=plan.settings.tie)


class Alternatives:
    """What other strategies of one node of a plan would cost, in the problem that the plan solves."""

    def __init__(
        self, plan: Plan, node: PlannedNode, built: BuiltProblem, time_limit: float | None, registry: Registry | None
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
        self._followers = Followers(built)
        effort = plan.settings.params
        limit = effort.time_limit if time_limit is None else time_limit
        self._params = dataclasses.replace(effort, time_limit=limit, cutoff=None)  # what costs more is asked for here
        self._registry = registry or load_registry()

    @property
    def choices(self) -> int:
        """How many strategies the node has."""
        return len(self.space)

    def runner_up(self) -> Alternative | None:
        """The best plan with any strategy of the node but the chosen one; None when there is no other."""
        others = np.delete(np.arange(self.choices, dtype=np.int64), int(self.x[self.variable]))
        return self._answer("", others) if len(others) else None

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
        alone, alone_label, broken = self._alone(labels)
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

    def _alone(self, labels: Labels) -> tuple[float, int, tuple[str, ...]]:
        """The cheapest of some labels with all else kept; one that breaks nothing comes before those that do.

        Returns:
            What it costs more (inf when impossible), which it is, and the demands that it breaks.
        """
        tried = []
        for label in labels.tolist():
            x = self.x.copy()
            x[self.variable] = label
            self._followers.settle(x)
            found = evaluate(self.built.problem, x)
            tried.append((not found.feasible, float(found.objective), label, found.violations))
        _, objective, label, violations = min(tried, key=lambda each: each[:3])
        return objective - float(self.evaluation.objective), label, tuple(dict.fromkeys(v.name for v in violations))

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
        if result.assignment is None:
            return result, None
        return result, nearest(self.built.problem, derived.lift(result.assignment), self.x, self.variable)


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


def _why(result: SolveResult) -> str:
    """Why a solve has no assignment."""
    reason = result.infeasibility
    if reason is None:
        return result.termination.detail or result.termination.reason.value.replace("_", " ")
    return reason.detail or f"these clash: {', '.join(reason.constraints)}"
