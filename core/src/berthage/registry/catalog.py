"""The descriptions of one kind, by name, with who registered them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from berthage.errors import PluginError, UnknownNameError
from berthage.registry.descriptions import Info
from berthage.registry.sources import PluginRecord

InfoT = TypeVar("InfoT", bound=Info)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A name that several plugins claim; it cannot be used until one of them goes.

    Attributes:
        kind: What is named, e.g. ``"solver"``.
        name: The name.
        plugins: The plugins that claim it.
    """

    kind: str
    name: str
    plugins: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} name {self.name!r} is claimed by {' and by '.join(self.plugins)}"


@dataclass(frozen=True, slots=True)
class Entry(Generic[InfoT]):
    """A description and the plugin it came from."""

    info: InfoT
    plugin: PluginRecord


class Catalog(Generic[InfoT]):
    """Everything registered of one kind, in a fixed order."""

    def __init__(self, kind: str, entries: list[Entry[InfoT]], explain: Callable[[str], str]) -> None:
        self.kind = kind
        self.entries = tuple(entries)
        self._explain = explain
        self._by_name: dict[str, list[Entry[InfoT]]] = {}
        for entry in entries:
            for name in dict.fromkeys(entry.info.all_names):
                self._by_name.setdefault(name, []).append(entry)

    @property
    def infos(self) -> tuple[InfoT, ...]:
        """The descriptions."""
        return tuple(e.info for e in self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that can be asked for, aliases included."""
        return tuple(self._by_name)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The names with more than one claimant."""
        return tuple(
            Conflict(self.kind, name, tuple(str(e.plugin) for e in entries))
            for name, entries in self._by_name.items()
            if len(entries) > 1
        )

    def entry(self, name: str) -> Entry[InfoT]:
        """The entry of that name or alias.

        Raises:
            UnknownNameError: Nothing has the name.
            PluginError: More than one plugin claims it.
        """
        found = self._by_name.get(name, [])
        if not found:
            raise UnknownNameError(self._explain(str(name)))
        if len(found) > 1:
            conflict = Conflict(self.kind, name, tuple(str(e.plugin) for e in found))
            raise PluginError(f"{conflict}; uninstall one, or choose with BERTHAGE_PLUGINS")
        return found[0]
