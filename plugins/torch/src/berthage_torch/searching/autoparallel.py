"""`AutoParallel`: the search behind the interface of meta-pytorch/autoparallel, so that its users change an import."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from torch import nn

from berthage import (
    OptionError,
    Reason,
    Registry,
    SolutionUnavailableError,
    SolveParams,
    SolveResult,
    load_registry,
    solve,
)
from berthage_nccl import CostModel, Mesh
from berthage_nccl import placements as codes
from berthage_torch.graph import OpGraph, resolve_placements
from berthage_torch.marks import to_codes
from berthage_torch.plans.plan import Plan
from berthage_torch.policy import MixedPrecision
from berthage_torch.tracing.trace_step import trace

from .constraints import Constraints, PeakMemory
from .folding import Tie
from .run import SearchResult, mesh_of, run_search
from .solvers import solver_of

if TYPE_CHECKING:
    from berthage_torch.applying.module import ParallelModule

__all__ = ["AutoParallel", "Certificate", "Solution"]

_ELSEWHERE: Final = ("compile", "enable_ac", "ac_stage_size_in_GiB", "reshard_after_forward", "numerics_logger")
"""What the other library's class takes and has no meaning for a search."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What the linear relaxation proves of a solution.

    Attributes:
        bound: No placement under the same constraints takes less, microseconds.
        gap: How far above it the solution may be, as a share of the solution's objective.
        integral: Whether the relaxation itself is a placement, and the bound therefore the optimum.
        seconds: Wall seconds that it took.
    """

    bound: float
    gap: float
    integral: bool
    seconds: float


@dataclass(frozen=True, eq=False)
class Solution:
    """A plan that `AutoParallel.optimize_placement` found.

    Attributes:
        plan: The plan.
        found: All that is known of the search.
        certificate: The check of optimality, if one was asked for.
    """

    plan: Plan
    found: SearchResult
    certificate: Certificate | None = None

    @property
    def objective(self) -> float:
        """Predicted microseconds of a step."""
        return self.plan.objective


class AutoParallel:
    """Searches and applies a placement of a model's tensors, as a context manager.

    Args:
        model: The module; it is not changed.
        input_fn: Makes the inputs of the whole step: a tensor, or a tuple of arguments.
        mesh: A torch ``DeviceMesh``, or a mesh as `search` takes it.
        mp_policy: Mixed precision: ours, or torch's ``MixedPrecisionPolicy``.
        solver: Name of the solver that `optimize_placement` uses unless told otherwise: ``ilp``, ``lp``, ``approx``, or
            any other that is registered.
        strategy_radius: On meshes of more than two dimensions ``approx`` looks at most so far from a seed; see the
            ``seed_radius`` of `run_search`.
        cost_model: Name of a cost model, path of a profile, or the model itself.
        tie: Which nodes decide together, see `fold`.
        attention: See `trace`.
        dynamic: Trace for every batch size.
        registry: Where names are looked up.
        **elsewhere: What the other library takes for compiling and running (``compile``, ``enable_ac``,
            ``ac_stage_size_in_GiB``, ``reshard_after_forward``, ``numerics_logger``) is taken with a warning.

    Attributes:
        mesh: The mesh.
        graph: The traced step, from the beginning of the context on.
        constraints: The demands made so far; immutable, each can be removed by its name.
        solution: What was found last, None before.
    """

    graph: OpGraph

    def __init__(
        self,
        model: nn.Module,
        input_fn: Callable[[], Any],
        mesh: Any,
        mp_policy: Any = None,
        *,
        solver: str = "ilp",
        strategy_radius: int | None = 2,
        cost_model: str | CostModel = "nccl-h100",
        tie: Tie = "layers",
        attention: str = "gpu",
        dynamic: bool = False,
        registry: Registry | None = None,
        **elsewhere: Any,
    ) -> None:
        for name in elsewhere:
            if name not in _ELSEWHERE:
                raise TypeError(f"AutoParallel takes no argument {name!r}")
            warnings.warn(f"AutoParallel: {name} has no meaning for a search and is passed over", stacklevel=2)
        self._registry = registry or load_registry()
        self._model, self._input_fn = model, input_fn
        self._device_mesh = mesh if hasattr(mesh, "mesh_dim_names") else None
        self.mesh = _mesh(mesh)
        self._policy = _policy(mp_policy)
        self._solver = solver_of(solver, self._registry)
        self._radius, self._cost_model, self._tie = strategy_radius, cost_model, tie
        self._attention, self._dynamic = attention, dynamic
        self.constraints = Constraints()
        self.solution: Solution | None = None

    def __enter__(self) -> AutoParallel:
        """Trace the step."""
        self.graph = trace(
            self._model,
            self._input_fn,
            policy=self._policy,
            attention=self._attention,
            dynamic_batch=self._dynamic,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing is held open: solutions can be applied and searched for afterwards too."""

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """The names of the demands."""
        return self.constraints.names

    def add_input_constraints(self, placements: Sequence[Any]) -> None:
        """Place the tensor inputs.

        Args:
            placements: One entry a tensor input, None to demand nothing of it: a sequence of torch placements, one a
                mesh dimension, or ours, ``"S(0)R"``.
        """
        self.constraints = self.constraints.with_(inputs=self._each(placements, self._traced().inputs, "input"))

    def add_output_constraints(self, placements: Sequence[Any]) -> None:
        """The same of the tensor outputs."""
        self.constraints = self.constraints.with_(outputs=self._each(placements, self._traced().outputs, "output"))

    def add_parameter_memory_constraint(self, low: float | None = None, high: float | None = None) -> None:
        """Limit the parameters that a rank keeps.

        Args:
            low: Least, in bytes or as a share of all parameters; None for 0.
            high: Most, likewise (a share when at most 1); None, with ``low`` None, for the least possible.
        """
        if low is None and high is None:
            self.constraints = self.constraints.with_(parameter_memory="least")
            return
        high = 1.0 / self.mesh.ranks if high is None else high
        self.constraints = self.constraints.with_(parameter_memory=(low or 0.0, high))

    def add_peak_memory_constraint(
        self, limit: float, *, optimizer: str | float = "adamw", price: float | None = None
    ) -> None:
        """Limit what a rank holds at any instant; see `PeakMemory`."""
        self.constraints = self.constraints.with_(peak_memory=PeakMemory(limit, optimizer, price))

    def add_node_constraint(self, node: str, placement: Any) -> None:
        """Place the first output of a node or a parameter, by name or pattern; its name is then ``pin NODE``."""
        self.constraints = self.constraints.with_(pins={node: self._placement(placement, f"pin {node}")})

    add_parameter_constraint = add_node_constraint

    def remove_constraint(self, *names: str) -> None:
        """Take demands away by their names, as if they had never been made.

        Raises:
            InvalidProblemError: There is none of that name; the message lists those there are.
        """
        self.constraints = self.constraints.without(*names)

    def optimize_placement(
        self,
        solver: str | None = None,
        approximate_options: Mapping[str, Any] | None = None,
        optimality_check: bool = False,
        verbose: bool = False,
    ) -> Solution:
        """Search. Can be called again with another solver or other demands.

        Args:
            solver: Name of the solver; None for the one given at the start.
            approximate_options: For whichever solver runs: fields of `SolveParams` (``time_limit``,
                ``iteration_limit``, ``seed``, …) and the solver's own options.
            optimality_check: Solve the linear relaxation too, and say in `Solution.certificate` what it proves.
            verbose: Tell the phases as they begin.

        Raises:
            SolutionUnavailableError: There is no plan; the message says why, and of a fractional relaxation that
                ``ilp`` is what to ask for.
        """
        name = self._solver if solver is None else solver_of(solver, self._registry)
        given = dict(approximate_options or {})
        known = {each.name for each in fields(SolveParams)}
        params = SolveParams(**{key: value for key, value in given.items() if key in known})
        found = run_search(
            self._model,
            self._input_fn,
            self.mesh,
            solver=name,
            constraints=self.constraints,
            cost_model=self._cost_model,
            policy=self._policy,
            tie=self._tie,
            params=params,
            options={key: value for key, value in given.items() if key not in known} or None,
            seed_radius=self._radius,
            graph=self._traced(),
            registry=self._registry,
            progress=print if verbose else lambda phase: None,
        )
        if found.plan is None:
            raise SolutionUnavailableError(_why(name, found.result))
        certificate = self._certificate(found, params) if optimality_check else None
        if certificate is not None and certificate.bound > found.plan.bound:
            found = replace(found, plan=replace(found.plan, bound=min(certificate.bound, found.plan.objective)))
        assert found.plan is not None  # as before
        self.solution = Solution(found.plan, found, certificate)
        return self.solution

    def apply_placement(self, solution: Solution | Plan | None = None) -> ParallelModule:
        """Make the module that runs as a solution says; every rank of the mesh calls it. See `apply_plan`.

        Args:
            solution: A solution or a plan; None for what was found last.

        Raises:
            SolutionUnavailableError: Nothing was found yet.
        """
        chosen = solution or self.solution
        if chosen is None:
            raise SolutionUnavailableError("there is nothing to apply: call optimize_placement first")
        from berthage_torch.applying.module import apply_plan

        plan = chosen.plan if isinstance(chosen, Solution) else chosen
        return apply_plan(plan, self._model, self._input_fn, device_mesh=self._device_mesh, attention=self._attention)

    # -- inside -----------------------------------------------------------------------------------

    def _traced(self) -> OpGraph:
        if not hasattr(self, "graph"):
            raise OptionError("AutoParallel is a context manager: with AutoParallel(...) as auto: ...")
        return self.graph

    def _each(self, placements: Sequence[Any], nodes: Sequence[int], what: str) -> dict[str, str]:
        if len(placements) != len(nodes):
            raise OptionError(
                f"{len(placements)} placements for {len(nodes)} tensor {what}s; give one for each, None for none"
            )
        names = [self._traced().nodes[index].name for index in nodes]
        return {
            name: self._placement(entry, f"{what} {name}")
            for name, entry in zip(names, placements, strict=True)
            if entry is not None
        }

    def _placement(self, entry: Any, what: str) -> str:
        if isinstance(entry, str):
            return entry
        try:
            return codes.format(resolve_placements(to_codes(entry), self.mesh.names))
        except ValueError as error:
            raise OptionError(f"{what}: {error}") from None

    def _certificate(self, found: SearchResult, params: SolveParams) -> Certificate:
        relaxed = solve(
            found.problem,
            "lp",
            params=SolveParams(time_limit=params.time_limit, seed=params.seed, threads=params.threads),
            registry=self._registry,
        )
        assert found.plan is not None  # by the caller
        objective = found.plan.objective
        bound = max(relaxed.bound, found.plan.bound)
        gap = max(0.0, objective - bound) / max(1.0, abs(objective))
        seconds = relaxed.timings["total"].wall
        return Certificate(bound, gap, relaxed.termination.reason is Reason.OPTIMAL, seconds)


