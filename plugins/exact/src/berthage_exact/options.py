"""Options of ``exact``."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ExactOptions"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ExactOptions:
    """Options of the solver ``exact``.

    Attributes:
        max_sweeps: Most sweeps of message passing before the search.
        memory: Most MiB that cost tables, elimination tables and open nodes may take. Without room for more open
            nodes the search goes on depth first; without room for the tables it ends with the gap of message passing.
        eliminate: Whether what is left may be solved by eliminating variables, where the tables stay small.
    """

    max_sweeps: int = field(default=3000, metadata={"help": "most sweeps of message passing", "minimum": 1})
    memory: int = field(default=2048, metadata={"help": "most MiB for tables and open nodes", "minimum": 1})
    eliminate: bool = field(default=True, metadata={"help": "eliminate variables where tables stay small"})
