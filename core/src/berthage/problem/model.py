"""`PlacementProblem`: discrete variables, unary and pairwise costs, hard relations and budgets, in arrays."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import Array, Float64Array, Int32Array, Int64Array, is_whole, update_digest
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.labels import LabelSet
from berthage.problem.relations import Relations
from berthage.problem.tables import CostTable

if TYPE_CHECKING:
    from berthage.problem.derive import Derived
    from berthage.problem.stats import ProblemStats

__all__ = ["PlacementProblem"]


@dataclass(frozen=True, eq=False)
class PlacementProblem:
    """Choose one label for every variable at the least total cost. Immutable; compared and hashed by content.

    The objective of an assignment x is ``constant + Σ_v multiplicity[v]·unary_v[x_v] +
    Σ_e edge_multiplicity[e]·table_e[x_u, x_v]`` plus the price of soft budgets. Costs are microseconds in placement
    problems, but nothing here depends on it. ``inf`` is the only word for *forbidden*. Make one with `ProblemBuilder`.

    Attributes:
        name: What the problem is called.
        label_sets: Label sets, shared between variables.
        variable_names: n distinct names.
        variable_label_set: int32[n], index into `label_sets`.
        multiplicity: int64[n], how many times each unary cost counts.
        unary: float64[ΣK], unary costs of all variables, one after the other, per copy.
        tables: Cost tables, shared between edges.
        edge_u: int32[m], first end (rows of the table); never equal to `edge_v`. Parallel and reversed edges add up.
        edge_v: int32[m], second end (columns of the table).
        edge_table: int32[m], index into `tables`.
        edge_multiplicity: int64[m], how many times each edge cost counts.
        unary_residual: int64[ΣK] to add to ``int(unary)`` where a float cannot hold an integer cost, or None.
        edge_names: m names, or None for names derived from the ends.
        relations: Hard relations.
        linear_budgets: Linear constraints.
        interval_budgets: Constraints on what is live over time.
        constant: Added to every objective.
    """

    name: str
    label_sets: tuple[LabelSet, ...]
    variable_names: tuple[str, ...]
    variable_label_set: Int32Array
    multiplicity: Int64Array
    unary: Float64Array
    tables: tuple[CostTable, ...]
    edge_u: Int32Array
    edge_v: Int32Array
    edge_table: Int32Array
    edge_multiplicity: Int64Array
    unary_residual: Int64Array | None = None
    edge_names: tuple[str, ...] | None = None
    relations: Relations = field(default_factory=Relations.none)
    linear_budgets: tuple[LinearBudget, ...] = ()
    interval_budgets: tuple[IntervalBudget, ...] = ()
    constant: int | float = 0

    # -- sizes --------------------------------------------------------------------------------

    @property
    def num_variables(self) -> int:
        """Number of variables, n."""
        return len(self.variable_names)

    @property
    def num_edges(self) -> int:
        """Number of pairwise terms, m."""
        return len(self.edge_u)

    @cached_property
    def num_labels(self) -> Int32Array:
        """int32[n], number of labels of each variable."""
        sizes = np.array([labels.size for labels in self.label_sets], dtype=np.int32)
        counts: Int32Array = sizes[self.variable_label_set] if len(sizes) else np.zeros(0, dtype=np.int32)
        counts.flags.writeable = False
        return counts

    @cached_property
    def label_ptr(self) -> Int64Array:
        """int64[n+1], where each variable's labels start in flat per-label arrays."""
        ptr = np.zeros(self.num_variables + 1, dtype=np.int64)
        np.cumsum(self.num_labels, out=ptr[1:])
        ptr.flags.writeable = False
        return ptr

    # -- reading --------------------------------------------------------------------------------

    def labels(self, variable: int) -> LabelSet:
        """The label set of a variable."""
        return self.label_sets[int(self.variable_label_set[variable])]

    def label_name(self, variable: int, label: int) -> str:
        """Display string of a label of a variable."""
        return self.labels(variable).name(label)

    def unary_of(self, variable: int) -> Float64Array:
        """float64[K], the unary costs of a variable, per copy."""
        return self.unary[self.label_ptr[variable] : self.label_ptr[variable + 1]]

    def edge_name(self, edge: int) -> str:
        """Name of an edge, derived from its ends where none was given."""
        if self.edge_names is not None:
            return self.edge_names[edge]
        return f"{self.variable_names[self.edge_u[edge]]} -- {self.variable_names[self.edge_v[edge]]}"

    @cached_property
    def _variable_index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.variable_names)}

    def variable_index(self, name: str) -> int:
        """Index of the variable called `name`.

        Raises:
            InvalidProblemError: When there is none.
        """
        try:
            return self._variable_index[name]
        except KeyError:
            raise InvalidProblemError(f"problem {self.name!r} has no variable {name!r}") from None

    @property
    def budgets(self) -> tuple[LinearBudget | IntervalBudget, ...]:
        """All budgets, linear ones first."""
        return (*self.linear_budgets, *self.interval_budgets)

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of all removable constraints: relations and budgets, each once, in order."""
        budgets = [budget.name for budget in self.budgets]
        return tuple(dict.fromkeys((*self.relations.names, *budgets)))

    @property
    def has_budgets(self) -> bool:
        """Whether there is any linear or interval budget."""
        return bool(self.linear_budgets or self.interval_budgets)

    @property
    def has_relations(self) -> bool:
        """Whether there is any hard relation."""
        return len(self.relations) > 0

    @cached_property
    def is_integral(self) -> bool:
        """Whether every objective is a whole number: all finite costs, and all soft prices and weights, are."""
        soft = [budget for budget in self.budgets if budget.price is not None]
        numbers: list[int | float] = [self.constant]
        for budget in soft:
            limits = (budget.limit,) if isinstance(budget, IntervalBudget) else (budget.lower, budget.upper)
            numbers += [budget.price or 0, *(limit for limit in limits if math.isfinite(limit))]
        return (
            is_whole(self.unary)
            and all(table.is_integral for table in self.tables)
            and all(budget.weights.dtype == np.int64 for budget in soft)
            and all(float(number).is_integer() for number in numbers)
        )

    def stats(self) -> ProblemStats:
        """Sizes and ranges of this problem."""
        from berthage.problem.stats import problem_stats

        return problem_stats(self)

    # -- identity --------------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the content: costs, structure, constraints and names."""
        digest = hashlib.sha256()
        update_digest(digest, ("berthage-problem-1", self.name, self.constant, self.variable_names, self.edge_names))
        update_digest(digest, (self.variable_label_set, self.multiplicity, self.unary, self.unary_residual))
        update_digest(digest, (self.edge_u, self.edge_v, self.edge_table, self.edge_multiplicity))
        for piece in self._pieces():
            update_digest(digest, (type(piece).__name__, *piece.digest_parts()))
        return digest.hexdigest()

    def _pieces(self) -> Iterator[LabelSet | CostTable | Relations | LinearBudget | IntervalBudget]:
        yield from self.label_sets
        yield from self.tables
        yield self.relations
        yield from self.budgets

    def __eq__(self, other: object) -> bool:
        """Equal content."""
        return isinstance(other, PlacementProblem) and self.digest == other.digest

    def __hash__(self) -> int:
        """Hash of the content, the same in every process."""
        return int(self.digest[:15], 16)

    def __repr__(self) -> str:
        """Name and sizes."""
        return (
            f"PlacementProblem({self.name!r}, variables={self.num_variables}, labels={len(self.unary)}, "
            f"edges={self.num_edges}, "
            f"tables={len(self.tables)}, relations={len(self.relations)}, "
            f"budgets={len(self.budgets)})"
        )

    # -- assignments --------------------------------------------------------------------------------

    def check_assignment(self, assignment: npt.ArrayLike) -> Int32Array:
        """Return `assignment` as int32[n] after checking its length and range.

        Raises:
            InvalidProblemError: Naming the first variable whose label does not exist.
        """
        try:
            raw = np.asarray(assignment)
        except ValueError as error:
            raise InvalidProblemError(f"an assignment is a vector of label indices: {error}") from None
        if raw.shape != (self.num_variables,):
            raise InvalidProblemError(
                f"an assignment needs one label index a variable: {self.num_variables}, got shape {raw.shape}"
            )
        if raw.dtype.kind not in "iu" and raw.size:
            raise InvalidProblemError(f"an assignment holds label indices (integers), got {raw.dtype}")
        bad = np.flatnonzero((raw < 0) | (raw >= self.num_labels))
        if len(bad):
            v = int(bad[0])
            raise InvalidProblemError(
                f"variable {self.variable_names[v]!r} has {self.num_labels[v]} labels (0 to {self.num_labels[v] - 1}); "
                f"the assignment gives it {raw[v]}"
            )
        return raw.astype(np.int32)

    # -- derivations --------------------------------------------------------------------------------

    def restrict(self, labels: Mapping[int | str, Iterable[int]] | npt.NDArray[np.bool_]) -> Derived:
        """Keep only some labels.

        Args:
            labels: Per variable (index or name) the label indices to keep, other variables keeping all; or a mask,
                bool[ΣK].

        Returns:
            The smaller problem, with a map back.

        Raises:
            InvalidProblemError: When a variable would keep no label.
        """
        from berthage.problem.derive import restrict

        return restrict(self, labels)

    def project(self, variables: Iterable[int | str] | Array) -> Derived:
        """The problem induced on some variables: what touches only them is kept, budgets keep their rows.

        The constant is kept. A linear budget's limits are loosened by what the variables left out can contribute, so
        the budgets of the projection are necessary, not sufficient.
        """
        from berthage.problem.derive import project

        return project(self, variables)

    def without_budgets(self) -> Derived:
        """The same problem without any budget."""
        from berthage.problem.derive import identity

        return identity(self, replace(self, linear_budgets=(), interval_budgets=()))

    def without(self, *names: str) -> Derived:
        """The same problem without the named constraints; they are gone everywhere.

        Raises:
            InvalidProblemError: When a name is not a constraint of this problem.
        """
        from berthage.problem.derive import identity, without

        return identity(self, without(self, names))
