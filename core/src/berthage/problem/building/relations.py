"""The hard relations of a problem under construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import Array, BoolArray, frozen
from berthage.problem.building.costs import CostBuilder
from berthage.problem.building.variables import Label, Variable
from berthage.problem.relations import RelationKind


class RelationBuilder(CostBuilder):
    """Collects hard relations; each constraint has a name of its own."""

    def __init__(self, name: str = "problem") -> None:
        super().__init__(name)
        self._rows: list[tuple[RelationKind, int, int, int, str]] = []
        self._arrays: list[Array] = []
        self._array_by_content: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        self._constraint_names: set[str] = set()

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
        self._append_row(kind, u, v, array, name)
        return name

    def _append_row(self, kind: RelationKind, u: int, v: int, array: Array, name: str) -> None:
        key: tuple[str, tuple[int, ...], bytes] = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._array_by_content:
            self._array_by_content[key] = len(self._arrays)
            self._arrays.append(frozen(array.copy(), array.dtype))
        self._rows.append((kind, u, v, self._array_by_content[key], name))

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
            self._append_row(kind, a, -1 if kind is RelationKind.LABELS else b, array, name)

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
