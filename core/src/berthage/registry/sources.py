"""Where plugins come from: installed entry points, or objects handed over."""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

ENTRY_POINT_GROUP: Final = "berthage"
BUILTIN_MODULE: Final = "berthage.builtin_hooks"


class PluginStatus(enum.StrEnum):
    """What became of a plugin."""

    LOADED = "loaded"
    """It is registered and what it offers can be used."""
    BROKEN = "broken"
    """It failed to import, broke the contract of a hook, or has a misspelt hook."""
    SKIPPED = "skipped"
    """It is installed, but ``BERTHAGE_PLUGINS`` leaves it out."""


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin that can be loaded.

    Attributes:
        name: Its name: that of the entry point.
        load: Imports and returns the module or object with the hooks.
        distribution: The distribution it comes from; empty when handed over as an object.
        version: The distribution's version.
        module: The module the hooks are in.
    """

    name: str
    load: Callable[[], object]
    distribution: str = ""
    version: str = ""
    module: str = ""

    def __str__(self) -> str:
        return _words(self.name, self.distribution, self.version)


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """What became of one plugin.

    Attributes:
        name: The entry point's name.
        distribution: The distribution it comes from.
        version: The distribution's version.
        module: The module with its hooks.
        status: Loaded, broken or skipped.
        error: Why it is not loaded; empty when it is.
        provides: Names it registered, by kind; the events that it observes are under ``"observer"``.
    """

    name: str
    distribution: str
    version: str
    module: str
    status: PluginStatus
    error: str = ""
    provides: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def __str__(self) -> str:
        return _words(self.name, self.distribution, self.version)


def installed_sources() -> list[PluginSource]:
    """The plugins that installed distributions declare, in an order of their own (by name)."""
    sources = []
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        dist = point.dist
        sources.append(
            PluginSource(
                name=point.name,
                load=point.load,
                distribution=dist.name if dist is not None else "",
                version=dist.version if dist is not None else "",
                module=point.value,
            )
        )
    return sorted(sources, key=lambda s: (s.name, s.distribution, s.module))


def core_source() -> PluginSource:
    """Core's own hooks, loaded as any plugin's are."""
    try:
        version = importlib.metadata.version("berthage")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        version = ""
    return PluginSource(
        "berthage", lambda: importlib.import_module(BUILTIN_MODULE), "berthage", version, BUILTIN_MODULE
    )


def given_sources(plugins: Mapping[str, Any] | Iterable[Any]) -> list[PluginSource]:
    """Sources of plugin objects or modules; a mapping also names them."""
    if isinstance(plugins, Mapping):
        return [_given(str(name), plugin) for name, plugin in plugins.items()]
    return [p if isinstance(p, PluginSource) else _given(_object_name(p), p) for p in plugins]


def wanted_plugins() -> frozenset[str] | None:
    """The names in ``BERTHAGE_PLUGINS``; None when it is not set (then all are wanted)."""
    text = os.environ.get("BERTHAGE_PLUGINS")
    if text is None:
        return None
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def _words(name: str, distribution: str, version: str) -> str:
    return f"{name!r} ({distribution} {version})" if distribution else repr(name)


def _given(name: str, plugin: Any) -> PluginSource:
    return PluginSource(name=name, load=lambda: plugin, module=_object_name(plugin))


def _object_name(plugin: object) -> str:
    return str(getattr(plugin, "__name__", type(plugin).__name__))
