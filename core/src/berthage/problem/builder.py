"""`ProblemBuilder`: makes a `PlacementProblem` from named pieces, with errors that name the piece that is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import Array, BoolArray, Float64Array, Int64Array, frozen, split_exact
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.labels import LabelSet
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import RelationKind, Relations
from berthage.problem.tables import CostTable, DenseTable

__all__ = ["ProblemBuilder"]

Item = TypeVar("Item")
Variable = int | str
Label = int | str


class ProblemBuilder:
    """Collects variables, costs and constraints, checks each as it comes, and builds the immutable problem.

    Variables and labels may be given by index or by name everywhere. Integer costs of any size are kept exactly.

    Example:
        >>> from berthage import ProblemBuilder, evaluate
        >>> b = ProblemBuilder("two tensors")
        >>> x = b.add_variable("weight", ["R", "S(0)"], [4, 1])
        >>> y = b.add_variable("activation", ["R", "S(0)"], [0, 2])
        >>> e = b.add_pairwise(x, y, [[0, 3], [5, 0]])
        >>> evaluate(b.build(), [1, 1]).objective
        3
    """

    def __init__(self, name: str = "problem") -> None:
        self._name = name
        self._constant: int | float = 0
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
        self._tables: list[CostTable] = []
        self._table_by_id: dict[int, int] = {}
        self._edges: list[tuple[Array, Array, Array, Array]] = []
        self._edge_names: dict[int, str] = {}
        self._num_edges = 0
        self._rows: list[tuple[RelationKind, int, int, int, str]] = []
        self._arrays: list[Array] = []
        self._array_by_content: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self._linear: list[LinearBudget] = []
        self._interval: list[IntervalBudget] = []
        self._constraint_names: set[str] = set()

    # -- variables --------------------------------------------------------------------------------

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
        _check_multiplicity(f"variable {name!r}", multiplicity)
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

    # -- costs --------------------------------------------------------------------------------

    def add_constant(self, value: int | float) -> None:
        """Add a number to every objective."""
        if not np.isfinite(float(value)):
            raise InvalidProblemError(f"a constant must be finite, got {value!r}")
        self._constant += value

    def add_unary(self, variable: Variable, costs: npt.ArrayLike) -> None:
        """Add unary costs, one a label and per copy, to those a variable has."""
        v = self.variable(variable)
        values, residual = split_exact(costs, f"the cost of variable {self._names[v]!r}")
        if values.shape != (self._labels(v).size,):
            raise InvalidProblemError(
                f"variable {self._names[v]!r} has {self._labels(v).size} labels but {values.shape} costs; "
                "give one cost a label"
            )
        self._accumulate(v, values, residual, self._copies[v] // self._multiplicity[v], 1)

    def _accumulate(
        self, v: int, values: Float64Array, residual: Int64Array | None, scale: int, own_scale: int
    ) -> None:
        """unary_v ← own_scale·unary_v + scale·values, exactly where the numbers are whole."""
        block, start, stop = self._block[v]
        old, old_residual = self._unary[block][start:stop], self._residual[block]
        exact = old_residual is not None or residual is not None or _large(old, own_scale) or _large(values, scale)
        if not exact:
            old[:] = own_scale * old + scale * values
            return
        zero = np.zeros(stop - start, dtype=np.int64)
        mine = _exact_list(old, zero if old_residual is None else old_residual[start:stop])
        theirs = _exact_list(values, zero if residual is None else residual)
        total = [own_scale * a + scale * b for a, b in zip(mine, theirs, strict=True)]
        new, new_residual = split_exact(np.array(total, dtype=object), f"the cost of variable {self._names[v]!r}")
        old[:] = new
        if old_residual is None and new_residual is not None:
            old_residual = self._residual[block] = np.zeros(len(self._unary[block]), dtype=np.int64)
        if old_residual is not None:
            if not old_residual.flags.writeable:
                old_residual = self._residual[block] = old_residual.copy()
            old_residual[start:stop] = 0 if new_residual is None else new_residual

    def add_table(self, table: npt.ArrayLike | CostTable) -> int:
        """Add a cost table that many edges may share, and return its index."""
        value = table if isinstance(table, CostTable) else DenseTable(table)
        if id(value) not in self._table_by_id:
            self._table_by_id[id(value)] = len(self._tables)
            self._tables.append(value)
        return self._table_by_id[id(value)]

    def add_pairwise(
        self,
        u: Variable,
        v: Variable,
        table: int | npt.ArrayLike | CostTable,
        *,
        name: str | None = None,
        multiplicity: int = 1,
    ) -> int | None:
        """Add a pairwise cost and return the edge's index.

        Args:
            u: First end: rows of the table.
            v: Second end: columns of the table. The same variable twice folds the diagonal into its unary cost.
            table: An index from `add_table`, a matrix, or a `CostTable`.
            name: Name of the edge in breakdowns; derived from the ends when left out.
            multiplicity: How many times the cost counts.

        Returns:
            The edge's index, or None when it was folded.

        Raises:
            InvalidProblemError: When the table does not have one row a label of u and one column a label of v.
        """
        a, b = self.variable(u), self.variable(v)
        what = name or f"{self._names[a]} -- {self._names[b]}"
        if not isinstance(table, int | np.integer):
            try:
                table = self.add_table(table)
            except InvalidProblemError as error:
                raise InvalidProblemError(f"edge {what!r}: {error}") from None
        if not 0 <= table < len(self._tables):
            raise InvalidProblemError(f"edge {what!r}: there is no table {table}; {len(self._tables)} were added")
        _check_multiplicity(f"edge {what!r}", multiplicity)
        expected = (self._labels(a).size, self._labels(b).size)
        if self._tables[table].shape != expected:
            raise InvalidProblemError(
                f"edge {what!r}: its table has shape {self._tables[table].shape}, its ends have {expected} labels"
            )
        if a == b:
            self._fold_self_edge(a, int(table), int(multiplicity))
            return None
        if name is not None:
            self._edge_names[self._num_edges] = name
        self._append_edges(np.array([a]), np.array([b]), np.array([table]), np.array([multiplicity]))
        return self._num_edges - 1

    def add_edges(
        self,
        u: npt.ArrayLike,
        v: npt.ArrayLike,
        table: npt.ArrayLike,
        multiplicity: npt.ArrayLike | None = None,
    ) -> None:
        """Add many pairwise costs at once; self edges are folded as in `add_pairwise`.

        Args:
            u: int[k], first ends.
            v: int[k], second ends.
            table: int[k], indices from `add_table`.
            multiplicity: int[k]; 1 when left out.
        """
        a, b, t = (np.asarray(x, dtype=np.int64) for x in (u, v, table))
        copies = np.ones(len(a), dtype=np.int64) if multiplicity is None else np.asarray(multiplicity, dtype=np.int64)
        if not a.shape == b.shape == t.shape == copies.shape or a.ndim != 1:
            raise InvalidProblemError("add_edges needs vectors of one length")
        if not len(a):
            return
        for what, index, count in (
            ("variable", a, len(self._names)),
            ("variable", b, len(self._names)),
            ("table", t, len(self._tables)),
        ):
            if index.min() < 0 or index.max() >= count:
                bad = int(np.flatnonzero((index < 0) | (index >= count))[0])
                raise InvalidProblemError(f"edge {bad}: there is no {what} {index[bad]}; there are {count}")
        if copies.min() < 1:
            raise InvalidProblemError(f"edge {int(copies.argmin())}: multiplicity must be ≥ 1, got {copies.min()}")
        sizes = np.array([s.size for s in self._sets])[np.array(self._variable_set)]
        shapes = np.array([table.shape for table in self._tables])[t]
        wrong = np.flatnonzero((shapes[:, 0] != sizes[a]) | (shapes[:, 1] != sizes[b]))
        if len(wrong):
            e = int(wrong[0])
            raise InvalidProblemError(
                f"edge {e} ({self._names[a[e]]} -- {self._names[b[e]]}): its table has shape "
                f"{tuple(shapes[e].tolist())}, "
                f"its ends have {(int(sizes[a[e]]), int(sizes[b[e]]))} labels"
            )
        for e in np.flatnonzero(a == b).tolist():
            self._fold_self_edge(int(a[e]), int(t[e]), int(copies[e]))
        real = a != b
        self._append_edges(a[real], b[real], t[real], copies[real])

    def _append_edges(self, u: Array, v: Array, table: Array, multiplicity: Array) -> None:
        self._edges.append((u, v, table, multiplicity))
        self._num_edges += len(u)

    def _fold_self_edge(self, v: int, table: int, multiplicity: int) -> None:
        diagonal = np.arange(self._labels(v).size)
        values, residual = self._tables[table].exact(diagonal, diagonal)
        own = self._multiplicity[v]
        self._multiplicity[v] = 1  # the diagonal has its own multiplicity, so both are written out
        self._accumulate(v, values, residual, multiplicity, own)

    # -- hard relations --------------------------------------------------------------------------------

    def forbid(self, variable: Variable, labels: Iterable[Label] | Label, name: str | None = None) -> str:
        """Forbid some labels of a variable; returns the constraint's name."""
        v = self.variable(variable)
        allowed = ~self._label_mask(v, labels)
        return self._add_relation(
            RelationKind.LABELS, v, -1, allowed, name or f"forbid {self._names[v]}", name is not None
        )

    def allow(self, variable: Variable, labels: Iterable[Label] | Label, name: str | None = None) -> str:
        """Allow only some labels of a variable; returns the constraint's name."""
        v = self.variable(variable)
        allowed = self._label_mask(v, labels)
        return self._add_relation(
            RelationKind.LABELS, v, -1, allowed, name or f"allow {self._names[v]}", name is not None
        )

    def fix(self, variable: Variable, label: Label, name: str | None = None) -> str:
        """Fix a variable to one label; returns the constraint's name."""
        v = self.variable(variable)
        allowed = self._label_mask(v, [label])
        return self._add_relation(
            RelationKind.LABELS, v, -1, allowed, name or f"fix {self._names[v]}", name is not None
        )

    def allow_pairs(self, u: Variable, v: Variable, allowed: npt.ArrayLike, name: str | None = None) -> str:
        """Allow only the pairs marked in ``allowed``, bool[K_u, K_v]; returns the constraint's name."""
        a, b = self._two(u, v)
        mask = np.asarray(allowed)
        expected = (self._labels(a).size, self._labels(b).size)
        what = name or f"pairs {self._names[a]} -- {self._names[b]}"
        if mask.shape != expected or mask.dtype != np.bool_:
            raise InvalidProblemError(
                f"constraint {what!r}: expected bool{list(expected)}, got {mask.dtype}{list(mask.shape)}"
            )
        return self._add_relation(RelationKind.PAIRS, a, b, mask, what, name is not None)

    def forbid_pairs(
        self, u: Variable, v: Variable, pairs: Iterable[tuple[Label, Label]], name: str | None = None
    ) -> str:
        """Forbid pairs of labels of two variables; returns the constraint's name."""
        a, b = self._two(u, v)
        allowed = np.ones((self._labels(a).size, self._labels(b).size), dtype=np.bool_)
        for label_u, label_v in pairs:
            allowed[self._labels(a).index(label_u), self._labels(b).index(label_v)] = False
        what = name or f"pairs {self._names[a]} -- {self._names[b]}"
        return self._add_relation(RelationKind.PAIRS, a, b, allowed, what, name is not None)

    def tie(
        self,
        u: Variable,
        v: Variable,
        mapping: Mapping[Label, Label] | npt.ArrayLike | None = None,
        name: str | None = None,
    ) -> str:
        """Make two variables agree; returns the constraint's name.

        Args:
            u: First variable.
            v: Second variable.
            mapping: The label of v for each label of u, as a mapping or int[K_u]; labels of u that are left out (or -1)
                are not allowed. None: the same label name, or the same index when neither has names.
            name: Name of the constraint.
        """
        a, b = self._two(u, v)
        mine, theirs = self._labels(a), self._labels(b)
        what = name or f"tie {self._names[a]} -- {self._names[b]}"
        target = np.full(mine.size, -1, dtype=np.int32)
        if mapping is None and (mine is theirs or (mine.names is None and theirs.names is None)):
            target[: min(mine.size, theirs.size)] = np.arange(min(mine.size, theirs.size))
        elif mapping is None:
            there = {label: i for i, label in enumerate(theirs)}
            target[:] = [there.get(label, -1) for label in mine]
        elif isinstance(mapping, Mapping):
            for label_u, label_v in mapping.items():
                target[mine.index(label_u)] = theirs.index(label_v)
        else:
            given = np.asarray(mapping)
            if given.shape != (mine.size,) or given.dtype.kind not in "iu":
                raise InvalidProblemError(
                    f"constraint {what!r}: a tie needs int[{mine.size}], got {given.dtype}{list(given.shape)}"
                )
            if given.min() < -1 or given.max() >= theirs.size:
                raise InvalidProblemError(f"constraint {what!r}: a tie must give labels 0 to {theirs.size - 1}, or -1")
            target[:] = given
        return self._add_relation(RelationKind.TIE, a, b, target, what, name is not None)

    def _two(self, u: Variable, v: Variable) -> tuple[int, int]:
        a, b = self.variable(u), self.variable(v)
        if a == b:
            raise InvalidProblemError(
                f"a relation needs two variables, got {self._names[a]!r} twice; use allow or forbid"
            )
        return a, b

    def _label_mask(self, v: int, labels: Iterable[Label] | Label) -> BoolArray:
        own = self._labels(v)
        mask = np.zeros(own.size, dtype=np.bool_)
        try:
            for label in [labels] if isinstance(labels, int | str | np.integer) else labels:
                mask[own.index(label)] = True
        except InvalidProblemError as error:
            raise InvalidProblemError(f"variable {self._names[v]!r}: {error}") from None
        return mask

    def _add_relation(self, kind: RelationKind, u: int, v: int, array: Array, name: str, given: bool) -> str:
        name = self._claim(name, given)
        key: tuple[str, tuple[int, ...], bytes] = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._array_by_content:
            self._array_by_content[key] = len(self._arrays)
            self._arrays.append(frozen(array.copy(), array.dtype))
        self._rows.append((kind, u, v, self._array_by_content[key], name))
        return name

    def add_relations(
        self, kind: RelationKind, u: npt.ArrayLike, v: npt.ArrayLike, arrays: Sequence[Array], name: str
    ) -> None:
        """Add many relations of one kind under one name: they are removed together.

        Args:
            kind: What each demands.
            u: int[k], first variables.
            v: int[k], second variables; ignored for LABELS.
            arrays: k arrays, shaped as `RelationKind` says.
            name: Name of the constraint.
        """
        name = self._claim(name, True)
        for a, b, array in zip(np.asarray(u).tolist(), np.asarray(v).tolist(), arrays, strict=True):
            first = self._labels(self.variable(a)).size
            second = None if kind is RelationKind.LABELS else self._labels(self._two(a, b)[1]).size
            expected: tuple[int, ...] = (first, second or 0) if kind is RelationKind.PAIRS else (first,)
            dtype = np.dtype(np.int32 if kind is RelationKind.TIE else np.bool_)
            if array.shape != expected or array.dtype != dtype:
                raise InvalidProblemError(
                    f"constraint {name!r}: expected {dtype}{list(expected)}, got {array.dtype}{list(array.shape)}"
                )
            if kind is RelationKind.TIE and (array.min() < -1 or array.max() >= (second or 0)):
                raise InvalidProblemError(
                    f"constraint {name!r}: a tie must give labels 0 to {(second or 0) - 1}, or -1"
                )
            key: tuple[str, tuple[int, ...], bytes] = (array.dtype.str, array.shape, array.tobytes())
            if key not in self._array_by_content:
                self._array_by_content[key] = len(self._arrays)
                self._arrays.append(frozen(array.copy(), dtype))
            self._rows.append((kind, a, -1 if kind is RelationKind.LABELS else b, self._array_by_content[key], name))

    def _claim(self, name: str, given: bool) -> str:
        """Reserve a constraint name; a derived one gets a number when it is taken."""
        if name in self._constraint_names:
            if given:
                raise InvalidProblemError(
                    f"there is already a constraint {name!r}; names must differ so that each can be removed"
                )
            number = 2
            while f"{name} #{number}" in self._constraint_names:
                number += 1
            name = f"{name} #{number}"
        self._constraint_names.add(name)
        return name

    # -- budgets --------------------------------------------------------------------------------

    def add_budget(
        self,
        name: str,
        weights: Mapping[Variable, npt.ArrayLike],
        *,
        lower: int | float = -np.inf,
        upper: int | float = np.inf,
        price: int | float | None = None,
    ) -> str:
        """Add ``lower ≤ Σ weights[v][x_v] ≤ upper`` and return its name.

        Args:
            name: Name of the constraint.
            weights: Per variable one finite weight a label; variables left out weigh nothing.
            lower: Least sum; -inf for none.
            upper: Greatest sum; inf for none.
            price: Cost per unit outside the bounds; None for a hard budget.
        """
        rows = [(self.variable(v), w) for v, w in weights.items()]
        if len({v for v, _ in rows}) != len(rows):
            raise InvalidProblemError(f"budget {name!r} names a variable twice")
        if np.isnan(lower) or np.isnan(upper) or lower > upper:
            raise InvalidProblemError(f"budget {name!r}: lower {lower!r} must not exceed upper {upper!r}")
        if lower == np.inf or upper == -np.inf:
            raise InvalidProblemError(f"budget {name!r}: bounds {lower!r} to {upper!r} allow nothing")
        ptr, flat = self._weights(name, rows)
        variables = frozen(np.array([v for v, _ in rows], dtype=np.int32), np.int32)
        self._check_price(name, price)
        self._claim(name, True)
        self._linear.append(LinearBudget(name, variables, ptr, flat, lower, upper, price))
        return name

    def add_interval_budget(
        self,
        name: str,
        rows: Iterable[tuple[Variable, int, int, npt.ArrayLike]],
        *,
        limit: int | float,
        price: int | float | None = None,
    ) -> str:
        """Add a limit on what is live at any instant and return its name.

        Args:
            name: Name of the constraint.
            rows: ``(variable, start, stop, weights)``: live over the half-open interval, one weight ≥ 0 a label.
            limit: Greatest total use at any instant.
            price: Cost per unit of peak overuse; None for a hard budget.
        """
        listed = [(self.variable(v), start, stop, w) for v, start, stop, w in rows]
        for v, start, stop, _ in listed:
            if stop < start:
                raise InvalidProblemError(
                    f"budget {name!r}: variable {self._names[v]!r} is live over [{start}, {stop}), "
                    "which ends before it starts"
                )
        ptr, flat = self._weights(name, [(v, w) for v, _, _, w in listed])
        if flat.size and flat.min() < 0:
            raise InvalidProblemError(f"budget {name!r}: what is live uses ≥ 0, got a weight of {flat.min()}")
        if not np.isfinite(float(limit)):
            raise InvalidProblemError(
                f"budget {name!r}: the limit must be finite, got {limit!r}; leave the budget out instead"
            )
        self._check_price(name, price)
        columns = [np.array([row[i] for row in listed], dtype=np.int64) for i in range(3)]
        self._claim(name, True)
        self._interval.append(
            IntervalBudget(
                name,
                frozen(columns[0], np.int32),
                frozen(columns[1], np.int64),
                frozen(columns[2], np.int64),
                ptr,
                flat,
                limit,
                price,
            )
        )
        return name

    def _check_price(self, name: str, price: int | float | None) -> None:
        if price is not None and not (np.isfinite(price) and price >= 0):
            raise InvalidProblemError(f"budget {name!r}: the price per unit must be finite and ≥ 0, got {price!r}")

    def _weights(self, name: str, rows: list[tuple[int, npt.ArrayLike]]) -> tuple[Int64Array, Array]:
        parts: list[Array] = []
        for v, raw in rows:
            try:
                array = np.asarray(raw)
                if array.dtype.kind == "u":
                    array = array.astype(np.int64 if array.max(initial=0) < 2**63 else np.float64)
                if array.dtype.kind not in "if":
                    array = array.astype(np.float64)
            except (TypeError, ValueError):
                raise InvalidProblemError(
                    f"budget {name!r}: the weights of {self._names[v]!r} are not numbers"
                ) from None
            if array.shape != (self._labels(v).size,):
                raise InvalidProblemError(
                    f"budget {name!r}: variable {self._names[v]!r} has {self._labels(v).size} labels "
                    f"but {array.shape} weights"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise InvalidProblemError(
                    f"budget {name!r}: the weights of {self._names[v]!r} must be finite; forbid the label instead"
                )
            parts.append(array)
        flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        if flat.dtype.kind == "f" and flat.size and np.abs(flat).max() < 2.0**53 and (flat == np.floor(flat)).all():
            flat = flat.astype(np.int64)
        ptr = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=ptr[1:])
        return frozen(ptr, np.int64), frozen(flat, np.int64 if flat.dtype.kind == "i" else np.float64)

    # -- build --------------------------------------------------------------------------------

    def build(self) -> PlacementProblem:
        """The immutable problem of everything added so far; the builder can go on."""
        unary, residual = self._flat_unary()
        columns = [np.concatenate([edge[i] for edge in self._edges]) if self._edges else np.zeros(0) for i in range(4)]
        names: tuple[str, ...] | None = None
        if self._edge_names:
            ends = zip(columns[0].tolist(), columns[1].tolist(), strict=True)
            names = tuple(
                self._edge_names.get(e) or f"{self._names[int(u)]} -- {self._names[int(v)]}"
                for e, (u, v) in enumerate(ends)
            )
        # What a refused call or a folded edge left behind is dropped.
        label_sets, variable_label_set = _used(self._sets, np.array(self._variable_set, dtype=np.int64))
        tables, edge_table = _used(self._tables, columns[2].astype(np.int64))
        rows = self._rows
        relations = Relations(
            frozen(np.array([int(r[0]) for r in rows]), np.int8),
            frozen(np.array([r[1] for r in rows]), np.int32),
            frozen(np.array([r[2] for r in rows]), np.int32),
            frozen(np.array([r[3] for r in rows]), np.int32),
            tuple(self._arrays),
            tuple(r[4] for r in rows),
        )
        return PlacementProblem(
            name=self._name,
            label_sets=label_sets,
            variable_names=tuple(self._names),
            variable_label_set=frozen(variable_label_set, np.int32),
            multiplicity=frozen(np.array(self._multiplicity), np.int64),
            unary=unary,
            tables=tables,
            edge_u=frozen(columns[0], np.int32),
            edge_v=frozen(columns[1], np.int32),
            edge_table=frozen(edge_table, np.int32),
            edge_multiplicity=frozen(columns[3], np.int64),
            unary_residual=residual,
            edge_names=names,
            relations=relations,
            linear_budgets=tuple(self._linear),
            interval_budgets=tuple(self._interval),
            constant=self._constant,
        )

    def _flat_unary(self) -> tuple[Float64Array, Int64Array | None]:
        # Blocks are appended in variable order, so their concatenation is the flat array.
        flat: Float64Array = frozen(np.concatenate(self._unary) if self._unary else np.zeros(0), np.float64)
        if all(residual is None or not residual.any() for residual in self._residual):
            return flat, None
        parts = [
            np.zeros(len(u), dtype=np.int64) if r is None else r
            for u, r in zip(self._unary, self._residual, strict=True)
        ]
        return flat, frozen(np.concatenate(parts), np.int64)


