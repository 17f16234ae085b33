"""Reading a profile document strictly: what is missing, superfluous or ill-typed is named with its place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from berthage import InvalidProblemError

__all__ = ["Reader"]


class Reader:
    """One table of a document; remembers what was asked for."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self._table = table
        self._where = where
        self._used: set[str] = set()

    def keys(self) -> Iterable[str]:
        """The names in the table."""
        return self._table.keys()

    def ignore(self, *names: str) -> None:
        """These need not be asked for."""
        self._used.update(names)

    def done(self) -> None:
        """Refuse what nobody asked for."""
        extra = sorted(set(self._table) - self._used)
        if extra:
            raise InvalidProblemError(f"{self._where}: unknown {', '.join(extra)}")

    def _get(self, name: str, default: Any = None) -> Any:
        self._used.add(name)
        value = self._table.get(name, default)
        if value is None:
            raise InvalidProblemError(f"{self._where}: {name} is missing")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        value = self._get(name, default)
        if not isinstance(value, str):
            raise InvalidProblemError(f"{self._where}: {name} must be a text, not {value!r}")
        return value

    def table(self, name: str, *, required: bool = True) -> Reader:
        """A table within."""
        value = self._get(name, None if required else {})
        if not isinstance(value, Mapping):
            raise InvalidProblemError(f"{self._where}: {name} must be a table, not {value!r}")
        return Reader(value, f"{self._where}: {name}")

    def rows(self, name: str) -> list[Reader]:
        """An array of tables; missing means none."""
        value = self._get(name, [])
        if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
            raise InvalidProblemError(f"{self._where}: {name} must be an array of tables")
        return [Reader(row, f"{self._where}: {name}[{index}]") for index, row in enumerate(value)]

    def numbers(self) -> dict[str, float]:
        """Everything in the table, as numbers."""
        return {name: float(self._typed(name, "float")) for name in self._table}

    def fields(self, kind: type, skip: tuple[str, ...] = ()) -> dict[str, Any]:
        """The arguments of a dataclass whose fields are text, numbers and flags; nothing else may be there.

        A field that has a default may be left out.
        """
        self.ignore(*skip)
        found = {
            field.name: self._typed(field.name, str(field.type))
            for field in dataclasses.fields(kind)
            if field.name not in skip and (field.name in self._table or field.default is dataclasses.MISSING)
        }
        self.done()
        return found

    def _typed(self, name: str, kind: str) -> Any:
        value = self._get(name)
        if kind == "str":
            return self.text(name)
        if kind == "bool":
            good = isinstance(value, bool)
        elif kind == "int":
            good = isinstance(value, int) and not isinstance(value, bool)
        else:
            good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not good:
            raise InvalidProblemError(f"{self._where}: {name} must be a {kind}, not {value!r}")
        return float(value) if kind == "float" else value
