"""The seeder ``split-dim``."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import numpy as np

from berthage import PlacementProblem, Registry, SolveParams, SolveResult, solve
from berthage.seeding import Dimensions, Seed, SeedCache, Solved, restrict

from .options import SplitOptions
from .projection import Projected

__all__ = ["SplitDim"]


class SplitDim:
    """Solves every dimension as a problem of its own and puts the answers together.

    What makes the problems of the dimensions is a provider: of a front end, which looks at its model on one mesh
    dimension at a time, or `Projected`, which projects any problem whose labels have coordinates.
    """

    def seed(
        self, problem: PlacementProblem, params: SolveParams, options: SplitOptions | None, registry: Registry
    ) -> Seed:
        """A seed of a plain problem.

        The witnesses are the best assignment at the composed coordinates. A variable that has no label there is
        centred on the label that this assignment takes instead; the report counts those as ``moved``.

        Raises:
            UnsupportedProblemError: The labels of the problem have no coordinates, or of different lengths.
        """
        options = options or SplitOptions()
        projected = Projected(problem)
        centres, solved = self.compose(projected, params, options, registry)
        # Each projection is a relaxation, so what bounds it bounds the whole.
        bound = max((each.bound for each in solved), default=-math.inf)
        report = _report(projected.names, solved)
        nobody = np.full(problem.num_variables, -1, dtype=np.int32)
        if centres is None:  # a dimension without solution, or none in time: nothing to stay near
            nowhere = np.zeros((problem.num_variables, len(projected.names)), dtype=np.int32)
            return Seed(nobody, nowhere, np.zeros(problem.num_variables, dtype=np.bool_), None, bound, report)
        loose = Seed(nobody, centres, projected.centred, None, bound, report)
        near = restrict(problem, loose, 0)
        found = _solve(near.problem, options.solver, params, options.share, registry)
        if found.assignment is None:
            return loose
        return Seed.at(
            problem, near.derived.lift(found.assignment), bound=bound, report={**report, "moved": len(near.empty)}
        )

    def compose(
        self,
        dimensions: Dimensions[Any, Any],
        params: SolveParams,
        options: SplitOptions | None,
        registry: Registry,
        cache: SeedCache | None = None,
    ) -> tuple[Any, tuple[Solved, ...]]:
        """Solve every dimension of a provider and put the pieces together.

        Dimensions whose problems depend on the same things are solved once, and so are those that the cache knows.

        Args:
            dimensions: The provider.
            params: Limits, gap, seed and threads.
            options: Who solves, and for how long.
            registry: Where the solver is looked up.
            cache: What was solved before; None remembers nothing after this call.

        Returns:
            What the provider composed, None when some dimension has no solution; and the solved dimensions.
        """
        options = options or SplitOptions()
        cache = SeedCache() if cache is None else cache
        info = registry.solver(options.solver)
        how = _how(params, options, info.name, info.version)
        share = options.share / max(1, len(dimensions.names))
        solved: list[Solved] = []
        for d in range(len(dimensions.names)):
            key = hashlib.sha256(f"{how}\n{dimensions.key(d)}".encode()).hexdigest()
            found = cache.get(key)
            if found is None:
                problem = dimensions.problem(d)
                result = _solve(problem, info.name, params, share, registry)
                piece = None if result.assignment is None else dimensions.piece(d, result.assignment)
                reason = result.termination.reason.value
                found = Solved(piece, result.objective, result.bound, reason, problem.num_variables)
                cache.put(key, found)
            solved.append(found)
        if any(each.piece is None for each in solved):
            return None, tuple(solved)
        return dimensions.compose([each.piece for each in solved]), tuple(solved)


def _solve(
    problem: PlacementProblem, solver: str, params: SolveParams, share: float, registry: Registry
) -> SolveResult:
    limit = None if params.time_limit is None else params.time_limit * share
    asked = SolveParams(
        time_limit=limit,
        iteration_limit=params.iteration_limit,
        gap=params.gap,
        seed=params.seed,
        threads=params.threads,
    )
    return solve(problem, solver, params=asked, registry=registry)


def _how(params: SolveParams, options: SplitOptions, solver: str, version: str) -> str:
    """Everything but the problem that an answer depends on."""
    given = {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
    for name in ("warm_start", "observer", "cutoff", "threads"):  # not handed on, or without influence on the answer
        del given[name]
    return repr((sorted(given.items()), dataclasses.astuple(options), solver, version))


def _report(names: tuple[str, ...], solved: tuple[Solved, ...]) -> dict[str, int | float | str | bool]:
    report: dict[str, int | float | str | bool] = {}
    for name, each in zip(names, solved, strict=True):
        report[f"{name} variables"] = each.variables
        report[f"{name} reason"] = each.reason
        if each.objective is not None:
            report[f"{name} objective"] = each.objective
    return report
