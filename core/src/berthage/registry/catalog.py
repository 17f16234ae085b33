"""The descriptions of one kind, by name, with who registered them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from berthage.errors import PluginError, UnknownNameError
from berthage.registry.descriptions import Info
from berthage.registry.sources import BUILTIN_MODULE, PluginRecord

InfoT = TypeVar("InfoT", bound=Info)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A name that several plugins claim.

    One of core's own names stays core's; any other cannot be used until one of the claimants goes.

    Attributes:
        kind: What is named, e.g. ``"solver"``.
        name: The name.
        plugins: The plugins that claim it.
        used: The one of them that has it all the same, which is core; None when nobody has.
    """

    kind: str
    name: str
    plugins: tuple[str, ...]
    used: str | None = None

    def __str__(self) -> str:
        claimed = f"{self.kind} name {self.name!r} is claimed by {' and by '.join(self.plugins)}"
        return f"{claimed}; it stays that of {self.used}" if self.used else claimed


@dataclass(frozen=True, slots=True)
class Entry(Generic[InfoT]):
    """A description and the plugin it came from."""

    info: InfoT
    plugin: PluginRecord

    @property
    def is_core(self) -> bool:
        """Whether core itself offers it."""
        return self.plugin.module == BUILTIN_MODULE


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
        """The descriptions, without those that claim one of core's own names: nothing can reach them."""
        own = {e.info.name for e in self.entries if e.is_core}
        return tuple(e.info for e in self.entries if e.is_core or e.info.name not in own)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that can be asked for, aliases included."""
        return tuple(self._by_name)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The names with more than one claimant."""
        return tuple(self._conflict(name, entries) for name, entries in self._by_name.items() if len(entries) > 1)

    def entry(self, name: str) -> Entry[InfoT]:
        """The entry of that name or alias.

        Raises:
            UnknownNameError: Nothing has the name.
            PluginError: More than one plugin claims it, and core is none of them.
        """
        found = self._by_name.get(name, [])
        if not found:
            raise UnknownNameError(self._explain(str(name)))
        if len(found) == 1:
            return found[0]
        if (own := _core_entry(found)) is not None:
            return own
        raise PluginError(f"{self._conflict(name, found)}; uninstall one, or choose with BERTHAGE_PLUGINS")

    def _conflict(self, name: str, entries: list[Entry[InfoT]]) -> Conflict:
        own = _core_entry(entries)
        used = None if own is None else str(own.plugin)
        return Conflict(self.kind, name, tuple(str(e.plugin) for e in entries), used)


def _core_entry(entries: list[Entry[InfoT]]) -> Entry[InfoT] | None:
    """Core's own entry, if it is among them."""
    return next((e for e in entries if e.is_core), None)
