"""Search near a seed: when it is done, what is searched, and what is said of the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berthage import (
    OptionError,
    PlacementProblem,
    Reason,
    Registry,
    SolveParams,
    SolveResult,
    UnsupportedProblemError,
    evaluate,
)
from berthage.registry import build_options
from berthage.seeding import Seed, SeedCache, Solved, outside_ball, possible_labels
from berthage_nccl import Mesh
from berthage_torch.graph import OpGraph
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import StrategySpace

from .building import BuiltProblem, build_problem
from .constraints import Constraints
from .dimensions import MeshDimensions, MeshSeed
from .folding import Tie
from .near import Decision, Near, keeps_all
from .seed_report import SeedReport

__all__ = ["SeedWarning", "Seeding", "build_near", "core_seed", "radius_for", "seed_step"]

SEEDED: Final = ("trws", "trws-lazy")
"""The solvers that search near a seed: quick ones, which gain most from fewer labels and prove little of all."""

USUAL_RADII: Final = 2


class SeedWarning(UserWarning):
    """A radius so great that little is gained by it."""


@dataclass(frozen=True, slots=True)
class Seeding:
    """How a search is seeded.

    Attributes:
        radius: Greatest distance from the seed; None or 0 searches everything.
        mode: ``"restrict"`` searches within the radius, ``"warm"`` starts from the seed and searches everything.
        solver: Who solves the problems of single mesh dimensions; "" for the one that searches.
        bound: Name of a solver that bounds the unrestricted problem, so that the most the restriction can have cost is
            known; "" for what is known without solving it.
        seeder: Name of the seeder, one that takes a provider of dimensions.
        cache: What was solved before. It belongs to the caller, who may hand it to several searches.
    """

    radius: int | None = 2
    mode: str = "restrict"
    solver: str = ""
    bound: str = ""
    seeder: str = "split-dim"
    cache: SeedCache | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("restrict", "warm"):
            raise OptionError(f"seed_mode is 'restrict' or 'warm', not {self.mode!r}")
        radius: object = self.radius  # callers need not be type-checked
        if radius is not None and (not isinstance(radius, int) or isinstance(radius, bool) or radius < 0):
            raise OptionError(f"seed_radius is a whole number of at least 0, or None, not {radius!r}")


def radius_for(seeding: Seeding, solver: str, mesh: Mesh) -> int | None:
    """The radius with which this search is seeded, or None when it is not.

    Only TRW-S on meshes of more than two dimensions (of more than one rank) is.

    Raises:
        OptionError: The radius is not below the number of mesh dimensions, so it would restrict nothing.
    """
    dims = sum(size > 1 for size in mesh.sizes)
    if not seeding.radius or solver not in SEEDED or dims <= 2:
        return None
    if seeding.radius >= dims:
        raise OptionError(
            f"seed_radius {seeding.radius} restricts nothing on a mesh of {dims} dimensions: take 1 to {dims - 1}, "
            "or 0 to search everything"
        )
    if seeding.radius > USUAL_RADII:
        warnings.warn(
            f"seed_radius {seeding.radius} leaves nearly everything in; 1 and 2 are usual", SeedWarning, stacklevel=3
        )
    return seeding.radius


def seed_step(
    graph: OpGraph,
    pricer: Pricer,
    constraints: Constraints,
    *,
    seeding: Seeding,
    solver: str,
    params: SolveParams,
    registry: Registry,
    tie: Tie = "layers",
    space: StrategySpace | None = None,
    name: str = "placement",
) -> tuple[MeshSeed | None, Mapping[str, Solved]]:
    """Solve every mesh dimension by itself and put the answers together.

    Returns:
        The seed, None when some dimension has no solution under the demands; and the solved dimensions by name.

    Raises:
        UnsupportedProblemError: The seeder takes no provider of dimensions.
    """
    info = registry.seeder(seeding.seeder)
    seeder: Any = registry.create_seeder(seeding.seeder)
    if not hasattr(seeder, "compose"):
        raise UnsupportedProblemError(f"seeder {seeding.seeder!r} takes no single mesh dimensions; use split-dim")
    known = {} if info.options is None else dict.fromkeys(("solver",), seeding.solver or solver)
    options = build_options(info, known)
    dimensions = MeshDimensions(graph, pricer.mesh, pricer.cost_model, constraints, tie=tie, space=space, name=name)
    seed, solved = seeder.compose(dimensions, params, options, registry, seeding.cache)
    return seed, MappingProxyType(dict(zip(dimensions.names, solved, strict=True)))


def build_near(
    graph: OpGraph,
    pricer: Pricer,
    constraints: Constraints,
    seed: MeshSeed,
    radius: int | None,
    *,
    space: StrategySpace | None = None,
    name: str = "placement",
) -> tuple[BuiltProblem, Near]:
    """The problem of what lies near a seed, priced without pricing the rest.

    It is what `berthage.seeding.restrict` makes of the whole problem (the one of radius None) at `core_seed`. Where a
    demand excludes everything at the seed, the group is offered everything.

    Args:
        graph: The step.
        pricer: Mesh and cost model.
        constraints: Demands.
        seed: The seed.
        radius: Greatest distance; None builds the whole problem, with witnesses put back.
        space: The enumeration on the whole mesh.
        name: Of the problem.

    Returns:
        The problem, and what was offered.
    """
    space = space or StrategySpace(pricer.mesh)
    free: frozenset[Decision] = frozenset()
    while True:
        near = Near(graph, seed, radius, space, free)
        built = build_problem(
            graph, pricer, constraints, space=near, groups=seed.groups, shared=near.shared(), name=name
        )
        lost = frozenset() if radius is None else _without_possible_label(built, seed) - free
        if not lost:
            return built, near
        free |= lost


def core_seed(built: BuiltProblem, seed: MeshSeed) -> Seed:
    """A seed of a step as a seed of its problem, for `berthage.seeding.restrict`."""
    problem, graph = built.problem, built.graph
    dims = len(built.pricer.mesh.sizes)
    labels = np.full(problem.num_variables, -1, dtype=np.int32)
    centres = np.zeros((problem.num_variables, dims), dtype=np.int32)
    centred = np.zeros(problem.num_variables, dtype=np.bool_)
    for first in np.unique(seed.groups).tolist():
        node, space, v = graph.nodes[first], built.strategies[first], int(built.variable[first])
        witness = seed.index[first]
        hits = np.flatnonzero((space.index == witness).all(axis=1))
        labels[v] = hits[0] if len(hits) else -1
        if node.local_map is not None or keeps_all(node):
            continue
        side = space.one_dim.outputs if space.outputs.shape[1] else space.one_dim.inputs
        if side.shape[1]:
            centres[v], centred[v] = side[witness, 0], True
    for tensor, alias in built.aliases.items():
        hits = np.flatnonzero((alias.placements == seed.shared[tensor]).all(axis=1))
        labels[alias.variable] = hits[0] if len(hits) else -1
        centres[alias.variable], centred[alias.variable] = seed.shared[tensor], True
    for array in (labels, centres, centred):
        array.flags.writeable = False
    whole = (labels >= 0).all()
    found = evaluate(problem, labels) if whole else None
    return Seed(labels, centres, centred, found.objective if found is not None and found.feasible else None)


def search_near(
    near_at: Callable[[int | None], tuple[BuiltProblem, Near]],
    solved: Callable[[PlacementProblem, npt.NDArray[np.int32] | None], SolveResult],
    seed: MeshSeed,
    *,
    seeding: Seeding,
    radius: int,
    dims: int,
    solved_dimensions: Mapping[str, Solved],
    unrestricted: Callable[[], float],
    gap: float = 0.0,
) -> tuple[BuiltProblem, SolveResult, SeedReport]:
    """Search near a seed, wider where nothing feasible is that near.

    Args:
        near_at: Builds the problem within a radius; None is everything.
        solved: Solves a problem from a start.
        seed: The seed.
        seeding: How.
        radius: The radius to begin with.
        dims: Mesh dimensions of more than one rank.
        solved_dimensions: For the report.
        unrestricted: A bound on the unrestricted problem; asked once, and only after a restricted search.
        gap: Relative gap at which an assignment counts as optimal.

    Returns:
        The problem that was solved, the result as it stands for the whole step, and the report.
    """
    wider: int | None = None if seeding.mode == "warm" else radius
    while True:
        built, near = near_at(wider)
        given = core_seed(built, seed)
        ball = solved(built.problem, None if given.objective is None else given.labels)
        if ball.termination.reason is not Reason.INFEASIBLE or wider is None:
            break
        wider = wider + 1 if wider + 1 < dims else None
    bound, result = ball.bound, ball
    if wider is not None:
        bound = unrestricted()
        result = outside_ball(built.problem, ball, ball.assignment, wider, bound, gap=gap)
    report = SeedReport(
        mode=seeding.mode,
        radius=wider,
        asked=radius,
        objective=None if given.objective is None else float(given.objective),
        bound=bound,
        labels=len(built.problem.unary),
        combinations=near.combinations(),
        restored=tuple(near.restored),
        moved=seed.moved,
        empty=near.empty,
        dimensions=solved_dimensions,
        ball=None if wider is None else ball,
    )
    return built, result, report


def _without_possible_label(built: BuiltProblem, seed: MeshSeed) -> frozenset[Decision]:
    """The groups and shared tensors at whose seed no label is possible by itself.

    Relations of two variables do not count: what is near one of them may be all that excludes the other.
    """
    problem = built.problem
    given = core_seed(built, seed)
    alone = np.flatnonzero(problem.relations.v < 0)
    possible = possible_labels(replace(problem, relations=problem.relations.keep(alone)))
    lost: set[Decision] = set()
    names: dict[int, Decision] = {int(built.variable[f]): f for f in np.unique(seed.groups).tolist()}
    names |= {alias.variable: tensor for tensor, alias in built.aliases.items()}
    for v, what in names.items():
        if not given.centred[v]:
            continue
        place = problem.labels(v).coordinates
        assert place is not None  # what is centred has coordinates
        here = (place == given.centres[v]).all(axis=1)
        if given.labels[v] >= 0:
            here[given.labels[v]] = True
        if not possible[problem.label_ptr[v] : problem.label_ptr[v + 1]][here].any():
            lost.add(what)
    return frozenset(lost)
