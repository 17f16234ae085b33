"""Solved single dimensions, remembered by everything that they depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["SeedCache", "Solved"]


@dataclass(frozen=True, eq=False, slots=True)
class Solved:
    """The solution of one dimension.

    Attributes:
        piece: What the provider of the dimensions made of the assignment; None when there is none.
        objective: Its cost in the problem of this dimension, or None.
        bound: The solver's bound on that problem.
        reason: Why the solver stopped.
        variables: Size of that problem.
    """

    piece: Any
    objective: int | float | None
    bound: float
    reason: str
    variables: int


class SeedCache:
    """A memory of solved dimensions that belongs to whoever made it; nothing is shared by itself.

    Attributes:
        hits: Answers given from memory.
        misses: Questions that had to be solved.
    """

    def __init__(self) -> None:
        self._solved: dict[str, Solved] = {}
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        """Number of solved dimensions."""
        return len(self._solved)

    def get(self, key: str) -> Solved | None:
        """What is remembered under a key, counted as a hit or a miss."""
        found = self._solved.get(key)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, key: str, solved: Solved) -> None:
        """Remember a solution."""
        self._solved[key] = solved

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, in the order in which they came."""
        return tuple(self._solved)
