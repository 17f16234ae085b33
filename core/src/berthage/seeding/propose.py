"""What a seeder is, and asking one by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from berthage.errors import BerthageError, OptionError, PluginError
from berthage.evaluation import evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.registry import Registry, build_options, load_registry
from berthage.seeding.cache import SeedCache, Solved
from berthage.seeding.seed import Seed, dimensions_of
from berthage.solving.params import SolveParams

__all__ = ["DimensionSeeder", "Dimensions", "Seeder", "propose"]

Piece = TypeVar("Piece")
Whole_co = TypeVar("Whole_co", covariant=True)


class Seeder(Protocol):
    """What a seeder is: an object made anew for every seed."""

    def seed(self, problem: PlacementProblem, params: SolveParams, options: Any, registry: Registry) -> Seed:
        """Propose where to search.

        Args:
            problem: Any problem; what cannot be seeded raises `UnsupportedProblemError` saying why.
            params: Limits, seed and threads, as for a solver. The same arguments give the same seed.
            options: An instance of the options class in the seeder's description, or None.
            registry: Where the seeder looks up solvers.
        """
        ...


class Dimensions(Protocol[Piece, Whole_co]):
    """A provider of single-dimension problems: a front end that can look at one mesh dimension at a time.

    A piece is whatever the provider needs of a solved dimension to put the whole together. It must not change once
    made, for it may be remembered.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions."""
        ...

    def key(self, dimension: int) -> str:
        """A digest of everything that the problem of a dimension and its piece depend on."""
        ...

    def problem(self, dimension: int) -> PlacementProblem:
        """The problem of one dimension."""
        ...

    def piece(self, dimension: int, assignment: Int32Array) -> Piece:
        """What an assignment of that problem means."""
        ...

    def compose(self, pieces: Sequence[Piece]) -> Whole_co:
        """The whole, from a piece for each dimension."""
        ...


class DimensionSeeder(Seeder, Protocol):
    """A seeder that can also work for a front end, before the whole problem is there."""

    def compose(
        self,
        dimensions: Dimensions[Any, Any],
        params: SolveParams,
        options: Any,
        registry: Registry,
        cache: SeedCache | None = None,
    ) -> tuple[Any, tuple[Solved, ...]]:
        """Solve every dimension and put the pieces together.

        Returns:
            What the provider composed, or None when some dimension has no solution; and the solved dimensions.
        """
        ...


def propose(
    problem: PlacementProblem,
    seeder: str | Seeder = "split-dim",
    *,
    params: SolveParams | None = None,
    options: Mapping[str, Any] | object | None = None,
    registry: Registry | None = None,
) -> Seed:
    """Ask a seeder for a seed of a problem and check what it says.

    Args:
        problem: The problem.
        seeder: Name of a seeder, or a seeder.
        params: Limits, seed, threads.
        options: The seeder's own options, as a mapping or an instance of its options class.
        registry: Where names are looked up.

    Raises:
        UnknownNameError: No seeder has the name.
        UnsupportedProblemError: The seeder has nothing to say about this kind of problem.
        PluginError: The seeder failed, or returned what is no seed of this problem.
    """
    registry = registry or load_registry()
    name = seeder if isinstance(seeder, str) else type(seeder).__name__
    if isinstance(seeder, str):
        info = registry.seeder(seeder)
        made: Seeder = registry.create_seeder(seeder)
        given = build_options(info, options)
    else:
        if options is not None and not is_dataclass(options):
            raise OptionError("the options of a seeder object are an instance of its options class")
        made, given = seeder, options
    try:
        seed = made.seed(problem, params or SolveParams(), given, registry)
    except BerthageError:
        raise
    except Exception as error:
        raise PluginError(f"seeder {name!r} failed: {type(error).__name__}: {error}") from error
    _check(name, problem, seed)
    return seed


def _check(name: str, problem: PlacementProblem, seed: object) -> None:
    """Refuse what is no seed of the problem."""
    if not isinstance(seed, Seed):
        raise PluginError(f"seeder {name!r} returned {type(seed).__name__}, not a Seed")
    n, dims = problem.num_variables, dimensions_of(problem)
    shapes = (seed.labels.shape, seed.centres.shape, seed.centred.shape)
    if shapes != ((n,), (n, dims), (n,)):
        raise PluginError(f"seeder {name!r} returned arrays of shapes {shapes} for {n} variables, {dims} dimensions")
    if ((seed.labels < -1) | (seed.labels >= problem.num_labels)).any():
        v = int(np.flatnonzero((seed.labels < -1) | (seed.labels >= problem.num_labels))[0])
        raise PluginError(
            f"seeder {name!r} gives variable {problem.variable_names[v]!r} label {seed.labels[v]}; "
            f"it has {problem.num_labels[v]}"
        )
    if seed.objective is None:
        return
    found = evaluate(problem, seed.labels) if seed.complete else None
    slack = 1e-9 * max(1.0, abs(float(seed.objective)))
    if found is None or not found.feasible or abs(float(found.objective - seed.objective)) > slack:
        truth = "is incomplete" if found is None else f"costs {found.objective}"
        raise PluginError(f"seeder {name!r} says that its seed costs {seed.objective}, but it {truth}")
