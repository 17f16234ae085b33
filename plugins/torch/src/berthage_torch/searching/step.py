"""One step searched: its problem built, whole or near a seed, and solved, with the time of each phase."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem, Registry, SolveParams, SolveResult, solve
from berthage_torch.graph import OpGraph
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import StrategySpace

from .building import BuiltProblem, build_problem
from .constraints import Constraints
from .dimensions import MeshSeed
from .folding import Tie
from .near import Near, combinations
from .seed_report import SeedReport
from .seeding import Seeding, build_near, search_near, seed_step

__all__ = ["Phases", "Step"]

CHEAP: Final = 500_000
"""Most labels for which a bound that nobody asked for is worth its time, some seconds."""

T = TypeVar("T")


def _silent(phase: str) -> None:
    return


@dataclass
class Phases:
    """CPU and wall seconds by phase; phases of one name add up.

    Attributes:
        tell: Told of each phase as it begins.
        seconds: ``(CPU, wall)`` by name.
    """

    tell: Callable[[str], None] = _silent
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)

    def run(self, name: str, work: Callable[[], T]) -> T:
        """Do some work as a phase."""
        self.tell(name)
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            return work()
        finally:
            self.add(name, time.process_time() - cpu, time.perf_counter() - wall)

    def add(self, name: str, cpu: float, wall: float) -> None:
        """Add seconds to a phase."""
        before = self.seconds.get(name, (0.0, 0.0))
        self.seconds[name] = (before[0] + cpu, before[1] + wall)

    def split(self, name: str, parts: Mapping[str, float], rest: str = "") -> None:
        """Replace a phase by its parts, given by their CPU seconds; what they leave is called ``rest``."""
        cpu, wall = self.seconds.pop(name)
        shares = dict(parts) | ({rest: max(0.0, cpu - sum(parts.values()))} if rest else {})
        total = sum(shares.values()) or 1.0
        for part, seconds in shares.items():
            self.add(part, seconds, wall * seconds / total)


@dataclass(frozen=True, eq=False)
class Step:
    """A training step to be placed, and who places it.

    Attributes:
        graph: The step.
        pricer: Mesh and cost model.
        constraints: Demands.
        name: Of the problem.
        solver: Name of the solver.
        params: Limits, gap, seed, threads.
        options: The solver's own options.
        presolve: As `berthage.solve` takes it.
        registry: Where names are looked up.
    """

    graph: OpGraph
    pricer: Pricer
    constraints: Constraints
    name: str
    solver: str
    params: SolveParams
    options: Mapping[str, Any] | object | None
    presolve: bool | tuple[str, ...]
    registry: Registry

    def search(
        self, tie: Tie, seeding: Seeding, radius: int | None, phases: Phases
    ) -> tuple[BuiltProblem, SolveResult, SeedReport | None]:
        """Build and solve, near a seed where one is wanted.

        Args:
            tie: See `fold`.
            seeding: How a seed is made and used.
            radius: What `radius_for` has; None makes no seed.
            phases: Told of the phases, and given their seconds.

        Returns:
            The problem that was solved, the result for the whole step, and what was searched near which seed.
        """
        if radius is not None:
            found = self._near(tie, seeding, radius, phases)
            if found is not None:
                return found
        built = self._build(
            phases,
            lambda: build_problem(self.graph, self.pricer, self.constraints, tie=tie, name=self.name),
            lambda built: built.seconds,
        )
        return built, self._solve(phases, built.problem, self.params), None

    def _near(
        self, tie: Tie, seeding: Seeding, radius: int, phases: Phases
    ) -> tuple[BuiltProblem, SolveResult, SeedReport] | None:
        """The same near a seed; None when there is none, since a single dimension cannot meet the demands."""
        begun = time.perf_counter()
        space = StrategySpace(self.pricer.mesh)
        seed, solved = phases.run(
            "seed",
            lambda: seed_step(
                self.graph,
                self.pricer,
                self.constraints,
                seeding=seeding,
                solver=self.solver,
                params=self.params,
                registry=self.registry,
                tie=tie,
                space=space,
                name=self.name,
            ),
        )
        if seed is None:
            return None
        limit = self.params.time_limit
        # Seeds take at most half of the time limit; building problems is not part of it, here as elsewhere.
        left = None if limit is None else max(limit / 2, limit - (time.perf_counter() - begun))

        def made(wider: int | None) -> tuple[BuiltProblem, Near]:
            return build_near(self.graph, self.pricer, self.constraints, seed, wider, space=space, name=self.name)

        def near_at(wider: int | None) -> tuple[BuiltProblem, Near]:
            return self._build(phases, lambda: made(wider), lambda found: found[0].seconds, "restrict")

        def solved_from(problem: PlacementProblem, start: npt.NDArray[np.int32] | None) -> SolveResult:
            return self._solve(phases, problem, replace(self.params, time_limit=left, warm_start=start))

        def bound() -> float:
            if not seeding.bound:
                return self._least_compute(seed, space)
            asked = replace(self.params, cutoff=None, warm_start=None)
            built, _ = made(None)
            return solve(built.problem, seeding.bound, params=asked, registry=self.registry).bound

        return search_near(
            near_at,
            solved_from,
            seed,
            seeding=seeding,
            radius=radius,
            dims=sum(size > 1 for size in self.pricer.mesh.sizes),
            solved_dimensions=solved,
            unrestricted=lambda: phases.run("bound", bound),
            gap=self.params.gap,
        )

    def _least_compute(self, seed: MeshSeed, space: StrategySpace) -> float:
        """A bound on the unrestricted problem that needs no redistribution: every node at its cheapest, nothing moved.

        -inf where even that would take long.
        """
        firsts, copies = np.unique(seed.groups, return_counts=True)
        nodes = [self.graph.nodes[first] for first in firsts.tolist()]
        if combinations(self.graph, nodes, space) > CHEAP:
            return -math.inf
        least = [float(self.pricer.compute(space.of(self.graph, node)).min()) for node in nodes]
        # Rounding of a sum of so many terms stays far below this.
        return math.fsum(us * count for us, count in zip(least, copies.tolist(), strict=True)) * (1 - 1e-12)

    def _build(
        self, phases: Phases, make: Callable[[], T], seconds: Callable[[T], Mapping[str, float]], rest: str = ""
    ) -> T:
        made = phases.run("problem", make)
        phases.split("problem", seconds(made), rest)
        return made

    def _solve(self, phases: Phases, problem: PlacementProblem, params: SolveParams) -> SolveResult:
        result = phases.run(
            "search",
            lambda: solve(
                problem,
                self.solver,
                params=params,
                options=self.options,
                presolve=self.presolve,
                registry=self.registry,
            ),
        )
        del phases.seconds["search"]
        for part in ("presolve", "compile", "solve"):
            spent = result.timings.get(part)
            phases.add(part, spent.cpu if spent else 0.0, spent.wall if spent else 0.0)
        return result