def _why(solver: str, result: SolveResult) -> str:
    if result.termination.reason is Reason.NOT_INTEGRAL:
        return (
            f"the relaxation is fractional, so {solver!r} has a bound ({result.bound}) but no placement: "
            "ask for solver='ilp' to have an exact one"
        )
    why = result.infeasibility.detail if result.infeasibility else result.termination.detail
    return f"{solver} found no placement ({result.termination.reason.value}): {why}"


def _mesh(given: Any) -> Mesh:
    """Ours of whatever was given; dimensions of a ``DeviceMesh`` without names are called ``d0``, ``d1`` and so on."""
    if not hasattr(given, "mesh_dim_names"):
        return mesh_of(given)
    sizes = tuple(int(size) for size in given.shape)
    return Mesh(tuple(given.mesh_dim_names or (f"d{i}" for i in range(len(sizes)))), sizes)


def _policy(given: Any) -> MixedPrecision | None:
    if given is None or isinstance(given, MixedPrecision):
        return given
    if not hasattr(given, "param_dtype") or not hasattr(given, "reduce_dtype"):
        raise OptionError(f"mixed precision is MixedPrecision or torch's MixedPrecisionPolicy, not {given!r}")
    return MixedPrecision(given.param_dtype, given.reduce_dtype, bool(getattr(given, "cast_forward_inputs", True)))
