"""Label sets: what the choices of a variable are called and where they lie on a mesh."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import Int32Array, frozen

__all__ = ["LabelSet"]


@dataclass(frozen=True, eq=False, slots=True)
class LabelSet:
    """The ordered labels that one or more variables choose from.

    Attributes:
        size: Number of labels, K.
        names: Display strings, K of them, or None: the labels are then called ``"0"``, ``"1"``, …
        coordinates: int32[K, D], one small integer per mesh dimension, or None. Hamming distance and per-dimension
            projection are defined on them.
    """

    size: int
    names: tuple[str, ...] | None = None
    coordinates: Int32Array | None = None

    @staticmethod
    def of(labels: int | Sequence[str] | LabelSet, coordinates: npt.ArrayLike | None = None) -> LabelSet:
        """Make a label set from a count, display strings or another set.

        Raises:
            InvalidProblemError: When there is no label, names repeat, or the coordinates do not have one row a label.
        """
        if isinstance(labels, LabelSet):
            if coordinates is None:
                return labels
            names, size = labels.names, labels.size
        elif isinstance(labels, int):
            names, size = None, labels
        else:
            names = tuple(str(label) for label in labels)
            size = len(names)
            if len(set(names)) != size:
                twice = next(name for name in names if names.count(name) > 1)
                raise InvalidProblemError(f"label {twice!r} occurs twice; labels of one variable need distinct names")
        if size < 1:
            raise InvalidProblemError("a variable needs at least one label")
        table = None
        if coordinates is not None:
            table = frozen(coordinates, "int32")
            if table.ndim != 2 or table.shape[0] != size:
                raise InvalidProblemError(
                    f"coordinates have shape {table.shape}, expected ({size}, number of mesh dimensions)"
                )
        return LabelSet(size, names, table)

    def name(self, index: int) -> str:
        """Display string of label `index`."""
        return str(index) if self.names is None else self.names[index]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the display strings."""
        return iter(self.names) if self.names is not None else (str(i) for i in range(self.size))

    def __len__(self) -> int:
        """Number of labels."""
        return self.size

    def index(self, label: int | str) -> int:
        """Index of a label given by index or display string.

        Raises:
            InvalidProblemError: When there is no such label.
        """
        if isinstance(label, str):
            if self.names is not None and label in self.names:
                return self.names.index(label)
            if self.names is None and label.isdigit() and int(label) < self.size:
                return int(label)
            some = ", ".join(name for name, _ in zip(self, range(6), strict=False))
            raise InvalidProblemError(
                f"no label {label!r}; there are {self.size}: {some}{', …' if self.size > 6 else ''}"
            )
        if not 0 <= int(label) < self.size:
            raise InvalidProblemError(
                f"label index {label} is out of range: there are {self.size} labels, 0 to {self.size - 1}"
            )
        return int(label)

    def take(self, indices: npt.NDArray[Any]) -> LabelSet:
        """The label set of the given labels, in that order."""
        names = None
        if self.names is not None:
            names = tuple(self.names[i] for i in indices.tolist())
        elif len(indices) != self.size or (indices != range(self.size)).any():
            names = tuple(str(i) for i in indices.tolist())  # a label keeps the name it had
        coordinates = None if self.coordinates is None else frozen(self.coordinates[indices], "int32")
        return LabelSet(len(indices), names, coordinates)

    def digest_parts(self) -> tuple[object, ...]:
        """What the content digest depends on."""
        return (self.size, self.names, self.coordinates)
