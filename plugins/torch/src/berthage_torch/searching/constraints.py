"""What a person demands of a plan, as a value: placements of inputs, outputs and single tensors, and memory."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from berthage import InvalidProblemError
from berthage.files import atomic_write

__all__ = ["PARAMETER_MEMORY", "PEAK_MEMORY", "Constraints", "Limits", "PeakMemory", "Wanted"]

Wanted: TypeAlias = str | tuple[str, ...]
Limits: TypeAlias = str | tuple[float, float]

PARAMETER_MEMORY: Final = "parameter memory"
PEAK_MEMORY: Final = "peak memory"
FORMAT: Final = "berthage-constraints"
FORMAT_VERSION: Final = 1

_MOMENTS: Final = MappingProxyType({"none": 0.0, "sgd": 0.0, "momentum": 4.0, "adam": 8.0, "adamw": 8.0})
_PLACED: Final = MappingProxyType({"inputs": "input", "outputs": "output", "pins": "pin"})


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """A limit on what a rank holds at any instant of a step.

    Attributes:
        limit: Bytes, or a share of the device's memory when at most 1.
        optimizer: Whose state lies beside each parameter that has a gradient: ``"adamw"`` (two float32, 8 bytes an
            element), ``"momentum"`` (one), ``"sgd"`` or ``"none"``, or bytes an element.
        price: None for a limit that holds; else what each byte of the peak above it costs, in microseconds.
    """

    limit: float
    optimizer: str | float = "adamw"
    price: float | None = None

    def __post_init__(self) -> None:
        given: object = self.limit
        number = isinstance(given, (int, float)) and math.isfinite(given) and given > 0
        # A share of 150 % is no number of bytes either, and there is no step that lives on a few of them.
        if not number or (1 < self.limit < 1024 and self.limit != int(self.limit)):
            raise InvalidProblemError(f"peak memory is a number of bytes or a share up to 1, not {self.limit!r}")
        if self.price is not None and not self.price >= 0:
            raise InvalidProblemError(f"a price of peak memory is microseconds a byte, not {self.price!r}")
        self.state_bytes  # noqa: B018  (an unknown optimizer is told here)

    @property
    def state_bytes(self) -> float:
        """Bytes of optimizer state for each element of a parameter.

        Raises:
            InvalidProblemError: No such optimizer.
        """
        if isinstance(self.optimizer, str):
            if self.optimizer not in _MOMENTS:
                raise InvalidProblemError(
                    f"no optimizer {self.optimizer!r}; there are {', '.join(_MOMENTS)}, or bytes an element"
                )
            return _MOMENTS[self.optimizer]
        if not self.optimizer >= 0:
            raise InvalidProblemError(f"optimizer state is 0 or more bytes an element, not {self.optimizer!r}")
        return float(self.optimizer)

    def bytes_of(self, device_bytes: int | None) -> int:
        """The limit in bytes.

        Args:
            device_bytes: Memory of a device, None where that is not known.

        Raises:
            InvalidProblemError: A share of something unknown.
        """
        if self.limit > 1:
            return int(self.limit)
        if device_bytes is None:
            raise InvalidProblemError("this cost model does not tell the device's memory: give peak memory in bytes")
        return int(self.limit * device_bytes)


def _nothing() -> Mapping[str, Wanted]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Constraints:
    """Demands on a plan. Immutable; each has a name by which it can be listed and taken away.

    Placements are written one a mesh dimension, ``"S(0)R"`` or ``("S(0)", "R")``.

    Attributes:
        inputs: Placement of inputs, by name or by ``"*"`` patterns of names.
        outputs: The same of outputs.
        pins: Placement of the first output of any node or parameter, by name or pattern.
        parameter_memory: Bytes of parameters a rank may keep: ``None`` for no limit, ``"least"`` for the least
            possible, ``(low, high)`` in bytes, or the same as a share of all parameters when ``high`` is a float of at
            most 1.
        peak_memory: What a rank may hold at any instant; a number is the limit of a `PeakMemory`.
        hints: Whether what model code says with `hint` holds.
    """

    inputs: Mapping[str, Wanted] = field(default_factory=_nothing)
    outputs: Mapping[str, Wanted] = field(default_factory=_nothing)
    pins: Mapping[str, Wanted] = field(default_factory=_nothing)
    parameter_memory: Limits | None = None
    peak_memory: PeakMemory | float | None = None
    hints: bool = True

    def __post_init__(self) -> None:
        for side in _PLACED:
            given: Mapping[str, Any] = getattr(self, side)
            placed = {name: wanted if isinstance(wanted, str) else tuple(wanted) for name, wanted in given.items()}
            object.__setattr__(self, side, MappingProxyType(placed))
        peak: Any = self.peak_memory
        if isinstance(peak, Mapping):
            object.__setattr__(self, "peak_memory", PeakMemory(**peak))
        elif peak is not None and not isinstance(peak, PeakMemory):
            object.__setattr__(self, "peak_memory", PeakMemory(peak))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all demands: ``input *``, ``pin layers.0.up.weight``, ``parameter memory`` and so on."""
        placed = [f"{word} {name}" for side, word in _PLACED.items() for name in getattr(self, side)]
        memory = {PARAMETER_MEMORY: self.parameter_memory, PEAK_MEMORY: self.peak_memory}
        return (*placed, *(name for name, value in memory.items() if value is not None))

    def with_(
        self,
        *,
        inputs: Mapping[str, Wanted] = MappingProxyType({}),
        outputs: Mapping[str, Wanted] = MappingProxyType({}),
        pins: Mapping[str, Wanted] = MappingProxyType({}),
        parameter_memory: Limits | None = None,
        peak_memory: PeakMemory | float | None = None,
        hints: bool | None = None,
    ) -> Constraints:
        """These demands and more; one that is there under the same name is replaced."""
        return Constraints(
            inputs={**self.inputs, **inputs},
            outputs={**self.outputs, **outputs},
            pins={**self.pins, **pins},
            parameter_memory=self.parameter_memory if parameter_memory is None else parameter_memory,
            peak_memory=self.peak_memory if peak_memory is None else peak_memory,
            hints=self.hints if hints is None else hints,
        )

    def without(self, *names: str) -> Constraints:
        """These demands without those named, as if they had never been made.

        Raises:
            InvalidProblemError: There is none of that name.
        """
        kept = self
        for name in names:
            if name not in kept.names:
                near = difflib.get_close_matches(name, kept.names, n=1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidProblemError(
                    f"nothing is demanded under the name {name!r}{meant} There is: {', '.join(kept.names) or 'nothing'}"
                )
            kept = kept._without(name)
        return kept

    def _without(self, name: str) -> Constraints:
        word, _, pattern = name.partition(" ")
        placed = {
            side: {key: wanted for key, wanted in getattr(self, side).items() if (its, key) != (word, pattern)}
            for side, its in _PLACED.items()
        }
        return Constraints(
            **placed,
            parameter_memory=None if name == PARAMETER_MEMORY else self.parameter_memory,
            peak_memory=None if name == PEAK_MEMORY else self.peak_memory,
            hints=self.hints,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the demands as JSON, atomically. Placements that a search chose are no part of them."""
        peak = self.peak_memory
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **{side: dict(getattr(self, side)) for side in _PLACED},
            "parameter_memory": self.parameter_memory,
            "peak_memory": dataclasses.asdict(peak) if isinstance(peak, PeakMemory) else None,
            "hints": self.hints,
        }
        with atomic_write(path) as stream:
            stream.write((json.dumps(document, indent=2, allow_nan=False) + "\n").encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Constraints:
        """Read demands.

        Raises:
            InvalidProblemError: The file holds none, or is of a newer version.
        """
        where = os.fspath(path)
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document.get("format") != FORMAT or document.get("format_version") != FORMAT_VERSION:
                raise InvalidProblemError(f"{where}: not constraints of format version {FORMAT_VERSION}")
            memory, peak = document["parameter_memory"], document["peak_memory"]
            return Constraints(
                **{side: document[side] for side in _PLACED},
                parameter_memory=(float(memory[0]), float(memory[1])) if isinstance(memory, list) else memory,
                peak_memory=peak,
                hints=bool(document["hints"]),
            )
        except InvalidProblemError:
            raise
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            raise InvalidProblemError(f"{where}: not constraints: {type(error).__name__}: {error}") from None
