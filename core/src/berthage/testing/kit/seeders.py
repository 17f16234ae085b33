"""`seeder_conformance`: the test class of a seeder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from berthage import PlacementProblem, ProblemBuilder, Registry, UnsupportedProblemError, evaluate, load_registry
from berthage.registry import SeederInfo
from berthage.seeding import Seed, propose, restrict
from berthage.testing.kit.checks import Check, build_class, check
from berthage.testing.kit.conduct import fingerprint
from berthage.testing.kit.processes import verify_light_hooks
from berthage.testing.kit.solver_kit import describe
from berthage.testing.oracle import brute_force
from berthage.testing.strategies import placed_problems

__all__ = ["seeder_checks", "seeder_conformance"]


@dataclass(frozen=True)
class SeederKit:
    """A seeder under test."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    max_examples: int = 20
    given_registry: Registry | None = None

    @cached_property
    def registry(self) -> Registry:
        """Where the seeder is looked up."""
        return self.given_registry if self.given_registry is not None else load_registry()

    @cached_property
    def info(self) -> SeederInfo:
        """The seeder's description."""
        return self.registry.seeder(self.name)

    def skip_reason(self, checked: Check) -> str:
        """Why nothing can be tested here, or an empty string."""
        unavailable = self.registry.unavailable_reason(self.info)
        return f"{self.name}: {unavailable}" if unavailable else ""

    def seed(self, problem: PlacementProblem) -> Seed:
        """A seed, checked as core checks it."""
        describe(problem)
        return propose(problem, self.name, options=dict(self.options) or None, registry=self.registry)


@check(given=lambda kit: placed_problems())
def seeds_are_seeds(kit: SeederKit, problem: PlacementProblem) -> None:
    """Witnesses lie at their centres, and an objective that is told is what the witnesses cost."""
    seed = kit.seed(problem)  # core refuses wrong shapes, labels and objectives
    for v in np.flatnonzero((seed.labels >= 0) & seed.centred).tolist():
        place = problem.labels(v).coordinates
        assert place is not None, f"{problem.variable_names[v]} is centred, but its labels have no coordinates"
        assert (place[seed.labels[v]] == seed.centres[v]).all(), "a witness lies elsewhere than its centre"
    if seed.complete and evaluate(problem, seed.labels).feasible:
        assert seed.objective is not None, "the seed is feasible, and its objective is not told"


@check(given=lambda kit: placed_problems())
def bounds_are_bounds(kit: SeederKit, problem: PlacementProblem) -> None:
    """What a seeder says no assignment costs less than, none does."""
    seed = kit.seed(problem)
    truth = brute_force(problem)
    if truth.feasible:
        assert seed.bound <= float(truth.objective) + 1e-9 * max(1.0, abs(float(truth.objective)))


@check(given=lambda kit: placed_problems())
def seeds_can_be_searched_near(kit: SeederKit, problem: PlacementProblem) -> None:
    """Every radius keeps the seed, and as many dimensions as there are keep everything."""
    seed = kit.seed(problem)
    dims = seed.centres.shape[1]
    for radius in range(dims + 1):
        near = restrict(problem, seed, radius)
        if seed.complete:
            assert near.derived.project(seed.labels) is not None, f"radius {radius} lost the seed"
    assert restrict(problem, seed, dims).is_whole


@check(given=lambda kit: placed_problems(), share=0.5)
def gives_the_same_seed_twice(kit: SeederKit, problem: PlacementProblem) -> None:
    """The same problem and options give the same seed, and the problem stays as it is."""
    before = fingerprint(problem)
    first, second = kit.seed(problem), kit.seed(problem)
    assert fingerprint(problem) == before, "the seeder changed the problem"
    for name in ("labels", "centres", "centred"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), f"{name} differ"
    assert (first.objective, first.bound) == (second.objective, second.bound)


@check()
def refuses_in_words(kit: SeederKit) -> None:
    """A problem without coordinates is seeded, or refused as unsupported with the problem's name."""
    builder = ProblemBuilder("bare")
    builder.add_variable("x", ["a", "b"], [1.0, 2.0])
    refusal = ""
    try:
        kit.seed(builder.build())
    except UnsupportedProblemError as error:
        refusal = str(error)
    assert not refusal or "bare" in refusal, f"the refusal does not name the problem: {refusal}"


@check()
def hooks_are_light(kit: SeederKit) -> None:
    """The plugin's hooks module imports nothing heavy."""
    verify_light_hooks(kit.info.target)


def seeder_checks() -> tuple[Check, ...]:
    """Every check of a seeder."""
    return (
        seeds_are_seeds,
        bounds_are_bounds,
        seeds_can_be_searched_near,
        gives_the_same_seed_twice,
        refuses_in_words,
        hooks_are_light,
    )


def seeder_conformance(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    exclude: Mapping[str, str] | None = None,
    max_examples: int = 20,
    registry: Registry | None = None,
) -> type:
    """A fresh pytest class that tests a seeder: what it proposes is sound, and can be searched near.

    Args:
        name: the seeder's name. Nothing is looked up until the tests run.
        options: the options to test it with.
        exclude: name of a check to the reason why it is left out.
        max_examples: Hypothesis examples of each property.
        registry: where to look it up; None for what is installed.

    Returns:
        A class to be bound to a name that pytest collects: ``TestMine = seeder_conformance("my-seeder")``.
    """
    kit = SeederKit(name, dict(options or {}), max_examples, registry)
    return build_class(name, kit, seeder_checks(), exclude or {})
