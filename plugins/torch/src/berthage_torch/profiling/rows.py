"""One search of a matrix: what is asked of it, and what is refused before anything runs. Imports no torch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from berthage import InvalidProblemError

__all__ = ["FIELDS", "TABLES", "Row", "row_of"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


def _is(*kinds: type) -> dict[str, Any]:
    return {"kinds": kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One search, everything said.

    Attributes:
        name: Its name, and that of its file in the folder of results.
        model: As ``berthage search --model`` takes it.
        mesh: ``"dp=8,tp=8"``.
        sizes: Sizes of the model that differ from the named ones.
        solver: Name of the solver.
        options: Options of the solver.
        cost_model: Name of a cost model, or path of a profile.
        inputs: Placements of inputs by name or pattern, over those that the model brings; ``"any"`` demands nothing.
        outputs: The same of outputs.
        pins: Placements of nodes and parameters.
        memory: ``"none"``, ``"least"`` or ``"LOW:HIGH"``; None keeps what the model brings.
        tie: ``"layers"`` or ``"none"``.
        peak_memory: Bytes that a rank has at most at any time, or a share of the device's; None without limit.
        seed_radius: How far from a seed a placement may be, on meshes where that is done; 0 searches all.
        seed_mode: ``"restrict"`` or ``"warm"``.
        time_limit: Wall seconds that the solver has; None without limit.
        gap: Relative gap that is enough.
        seed: Seed of everything random.
        threads: Threads of the solver.
        presolve: Whether reductions run first.
        repeat_layers: Whether layers that repeat are traced once.
        wall_limit: Wall seconds after which the process is ended.
        repetitions: How often the search is run, each time in a new process.
    """

    name: str = field(metadata=_is(str))
    model: str = field(metadata=_is(str))
    mesh: str = field(metadata=_is(str))
    sizes: Mapping[str, Any] = field(default_factory=_nothing, metadata=_is(dict))
    solver: str = field(default="trws", metadata=_is(str))
    options: Mapping[str, Any] = field(default_factory=_nothing, metadata=_is(dict))
    cost_model: str = field(default="nccl-h100", metadata=_is(str))
    inputs: Mapping[str, str] = field(default_factory=_nothing, metadata=_is(dict))
    outputs: Mapping[str, str] = field(default_factory=_nothing, metadata=_is(dict))
    pins: Mapping[str, str] = field(default_factory=_nothing, metadata=_is(dict))
    memory: str | None = field(default=None, metadata=_is(str))
    tie: str = field(default="layers", metadata=_is(str))
    peak_memory: float | None = field(default=None, metadata=_is(int, float))
    seed_radius: int = field(default=2, metadata=_is(int))
    seed_mode: str = field(default="restrict", metadata=_is(str))
    time_limit: float | None = field(default=None, metadata=_is(int, float))
    gap: float = field(default=0.0, metadata=_is(int, float))
    seed: int = field(default=0, metadata=_is(int))
    threads: int = field(default=1, metadata=_is(int))
    presolve: bool = field(default=True, metadata=_is(bool))
    repeat_layers: bool = field(default=True, metadata=_is(bool))
    wall_limit: float = field(default=1800.0, metadata=_is(int, float))
    repetitions: int = field(default=1, metadata=_is(int))

    @property
    def configuration(self) -> dict[str, Any]:
        """Every field, as JSON has it."""
        found = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}

    @property
    def key(self) -> str:
        """A digest of the configuration: rows that ask the same have the same."""
        return hashlib.sha256(json.dumps(self.configuration, sort_keys=True).encode()).hexdigest()

    @property
    def question(self) -> str:
        """A digest of what decides the best objective there is: rows that share it can be compared."""
        asked = ("model", "mesh", "sizes", "cost_model", "inputs", "outputs", "pins", "memory", "peak_memory", "tie")
        told = {name: value for name, value in self.configuration.items() if name in asked}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


FIELDS: Final = MappingProxyType({each.name: each.metadata["kinds"] for each in dataclasses.fields(Row)})
"""What a row may say, and of which kinds."""

TABLES: Final = frozenset(name for name, kinds in FIELDS.items() if kinds == (dict,))
"""The fields that are tables."""


def row_of(given: Mapping[str, Any]) -> Row:
    """A row from values in which no list is left.

    Raises:
        InvalidProblemError: A value is missing, is of the wrong kind or cannot be.
    """
    what = f"row {given.get('name', '?')}"
    for name, value in given.items():
        _check(name, value, what)
    for name in ("model", "mesh"):
        if name not in given:
            raise InvalidProblemError(f"{what} has no {name!r}")
    if not _NAME.fullmatch(given["name"]) or given["name"] == "summary":
        raise InvalidProblemError(
            f"{what}: a name is letters, digits, '.', '_' and '-', and not 'summary', for it names a file"
        )
    for name in ("inputs", "outputs", "pins"):
        for key, value in given.get(name, {}).items():
            if not isinstance(value, str):
                raise InvalidProblemError(f"{what}: {name}.{key} is a placement such as 'S(0)R', not {value!r}")
    frozen: dict[str, Any] = {
        name: MappingProxyType(dict(v)) if isinstance(v, Mapping) else v for name, v in given.items()
    }
    row = Row(**frozen)
    if row.tie not in ("layers", "none"):
        raise InvalidProblemError(f"{what}: tie is 'layers' or 'none', not {row.tie!r}")
    for name in ("wall_limit", "repetitions", "threads", "time_limit", "peak_memory"):
        value = getattr(row, name)
        if value is not None and not value > 0:
            raise InvalidProblemError(f"{what}: {name} is positive, not {value!r}")
    return row


def _check(name: str, value: Any, what: str) -> None:
    if name not in FIELDS:
        raise InvalidProblemError(f"{what}: there is no {name!r}; a row has {', '.join(FIELDS)}")
    kinds = FIELDS[name]
    wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
    if wrong or (isinstance(value, float) and not math.isfinite(value)):
        wanted = " or ".join(kind.__name__ for kind in kinds).replace("dict", "table")
        raise InvalidProblemError(f"{what}: {name} is {wanted}, not {value!r}")
