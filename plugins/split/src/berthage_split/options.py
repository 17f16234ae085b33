"""Options of ``split-dim``."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SplitOptions"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitOptions:
    """Options of the seeder ``split-dim``.

    Attributes:
        solver: Who solves the problem of each dimension; any solver.
        share: Share of the time limit that all dimensions together may take.
    """

    solver: str = field(default="trws", metadata={"help": "who solves the dimensions"})
    share: float = field(default=0.5, metadata={"help": "share of the time limit", "minimum": 0.0, "maximum": 1.0})
