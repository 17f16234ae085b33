"""Options of the two solvers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["PulpOptions", "PyomoOptions"]

Fixing = Literal["auto", "on", "off"]

_FIXING_HELP = (
    "remove labels and pairs that message passing proves too dear before the engine sees the program; auto: for large "
    "programs"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulpOptions:
    """Options of ``ilp-pulp``.

    Attributes:
        backend: The engine: HiGHS in memory, or CBC through a text file.
        fixing: Whether to remove provably useless labels and pairs first.
    """

    backend: Literal["highs", "cbc"] = field(
        default="highs", metadata={"help": "engine: HiGHS in memory or CBC through a file"}
    )
    fixing: Fixing = field(default="auto", metadata={"help": _FIXING_HELP})


@dataclass(frozen=True, slots=True, kw_only=True)
class PyomoOptions:
    """Options of ``ilp-pyomo``.

    Attributes:
        fixing: Whether to remove provably useless labels and pairs first.
    """

    fixing: Fixing = field(default="auto", metadata={"help": _FIXING_HELP})
