"""What a seeder proposes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.evaluation import evaluate
from berthage.problem.arrays import BoolArray, Int32Array, frozen
from berthage.problem.model import PlacementProblem

__all__ = ["Seed"]


@dataclass(frozen=True, eq=False, slots=True)
class Seed:
    """Where to search: a centre in label coordinates for each variable, and a label (witness) that lies there.

    Attributes:
        labels: int32[n], the witness of each variable; -1 where the problem has none.
        centres: int32[n, D], coordinates to measure distance from; rows of variables without a centre are ignored.
        centred: bool[n], which variables have a centre; the others are never restricted.
        objective: Cost of the witnesses when every variable has one and together they are feasible, else None.
        bound: A lower bound on the objective of every assignment of the whole problem, -inf when the seeder knows none.
        report: What the seeder tells, by name.
    """

    labels: Int32Array
    centres: Int32Array
    centred: BoolArray
    objective: int | float | None = None
    bound: float = -math.inf
    report: Mapping[str, int | float | str | bool] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every variable has a witness, so that the seed is an assignment."""
        return bool((self.labels >= 0).all())

    @staticmethod
    def at(
        problem: PlacementProblem,
        labels: npt.ArrayLike,
        *,
        bound: float = -math.inf,
        report: Mapping[str, int | float | str | bool] | None = None,
    ) -> Seed:
        """The seed that an assignment is: each variable is centred on the coordinates of its label.

        Raises:
            InvalidProblemError: The assignment is none of this problem, or its label sets have coordinates of
                different lengths.
        """
        chosen = problem.check_assignment(labels)
        centres = np.zeros((problem.num_variables, dimensions_of(problem)), dtype=np.int32)
        centred = np.zeros(problem.num_variables, dtype=np.bool_)
        for index, label_set in enumerate(problem.label_sets):
            if label_set.coordinates is not None:
                here = np.flatnonzero(problem.variable_label_set == index)
                centres[here] = label_set.coordinates[chosen[here]]
                centred[here] = True
        found = evaluate(problem, chosen)
        objective = found.objective if found.feasible else None
        return Seed(
            frozen(chosen, np.int32),
            frozen(centres, np.int32),
            frozen(centred, np.bool_),
            objective,
            bound,
            report or {},
        )


def dimensions_of(problem: PlacementProblem) -> int:
    """Length of the coordinates of a problem's labels; 0 when none has any.

    Raises:
        InvalidProblemError: Label sets have coordinates of different lengths.
    """
    lengths = {s.coordinates.shape[1] for s in problem.label_sets if s.coordinates is not None}
    if len(lengths) > 1:
        raise InvalidProblemError(
            f"problem {problem.name!r} has labels with coordinates of {' and '.join(map(str, sorted(lengths)))} "
            "dimensions; a distance needs one number of dimensions"
        )
    return lengths.pop() if lengths else 0
