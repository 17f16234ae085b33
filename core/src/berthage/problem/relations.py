"""Hard relations: what an assignment must obey whatever it costs. All are named, all can be removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from berthage.problem.arrays import Array, Int32Array, frozen

__all__ = ["Relation", "RelationKind", "Relations"]


class RelationKind(IntEnum):
    """What a row of `Relations` demands."""

    LABELS = 0
    """Variable u takes one of the labels marked in bool[K_u]."""
    PAIRS = 1
    """The labels of u and v are a pair marked in bool[K_u, K_v]."""
    TIE = 2
    """Variable v takes the label int32[K_u] gives for u's label; -1 forbids that label of u."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One row of `Relations`, for reading."""

    kind: RelationKind
    u: int
    v: int
    array: Array
    name: str

    def allows(self, label_u: int, label_v: int) -> bool:
        """Whether the two labels satisfy this relation (`label_v` does not matter for LABELS)."""
        if self.kind is RelationKind.LABELS:
            return bool(self.array[label_u])
        if self.kind is RelationKind.PAIRS:
            return bool(self.array[label_u, label_v])
        return int(self.array[label_u]) == label_v


@dataclass(frozen=True, eq=False, slots=True)
class Relations:
    """Hard relations as a structure of arrays.

    Attributes:
        kind: int8[h], a `RelationKind` a row.
        u: int32[h], first variable.
        v: int32[h], second variable; -1 for LABELS.
        data: int32[h], index into `arrays`; rows may share an array.
        arrays: What is allowed, shaped as `RelationKind` says.
        names: h names; one constraint may own several rows, which then share its name.
    """

    kind: Array
    u: Int32Array
    v: Int32Array
    data: Int32Array
    arrays: tuple[Array, ...]
    names: tuple[str, ...]

    @staticmethod
    def none() -> Relations:
        """No relation at all."""
        empty = frozen(np.zeros(0), np.int32)
        return Relations(frozen(np.zeros(0), np.int8), empty, empty, empty, (), ())

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.kind)

    def __iter__(self) -> Iterator[Relation]:
        """Iterate over the rows as `Relation` values."""
        rows = zip(self.kind.tolist(), self.u.tolist(), self.v.tolist(), self.data.tolist(), self.names, strict=True)
        for kind, u, v, data, name in rows:
            yield Relation(RelationKind(kind), u, v, self.arrays[data], name)

    def keep(self, rows: Array) -> Relations:
        """The relations of the given rows (indices or mask); arrays that nothing uses any more are dropped."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        used, data = np.unique(self.data[rows], return_inverse=True)
        return Relations(
            frozen(self.kind[rows], np.int8),
            frozen(self.u[rows], np.int32),
            frozen(self.v[rows], np.int32),
            frozen(data, np.int32),
            tuple(self.arrays[i] for i in used.tolist()),
            tuple(self.names[i] for i in rows.tolist()),
        )

    def digest_parts(self) -> tuple[object, ...]:
        """What the content digest depends on."""
        return (self.kind, self.u, self.v, self.data, len(self.arrays), *self.arrays, self.names)
