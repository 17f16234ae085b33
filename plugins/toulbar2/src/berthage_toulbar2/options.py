"""Options of ``toulbar2``."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Toulbar2Options"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Toulbar2Options:
    """Options of the solver ``toulbar2``.

    Attributes:
        memory: Most MiB of address space of the process that searches.
        vac: Depth of the search down to which virtual arc consistency is enforced, plus one; 1 for the root only.
    """

    memory: int = field(default=8192, metadata={"help": "most MiB of the process", "minimum": 256})
    vac: int = field(default=0, metadata={"help": "virtual arc consistency: 0 never, 1 at the root", "minimum": 0})