def _check_multiplicity(what: str, multiplicity: object) -> None:
    if not isinstance(multiplicity, int | np.integer) or not 1 <= int(multiplicity) < 2**31:
        raise InvalidProblemError(
            f"{what}: multiplicity must be a whole number from 1 to 2^31 - 1, got {multiplicity!r}"
        )


def _used(items: list[Item], index: Int64Array) -> tuple[tuple[Item, ...], Int64Array]:
    """The items that an index refers to, in order, and the index into them."""
    used = np.bincount(index, minlength=len(items)) > 0
    if used.all():
        return tuple(items), index
    place: Int64Array = np.cumsum(used) - 1
    return tuple(items[i] for i in np.flatnonzero(used).tolist()), place[index]


def _large(values: Float64Array, scale: int) -> bool:
    """Whether whole numbers among the scaled values may leave the range where floats are exact (sums doubled)."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return False
    whole = finite[finite == np.floor(finite)]
    return bool(whole.size) and float(np.abs(whole).max()) * scale >= 2.0**52


def _exact_list(values: Float64Array, residual: Int64Array) -> list[int | float]:
    return [
        int(value) + extra if np.isfinite(value) and value == np.floor(value) else value
        for value, extra in zip(values.tolist(), residual.tolist(), strict=True)
    ]
