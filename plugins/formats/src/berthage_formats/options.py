"""The options of every format: frozen, all with defaults, checked on construction."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, Literal, TypeVar, get_args

from berthage import OptionError

__all__ = ["IopddlOptions", "ReadLimits", "ShardingOptions", "UaiOptions", "make_options"]

DEFAULT_MAX_BYTES = 1 << 30
DEFAULT_MAX_CELLS = 1 << 26

Values = Literal["potential", "cost"]
Edges = Literal["true", "recorded"]


def _limit(default: int, text: str) -> Any:
    return field(default=default, metadata={"help": text, "minimum": 1})


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """What a reader refuses to exceed, so that a damaged or hostile file cannot exhaust the machine.

    Attributes:
        max_bytes: Greatest size of the file once decompressed, in bytes.
        max_cells: Greatest number of costs (labels plus cells of distinct tables) to allocate.
    """

    max_bytes: int = _limit(DEFAULT_MAX_BYTES, "Refuse files larger than this, in bytes, once decompressed.")
    max_cells: int = _limit(DEFAULT_MAX_CELLS, "Refuse problems with more costs (labels and table cells) than this.")

    def __post_init__(self) -> None:
        """Refuse limits below one."""
        for name in ("max_bytes", "max_cells"):
            if getattr(self, name) < 1:
                raise OptionError(f"option {name!r} must be at least 1, not {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class IopddlOptions(ReadLimits):
    """Options of ``iopddl``: the limits, nothing else."""


@dataclass(frozen=True, kw_only=True)
class UaiOptions(ReadLimits):
    """Options of ``uai``.

    Attributes:
        values: What the tables hold: ``potential`` (cost = -ln of it, as in the UAI contests) or ``cost``.
        zero: What a potential of 0 means: ``forbid``, or a finite cost such as ``1e6``.
        evidence: Path of an evidence file; ``auto`` takes ``NAME.uai.evid`` beside the file if there is one.
    """

    values: Values = field(
        default="potential",
        metadata={
            "choices": get_args(Values),
            "help": "What the tables hold: potentials, or costs as they are.",
        },
    )
    zero: str | float = field(default="forbid", metadata={"help": "Cost of a potential of 0: 'forbid' or a number."})
    evidence: str | None = field(
        default=None, metadata={"help": "Evidence file to apply, or 'auto' for the .evid beside the problem."}
    )

    def __post_init__(self) -> None:
        """Refuse unknown dialects and stand-ins that are no numbers."""
        ReadLimits.__post_init__(self)
        if self.values not in get_args(Values):
            raise OptionError(f"option 'values' must be potential or cost, not {self.values!r}")
        _ = self.zero_cost

    @property
    def zero_cost(self) -> float:
        """Cost of a potential of zero; ``inf`` when it is forbidden."""
        if self.zero == "forbid":
            return float("inf")
        try:
            number = float(self.zero)
        except (TypeError, ValueError):
            number = float("nan")
        if not isfinite(number):
            raise OptionError(f"option 'zero' must be 'forbid' or a finite number, not {self.zero!r}")
        return number


@dataclass(frozen=True, kw_only=True)
class ShardingOptions(ReadLimits):
    """Options of ``sharding``.

    Attributes:
        edges: ``true`` charges every real edge to its real producer; ``recorded`` charges what the recording
            program charged.
        memory: Whether the memory bound becomes a budget.
    """

    edges: Edges = field(
        default="true",
        metadata={
            "choices": get_args(Edges),
            "help": "Price every real edge, or only the edges as recorded.",
        },
    )
    memory: bool = field(default=True, metadata={"help": "Turn the recorded memory bound into a budget."})

    def __post_init__(self) -> None:
        """Refuse unknown words."""
        ReadLimits.__post_init__(self)
        if self.edges not in get_args(Edges):
            raise OptionError(f"option 'edges' must be true or recorded, not {self.edges!r}")


_Options = TypeVar("_Options", bound=ReadLimits)


def make_options(kind: type[_Options], given: dict[str, Any]) -> _Options:
    """Build the options of a format from keyword arguments.

    Raises:
        OptionError: An option is unknown or out of range.
    """
    known = [f.name for f in fields(kind)]
    for name in given:
        if name not in known:
            raise OptionError(f"there is no option {name!r}; there are: {', '.join(known)}")
    return kind(**given)
