"""The problem of a plan made again: its model traced, its strategies priced, its placements found among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import nn

from berthage import BerthageError, InvalidProblemError, Registry, UnknownNameError, load_registry
from berthage_nccl import CostModel, Mesh
from berthage_torch.graph import OpGraph
from berthage_torch.models import zoo
from berthage_torch.models.spec import ModelSpec
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import StrategySpace
from berthage_torch.searching.building import BuiltProblem, build_problem
from berthage_torch.searching.constraints import Constraints
from berthage_torch.searching.run import cost_model_of
from berthage_torch.tracing.trace_step import trace

from .plan import Plan
from .settings import Origin, Settings, constraints_of, inputs_of, parameters_of, plain, policy_of

__all__ = ["Model", "Retraced", "check_same_nodes", "retrace", "unknown_model"]

Model: TypeAlias = nn.Module | ModelSpec | tuple[nn.Module, Any]
"""A module, a model of the zoo, or a module with its inputs."""


@dataclass(frozen=True, eq=False)
class Retraced:
    """The model of a plan traced again, at its own or at other shapes and prices.

    Attributes:
        graph: The graph.
        pricer: Mesh and prices.
        cost_model: Where the prices come from.
        settings: What a search for it is asked.
        space: Where strategies are looked up.
    """

    graph: OpGraph
    pricer: Pricer
    cost_model: CostModel
    settings: Settings
    space: StrategySpace

    def build(self, *, demanding: bool = True, tie: Any = None) -> BuiltProblem:
        """Make the problem.

        Args:
            demanding: Whether under the demands of the plan, or under none.
            tie: Which nodes decide together; None for as in the plan.

        Raises:
            InvalidProblemError: A demand cannot be met by any strategy.
        """
        demands = constraints_of(self.settings.constraints) if demanding else Constraints()
        tie = self.settings.tie if tie is None else tie
        return build_problem(self.graph, self.pricer, demands, tie=tie, space=self.space)


def retrace(
    plan: Plan,
    *,
    model: Model | None = None,
    inputs: Any = None,
    sizes: Mapping[str, Any] | None = None,
    cost_model: str | CostModel | None = None,
    origin: Origin | None = None,
    registry: Registry | None = None,
) -> Retraced:
    """Trace the model of a plan again.

    Args:
        plan: The plan.
        model: The model; None builds it again where the plan is of a model of the zoo. A function that a plan names is
            never called: name it yourself.
        inputs: The inputs of ``model``, as `trace` takes them; None for those that come with it.
        sizes: Sizes of a zoo model that differ from the plan's.
        cost_model: Another cost model than the plan's.
        origin: What made ``model``.
        registry: Where names are looked up.

    Raises:
        InvalidProblemError: The model or the cost model is not known, or is another than the plan's.
        TraceError: The model cannot be traced.
    """
    prices = _prices(plan, cost_model, registry or load_registry())
    module, inputs, origin = _model(plan, model, inputs, sizes or {}, origin)
    graph = trace(module, inputs, policy=policy_of(plan.settings.policy))
    check_same_nodes(plan, graph)
    settings = dataclasses.replace(
        plan.settings, origin=origin, inputs=inputs_of(graph), parameters=parameters_of(graph)
    )
    if cost_model is not None:
        settings = dataclasses.replace(settings, cost_model=cost_model if isinstance(cost_model, str) else "")
    mesh = Mesh(tuple(plan.mesh), tuple(plan.mesh.values()))
    return Retraced(graph, Pricer(mesh, prices), prices, settings, StrategySpace(mesh))


def _prices(plan: Plan, given: str | CostModel | None, registry: Registry) -> CostModel:
    if given is not None:
        return cost_model_of(given, registry)
    name, key = plan.cost_model
    asked = plan.settings.cost_model or name
    try:
        found = cost_model_of(asked, registry)
    except (BerthageError, OSError) as error:
        raise InvalidProblemError(
            f"the cost model of the plan, {asked!r}, is not here: {error}. Name another: --cost-model NAME|FILE, or "
            "cost_model=…"
        ) from None
    if found.key != key:
        raise InvalidProblemError(
            f"the cost model {asked!r} has other content than when the plan was made; see what that changes with "
            f"`berthage reprice PLAN --cost-model {asked}`"
        )
    return found


def _model(
    plan: Plan, given: Model | None, inputs: Any, sizes: Mapping[str, Any], origin: Origin | None
) -> tuple[nn.Module, Any, Origin]:
    """The module, its inputs, and what made it."""
    if given is None:
        given = _from_zoo(plan, sizes)
    elif sizes:
        raise InvalidProblemError("sizes are those of a model of the zoo; a model that is handed over has its own")
    if isinstance(given, ModelSpec):
        made = origin or Origin(given.name, plain(given.sizes))
        return given.model, given.make_inputs if inputs is None else inputs, made
    module, own = given if isinstance(given, tuple) else (given, None)
    inputs = own if inputs is None else inputs
    if inputs is None:
        raise InvalidProblemError("a model needs its inputs, inputs=…")
    return module, inputs, origin or Origin()


def _from_zoo(plan: Plan, sizes: Mapping[str, Any]) -> ModelSpec:
    origin = plan.settings.origin
    if not origin.name or ":" in origin.name:
        raise InvalidProblemError(unknown_model(plan))
    try:
        return zoo.build(origin.name, **{**origin.sizes, **sizes})
    except UnknownNameError as error:
        raise InvalidProblemError(f"the plan's model: {error}; hand it over, model=…, inputs=…") from None


def unknown_model(plan: Plan) -> str:
    """Why the model of a plan cannot be made without being named, and the way out."""
    origin = plan.settings.origin
    if not origin.name:
        return (
            f"the plan does not say how its model {plan.model} is made, so its problem cannot be made again: name it, "
            "--model NAME|MODULE:FUNCTION, or hand it over, model=…, inputs=…"
        )
    return (
        f"the plan's model is what {origin.name!r} made, and code that a file names is run only when you name it too: "
        f"--model {origin.name}, or hand the model over, model=…, inputs=…"
    )


def check_same_nodes(plan: Plan, graph: OpGraph) -> None:
    """Make sure that a graph is of the model that a plan is of, its sizes aside.

    Raises:
        InvalidProblemError: It is not; the message names what differs.
    """
    mine = {node.name: (node.op, len(node.inputs), len(node.outputs)) for node in plan.nodes}
    theirs = {node.name: (node.op or node.kind, len(node.inputs), len(node.outputs)) for node in graph.nodes}
    wired = {(e.producer, e.output, e.consumer, e.position) for e in plan.edges if e.consumer}
    rewired = {
        graph.nodes[edge.consumer].name
        for edge in graph.edges()
        if (graph.nodes[edge.producer].name, edge.output, graph.nodes[edge.consumer].name, edge.position) not in wired
    }
    changed = {name for name in mine.keys() & theirs.keys() if mine[name] != theirs[name] or name in rewired}
    parts = {"new": theirs.keys() - mine.keys(), "gone": mine.keys() - theirs.keys(), "different": changed}
    told = [f"{len(names)} {what} ({_some(sorted(names))})" for what, names in parts.items() if names]
    if told:
        raise InvalidProblemError(
            f"the model is not the one that the plan is of ({plan.model}): of its nodes {'; '.join(told)}. Search "
            "again for the changed model"
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
