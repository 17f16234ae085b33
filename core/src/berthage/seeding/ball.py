"""The labels within a Hamming distance of a seed: a pure function of problem, seed and radius."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berthage.errors import InvalidProblemError, OptionError
from berthage.problem.arrays import BoolArray
from berthage.problem.budgets import LinearBudget
from berthage.problem.derive import Derived, take_labels
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import RelationKind
from berthage.seeding.seed import Seed, dimensions_of

__all__ = ["Restriction", "possible_labels", "restrict"]


@dataclass(frozen=True, eq=False, slots=True)
class Restriction:
    """A problem with only the labels near a seed, and the map back.

    Attributes:
        derived: The smaller problem and the map back to the whole one.
        radius: The greatest Hamming distance.
        kept: Labels that stay, over all variables.
        total: Labels of the whole problem.
        empty: Names of the variables that keep all their labels because no possible one lies where the seed is.
    """

    derived: Derived
    radius: int
    kept: int
    total: int
    empty: tuple[str, ...]

    @property
    def problem(self) -> PlacementProblem:
        """The smaller problem."""
        return self.derived.problem

    @property
    def coverage(self) -> float:
        """Share of the labels that stay."""
        return self.kept / self.total if self.total else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out: what is proved in the ball is proved."""
        return self.kept == self.total


def restrict(problem: PlacementProblem, seed: Seed, radius: int) -> Restriction:
    """Keep the labels whose coordinates differ from the seed's in at most ``radius`` places.

    The witness of a variable always stays. A variable without a centre keeps everything, and so does one without any
    possible label where its seed is (an empty ball, whatever the radius): such a seed says nothing about it. So a
    greater radius never loses a label, and the least objective never rises with it.

    Args:
        problem: The whole problem.
        seed: Where to stay; made for this problem.
        radius: Taken as it is: 0 leaves the labels at the seed itself, and from the number of dimensions on nothing is
            left out.

    Raises:
        OptionError: The radius is no whole number of at least 0.
        InvalidProblemError: The seed is of another problem.
    """
    asked: object = radius  # callers need not be type-checked
    if not isinstance(asked, int | np.integer) or isinstance(asked, bool) or radius < 0:
        raise OptionError(f"radius must be a whole number of at least 0, got {radius!r}")
    distance = _distances(problem, seed)
    owner = np.repeat(np.arange(problem.num_variables), problem.num_labels)
    has = np.flatnonzero(seed.labels >= 0)
    witness = problem.label_ptr[has] + seed.labels[has]
    at_seed = distance == 0
    at_seed[witness] = True
    alive = np.bincount(owner[at_seed & possible_labels(problem)], minlength=problem.num_variables) > 0
    free = ~alive | ~seed.centred
    mask = (distance <= radius) | free[owner]
    mask[witness] = True
    empty = np.flatnonzero(~alive & seed.centred)
    names = tuple(problem.variable_names[v] for v in empty.tolist())
    return Restriction(take_labels(problem, mask), int(radius), int(mask.sum()), len(mask), names)


def _distances(problem: PlacementProblem, seed: Seed) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """int64[ΣK], Hamming distance of every label from the centre of its variable; 0 without a centre."""
    dims = dimensions_of(problem)
    n = problem.num_variables
    if seed.labels.shape != (n,) or seed.centred.shape != (n,) or seed.centres.shape != (n, dims):
        raise InvalidProblemError(
            f"the seed has {len(seed.labels)} labels and centres of shape {seed.centres.shape}; problem "
            f"{problem.name!r} has {n} variables and {dims} dimensions: make the seed for this problem"
        )
    beyond = np.flatnonzero(seed.labels >= problem.num_labels)
    if len(beyond):
        v = int(beyond[0])
        raise InvalidProblemError(
            f"the seed gives variable {problem.variable_names[v]!r} label {seed.labels[v]}; "
            f"it has {problem.num_labels[v]}"
        )
    distance = np.zeros(len(problem.unary), dtype=np.int64)
    for index, label_set in enumerate(problem.label_sets):
        here = np.flatnonzero((problem.variable_label_set == index) & seed.centred)
        if label_set.coordinates is None and len(here):
            name = problem.variable_names[int(here[0])]
            raise InvalidProblemError(f"the seed centres variable {name!r}, whose labels have no coordinates")
        if label_set.coordinates is None or not len(here):
            continue
        cells = problem.label_ptr[here][:, None] + np.arange(label_set.size)
        for d in range(dims):
            distance[cells] += label_set.coordinates[None, :, d] != seed.centres[here, d][:, None]
    return distance


def possible_labels(problem: PlacementProblem) -> BoolArray:
    """bool[ΣK], the labels that no cost, relation or hard linear budget excludes by itself.

    A budget excludes a label that exceeds it even if every other variable takes its least.
    """
    possible: BoolArray = np.isfinite(problem.unary)
    ptr = problem.label_ptr.tolist()
    for relation in problem.relations:
        mine = possible[ptr[relation.u] : ptr[relation.u + 1]]
        if relation.kind is RelationKind.LABELS:
            mine &= relation.array
            continue
        other = possible[ptr[relation.v] : ptr[relation.v + 1]]
        if relation.kind is RelationKind.PAIRS:
            mine &= relation.array.any(axis=1)
            other &= relation.array.any(axis=0)
        else:
            mine &= relation.array >= 0
            image = np.zeros(len(other), dtype=np.bool_)
            image[relation.array[relation.array >= 0]] = True
            other &= image
    for budget in problem.linear_budgets:
        if budget.price is None and len(budget.variables):
            for weights, limit in ((budget.weights, budget.upper), (-budget.weights, -budget.lower)):
                if np.isfinite(limit):
                    _within(problem, budget, weights.astype(np.float64), float(limit), possible)
    return possible


def _within(
    problem: PlacementProblem,
    budget: LinearBudget,
    weights: np.ndarray[tuple[int], np.dtype[np.float64]],
    limit: float,
    possible: BoolArray,
) -> None:
    """Strike out, in place, labels that weigh too much to keep a budget's sum below a limit."""
    counts = np.diff(budget.ptr)
    cells = np.arange(len(weights)) + np.repeat(problem.label_ptr[budget.variables] - budget.ptr[:-1], counts)
    usable = np.where(possible[cells], weights, np.inf)
    least = np.minimum.reduceat(usable, budget.ptr[:-1])
    if not np.isfinite(least).all():
        return  # some variable has nothing left; the other constraints say so
    room = limit - float(least.sum())
    slack = 1e-9 * max(1.0, abs(limit))  # rounding of sums of bytes must not strike out what just fits
    possible[cells] &= weights - np.repeat(least, counts) <= room + slack
