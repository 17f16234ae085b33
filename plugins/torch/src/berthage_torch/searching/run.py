"""`search` and `run_search`: from a module, its inputs and a mesh to a plan."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from berthage import Capability, PlacementProblem, Registry, SolveParams, SolveResult, load_registry
from berthage.seeding import SeedCache
from berthage_nccl import CostModel, Mesh
from berthage_torch.graph import OpGraph
from berthage_torch.models.spec import ModelSpec
from berthage_torch.plans.plan import Plan
from berthage_torch.plans.planning import make_plan
from berthage_torch.plans.settings import (
    Origin,
    Settings,
    constraints_document,
    effort_document,
    plain,
    policy_document,
)
from berthage_torch.policy import MixedPrecision
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.tracing.trace_step import trace

from .building import BuiltProblem
from .constraints import Constraints, PeakMemory
from .folding import Tie
from .left_out import LeftOut, left_out
from .memory import MemoryTimeline, memory_of
from .seed_report import SeedReport, seed_document
from .seeding import Seeding, radius_for
from .solvers import solver_of
from .step import Phases, Step

__all__ = [
    "SearchResult",
    "cost_model_of",
    "default_constraints",
    "mesh_of",
    "run_search",
    "search",
]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found and how it went.

    Attributes:
        plan: The plan, or None when the solver has no assignment; `result` says why.
        result: The solver's checked result.
        built: The problem and what its variables stand for.
        constraints: The demands that held, those a model of the zoo brings included.
        timings: ``(CPU, wall)`` seconds by phase, and of all as ``total``.
        untied: With ``report_tying``, the result of the search that ties nothing.
        seeding: What was searched near which seed; None when no seed was made. `result` then is about the whole step:
            its bound and its termination do not rest on the restriction, and what is proved within it is in here.
    """

    plan: Plan | None
    result: SolveResult
    built: BuiltProblem
    constraints: Constraints
    timings: Mapping[str, tuple[float, float]]
    untied: SolveResult | None = None
    seeding: SeedReport | None = None

    @property
    def problem(self) -> PlacementProblem:
        """The problem that was solved."""
        return self.built.problem

    @cached_property
    def memory(self) -> MemoryTimeline | None:
        """What a rank holds over time, with the optimizer's state that `Constraints.peak_memory` names, or AdamW's."""
        peak = self.constraints.peak_memory
        optimizer = peak.optimizer if isinstance(peak, PeakMemory) else "adamw"
        return None if self.plan is None else memory_of(self.plan, self.built.graph, optimizer=optimizer)

    @cached_property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Strategies that were not offered because of the sizes of tensors, by operation."""
        return left_out(self.built.strategies)


def run_search(
    model: nn.Module | ModelSpec,
    inputs: Any,
    mesh: Mesh | str | Mapping[str, int],
    *,
    solver: str = "trws",
    constraints: Constraints | Callable[[OpGraph, Mesh], Constraints] | None = None,
    cost_model: str | CostModel = "nccl-h100",
    policy: MixedPrecision | None = None,
    tie: Tie = "layers",
    params: SolveParams | None = None,
    options: Mapping[str, Any] | object | None = None,
    presolve: bool | tuple[str, ...] = True,
    report_tying: bool = False,
    seed_radius: int | None = 2,
    seed_mode: str = "restrict",
    seed_bound: str = "",
    seed_cache: SeedCache | None = None,
    repeat_layers: bool = True,
    graph: OpGraph | None = None,
    origin: Origin | None = None,
    registry: Registry | None = None,
    progress: Callable[[str], None] = lambda phase: None,
) -> SearchResult:
    """Search a placement of a training step on a mesh. Needs no GPU and no process group.

    Args:
        model: An unmodified module, or a model of the zoo, which brings inputs, policy and constraints of its own.
        inputs: As `trace` takes them; None with a model of the zoo.
        mesh: The mesh, ``"dp=8,tp=8"``, or sizes by name.
        solver: Name of any registered solver, or ``approx``, see `solver_of`.
        constraints: Demands on the plan, or a function that makes them once the graph is there; None for those of the
            zoo, or none.
        cost_model: Name of a cost model, path of a profile, or the model itself.
        policy: Mixed precision; None for the zoo's, or every tensor in the dtype it has.
        tie: See `berthage_torch.searching.folding.fold`.
        params: Limits, gap, seed, threads.
        options: The solver's own options.
        presolve: As `berthage.solve` takes it.
        report_tying: Search again with nothing tied, to tell what tying costs.
        seed_radius: On meshes of more than two dimensions, ``trws`` and ``trws-lazy`` search only strategies whose
            output placement differs from a seed's on at most so many mesh dimensions. None or 0 searches everything, as
            other solvers and smaller meshes always do.
        seed_mode: ``"restrict"``, or ``"warm"`` to start from the seed and search everything.
        seed_bound: Name of a solver that bounds the unrestricted problem after a restricted search; "" for the least
            compute of every node, which is cheap and weak.
        seed_cache: What was solved for seeds before, to be shared by several searches; None remembers nothing.
        repeat_layers: See `trace`.
        graph: The traced step, where it is there already; nothing is traced then.
        origin: What made the model, kept in the plan so that its problem can be made again; known for the zoo's.
        registry: Where names are looked up.
        progress: Told of each phase as it begins.

    Raises:
        TraceError: The model cannot be traced.
        InvalidProblemError: A demand names nothing or cannot be met by any strategy.
        OptionError: ``seed_radius`` is not below the number of mesh dimensions, or another option is wrong.
    """
    registry = registry or load_registry()
    tie = tie if isinstance(tie, str) else [group if isinstance(group, str) else list(group) for group in tie]
    mesh = mesh_of(mesh)
    prices = cost_model_of(cost_model, registry)
    solver = solver_of(solver, registry)
    seeding = Seeding(seed_radius, seed_mode, bound=seed_bound, cache=seed_cache)
    radius = radius_for(seeding, solver, mesh)  # refused before the model is traced
    name = type(model).__name__
    if isinstance(model, ModelSpec):
        name, policy, inputs = model.name, policy or model.policy, inputs or model.make_inputs
    module = model.model if isinstance(model, ModelSpec) else model
    phases = Phases(progress)
    began, start = time.process_time(), time.perf_counter()
    if graph is None:
        graph = phases.run("trace", lambda: trace(module, inputs, policy=policy, repeat_layers=repeat_layers))
    if constraints is None and isinstance(model, ModelSpec):
        constraints = default_constraints(model, graph, mesh)
    elif callable(constraints):
        constraints = constraints(graph, mesh)
    constraints = constraints or Constraints()
    pricer = Pricer(mesh, prices, lazy=Capability.LAZY_TABLES in registry.solver(solver).capabilities)
    step = Step(graph, pricer, constraints, name, solver, params or SolveParams(), options, presolve, registry)
    built, result, report = step.search(tie, seeding, radius, phases)
    asked = Settings(
        origin=origin or (Origin(model.name, plain(model.sizes)) if isinstance(model, ModelSpec) else Origin()),
        cost_model=cost_model if isinstance(cost_model, str) else "",
        policy=policy_document(policy),
        tie=plain(tie),
        constraints=constraints_document(constraints),
        options=plain(options or {}),
        effort=effort_document(params, presolve),
        seeding=seed_document(report) if report is not None else None,
    )

    plan = None
    if result.assignment is not None:
        plan = phases.run("plan", lambda: make_plan(built, result, model=name, cost_model=prices, settings=asked))
    untied = None
    if report_tying:
        untied = phases.run("untied", lambda: step.search("none", seeding, radius, Phases())[1])
    phases.seconds["total"] = (time.process_time() - began, time.perf_counter() - start)
    return SearchResult(plan, result, built, constraints, dict(phases.seconds), untied, report)


def search(model: nn.Module | ModelSpec, inputs: Any, mesh: Mesh | str | Mapping[str, int], **settings: Any) -> Plan:
    """Search a plan; `run_search` takes the same arguments and tells more.

    Raises:
        SolutionUnavailableError: There is no plan; the message says why.
    """
    found = run_search(model, inputs, mesh, **settings)
    if found.plan is None:
        found.result.require()
    assert found.plan is not None  # require() raises without an assignment
    return found.plan


def default_constraints(spec: ModelSpec, graph: OpGraph, mesh: Mesh) -> Constraints:
    """The demands a model of the zoo brings: placements of inputs and outputs by axis name, least parameter memory."""
    pairs = {"inputs": (spec.inputs, graph.inputs), "outputs": (spec.outputs, graph.outputs)}
    placed = {
        side: {graph.nodes[node].name: rule(mesh.names) for rule, node in zip(rules, nodes, strict=False)}
        for side, (rules, nodes) in pairs.items()
    }
    memory = spec.parameter_memory or None
    return Constraints(inputs=placed["inputs"], outputs=placed["outputs"], parameter_memory=memory)


def cost_model_of(given: str | CostModel, registry: Registry) -> CostModel:
    """A cost model by name, or by the path of a profile."""
    if isinstance(given, CostModel):
        return given
    if os.sep in given or Path(given).suffix in (".toml", ".json"):
        from berthage_nccl import cost_model

        return cost_model(given)
    made: CostModel = registry.create_cost_model(given)
    return made


def mesh_of(given: Mesh | str | Mapping[str, int]) -> Mesh:
    """A mesh as it is written: ``"dp=8,tp=8"``, or sizes by name."""
    if isinstance(given, Mesh):
        return given
    if isinstance(given, str):
        return Mesh.parse(given)
    return Mesh(tuple(given), tuple(given.values()))
