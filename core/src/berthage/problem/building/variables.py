"""The variables of a problem under construction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import MOST_COPIES, Float64Array, Int64Array, split_exact
from berthage.problem.labels import LabelSet

Variable = int | str
Label = int | str


class VariableBuilder:
    """Collects variables, their labels and their own costs."""

    def __init__(self, name: str = "problem") -> None:
        self._name = name
        self._names: list[str] = []
        self._index: dict[str, int] = {}
        self._sets: list[LabelSet] = []
        self._set_by_id: dict[int, int] = {}
        self._plain_sets: dict[int, int] = {}
        self._variable_set: list[int] = []
        self._multiplicity: list[int] = []
        self._copies: list[int] = []  # as declared; `_multiplicity` becomes 1 once costs are written out
        self._unary: list[Float64Array] = []  # one array a variable, or a whole block of variables
        self._residual: list[Int64Array | None] = []
        self._block: list[tuple[int, int, int]] = []  # per variable: block, start, stop

    def add_variable(
        self,
        name: str,
        labels: int | Sequence[str] | LabelSet,
        cost: npt.ArrayLike | None = None,
        *,
        coordinates: npt.ArrayLike | None = None,
        multiplicity: int = 1,
    ) -> int:
        """Add a variable and return its index.

        Args:
            name: Its name, unlike any other's.
            labels: How many labels, their display strings, or a `LabelSet` (shared when given again).
            cost: One unary cost a label, per copy; 0 when left out. inf forbids a label.
            coordinates: int[K, D], the place of each label on the mesh.
            multiplicity: How many times the unary cost counts.

        Raises:
            InvalidProblemError: For a repeated name, no label, or costs that do not fit the labels.
        """
        if isinstance(labels, int) and coordinates is None:
            index = self._plain_set(labels, name)
        else:
            try:
                index = self._add_set(LabelSet.of(labels, coordinates))
            except InvalidProblemError as error:
                raise InvalidProblemError(f"variable {name!r}: {error}") from None
        size = self._sets[index].size
        if cost is None:
            values, residual = np.zeros(size), None
        else:
            values, residual = split_exact(cost, f"the cost of variable {name!r}")
            if values.shape != (size,):
                raise InvalidProblemError(
                    f"variable {name!r} has {size} labels but {values.shape} costs; give one cost a label"
                )
        variable = self._register(name, index, multiplicity)
        self._unary.append(np.array(values))
        self._residual.append(residual)
        self._block.append((len(self._unary) - 1, 0, size))
        return variable

    def add_variables(
        self,
        names: Sequence[str],
        num_labels: npt.ArrayLike,
        costs: npt.ArrayLike | None = None,
        *,
        multiplicity: npt.ArrayLike | None = None,
    ) -> range:
        """Add many variables with unnamed labels at once.

        Args:
            names: n distinct names.
            num_labels: int[n], labels of each.
            costs: [Σ num_labels] unary costs, one variable after the other; 0 when left out.
            multiplicity: int[n]; 1 when left out.

        Returns:
            The indices of the new variables.
        """
        counts = np.asarray(num_labels, dtype=np.int64)
        if counts.shape != (len(names),):
            raise InvalidProblemError(f"{len(names)} variable names but {counts.shape} label counts")
        copies = (
            np.ones(len(names), dtype=np.int64) if multiplicity is None else np.asarray(multiplicity, dtype=np.int64)
        )
        if copies.shape != counts.shape:
            raise InvalidProblemError(f"{len(names)} variable names but {copies.shape} multiplicities")
        for i in np.flatnonzero(counts < 1)[:1].tolist():
            raise InvalidProblemError(f"variable {names[i]!r}: a variable needs at least one label")
        total = int(counts.sum())
        values, residual = (np.zeros(total), None) if costs is None else split_exact(costs, "the variables' costs")
        if values.shape != (total,):
            raise InvalidProblemError(f"the variables have {total} labels together but {values.shape} costs were given")
        first = len(self._names)
        stops = np.cumsum(counts)
        self._unary.append(np.array(values))
        self._residual.append(residual)
        block = len(self._unary) - 1
        rows = zip(names, counts.tolist(), copies.tolist(), stops.tolist(), strict=True)
        for name, count, copy, stop in rows:
            self._register(name, self._plain_set(count, name), copy)
            self._block.append((block, stop - count, stop))
        return range(first, len(self._names))

    def _register(self, name: str, label_set: int, multiplicity: int) -> int:
        if name in self._index:
            raise InvalidProblemError(f"variable {name!r} was already added; names must differ")
        check_multiplicity(f"variable {name!r}", multiplicity)
        self._index[name] = len(self._names)
        self._names.append(str(name))
        self._variable_set.append(label_set)
        self._multiplicity.append(int(multiplicity))
        self._copies.append(int(multiplicity))
        return len(self._names) - 1

    def _plain_set(self, size: int, name: str) -> int:
        if size not in self._plain_sets:
            try:
                self._plain_sets[size] = self._add_set(LabelSet.of(size))
            except InvalidProblemError as error:
                raise InvalidProblemError(f"variable {name!r}: {error}") from None
        return self._plain_sets[size]

    def _add_set(self, labels: LabelSet) -> int:
        if id(labels) not in self._set_by_id:
            self._set_by_id[id(labels)] = len(self._sets)
            self._sets.append(labels)
        return self._set_by_id[id(labels)]

    def variable(self, variable: Variable) -> int:
        """Index of a variable given by index or name.

        Raises:
            InvalidProblemError: When there is none.
        """
        if isinstance(variable, str):
            if variable not in self._index:
                raise InvalidProblemError(f"there is no variable {variable!r}; add it first")
            return self._index[variable]
        if not 0 <= variable < len(self._names):
            raise InvalidProblemError(f"there is no variable {variable}; {len(self._names)} were added")
        return int(variable)

    def _labels(self, variable: int) -> LabelSet:
        return self._sets[self._variable_set[variable]]


def check_multiplicity(what: str, multiplicity: object) -> None:
    """Refuse a multiplicity that is not a whole number of copies."""
    if not isinstance(multiplicity, int | np.integer) or not 1 <= int(multiplicity) <= MOST_COPIES:
        raise InvalidProblemError(
            f"{what}: multiplicity must be a whole number from 1 to 2^31 - 1, got {multiplicity!r}"
        )
