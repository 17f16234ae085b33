"""Registering plugins one by one, so that none takes another down."""

from __future__ import annotations

import dataclasses
import difflib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import pluggy

from berthage.errors import PluginError
from berthage.registry import hookspecs
from berthage.registry.descriptions import (
    CommandInfo,
    CostModelInfo,
    FormatInfo,
    FrontEndInfo,
    Info,
    ReductionInfo,
    SeederInfo,
    SolverInfo,
)
from berthage.registry.sources import PluginRecord, PluginSource, PluginStatus
from berthage.registry.unknown import how_to_install

LISTING_HOOKS: Final[tuple[tuple[str, str, type[Info]], ...]] = (
    ("berthage_solvers", "solver", SolverInfo),
    ("berthage_reductions", "reduction", ReductionInfo),
    ("berthage_formats", "format", FormatInfo),
    ("berthage_seeders", "seeder", SeederInfo),
    ("berthage_cost_models", "cost model", CostModelInfo),
    ("berthage_front_ends", "front end", FrontEndInfo),
    ("berthage_commands", "command", CommandInfo),
)
OBSERVER_HOOKS: Final = (
    "berthage_solve_started",
    "berthage_incumbent",
    "berthage_bound",
    "berthage_solve_finished",
)

Observe = Callable[[object], object]


@dataclass(slots=True)
class Registration:
    """What came of registering: records of all plugins, what the good ones offer and observe."""

    records: list[PluginRecord] = field(default_factory=list)
    infos: list[tuple[Info, PluginRecord]] = field(default_factory=list)
    observers: dict[str, list[tuple[str, Observe]]] = field(default_factory=dict)


def register_all(
    core: list[PluginSource],
    sources: list[PluginSource],
    only: frozenset[str] | None,
    tell: Callable[[str], None],
) -> Registration:
    """Load and register ``core`` and then those of ``sources`` that ``only`` wants (None: all)."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    result = Registration()
    for source in core:
        _register(manager, source, result, tell)
    for source in sources:
        if only is None or source.name in only or (source.distribution and source.distribution in only):
            _register(manager, source, result, tell)
        else:
            result.records.append(_record(source, PluginStatus.SKIPPED, "left out by BERTHAGE_PLUGINS"))
    present = {s.name for s in (*core, *sources)} | {s.distribution for s in sources}
    for name in sorted((only or frozenset()) - present):
        reason = "BERTHAGE_PLUGINS names it, but no such plugin is installed"
        result.records.append(_record(PluginSource(name, lambda: None), PluginStatus.BROKEN, reason))
    return result


def _register(
    manager: pluggy.PluginManager, source: PluginSource, result: Registration, tell: Callable[[str], None]
) -> None:
    begin = time.perf_counter()
    try:
        infos, observers = _load(manager, source, f"{len(result.records)}:{source.name}")
    except (Exception, SystemExit) as error:
        reason = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        tell(f"plugin {source} is broken: {reason}")
        result.records.append(_record(source, PluginStatus.BROKEN, reason))
        return
    tell(f"plugin {source} loaded in {1e3 * (time.perf_counter() - begin):.1f} ms")
    provides: dict[str, tuple[str, ...]] = {}
    for kind, info in infos:
        provides[kind] = (*provides.get(kind, ()), info.name)
    if observers:
        provides["observer"] = tuple(dict.fromkeys(hook.removeprefix("berthage_") for hook, _ in observers))
    record = _record(source, PluginStatus.LOADED, provides=provides)
    result.records.append(record)
    result.infos.extend((info, record) for _, info in infos)
    for hook, observe in observers:
        result.observers.setdefault(hook, []).append((str(source), observe))


def _load(
    manager: pluggy.PluginManager, source: PluginSource, unique_name: str
) -> tuple[list[tuple[str, Info]], list[tuple[str, Observe]]]:
    """Import, register and question one plugin; the manager forgets it if anything is wrong."""
    plugin = source.load()
    try:
        manager.register(plugin, unique_name)
        _check_hooks(manager, plugin, source)
        infos = [
            (kind, _complete(info, source))
            for hook, kind, info_type in LISTING_HOOKS
            for implementation in _implementations(manager, hook, plugin)
            for info in _listed(implementation.function, hook, info_type)
        ]
        observers = [
            (hook, _one_argument(implementation))
            for hook in OBSERVER_HOOKS
            for implementation in _implementations(manager, hook, plugin)
        ]
    except (Exception, SystemExit):
        # Older pluggy keeps what it had registered of a plugin before refusing it.
        if manager.has_plugin(unique_name):
            manager.unregister(name=unique_name)
        raise
    return infos, observers


def _check_hooks(manager: pluggy.PluginManager, plugin: object, source: PluginSource) -> None:
    """Refuse hooks that do not exist; plugins registered before have passed, so the culprit is ``plugin``."""
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        known = [spec for spec, *_ in LISTING_HOOKS] + list(OBSERVER_HOOKS)
        unknown = [caller.name for caller in manager.get_hookcallers(plugin) or () if not caller.has_spec()]
        hints = "; ".join(f"{hook!r}{_near(hook, known)}" for hook in unknown)
        raise PluginError(f"plugin {source} implements a hook that does not exist: {hints}") from error


def _near(hook: str, known: list[str]) -> str:
    near = difflib.get_close_matches(hook, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _implementations(manager: pluggy.PluginManager, hook: str, plugin: object) -> list[pluggy.HookImpl]:
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    return [implementation for implementation in caller.get_hookimpls() if implementation.plugin is plugin]


def _listed(function: Callable[..., Any], hook: str, info_type: type[Info]) -> list[Info]:
    found = function()
    if not isinstance(found, list | tuple):
        raise PluginError(f"{hook} returned {type(found).__name__}, expected a list of {info_type.__name__}")
    for item in found:
        if not isinstance(item, info_type):
            raise PluginError(f"{hook} lists {item!r}, expected a {info_type.__name__}")
    return list(found)


def _complete(info: Info, source: PluginSource) -> Info:
    """Fill in what the distribution tells."""
    install = info.install or (how_to_install(source.distribution) if source.distribution else "")
    return dataclasses.replace(info, install=install, version=info.version or source.version)


def _one_argument(implementation: pluggy.HookImpl) -> Observe:
    # pluggy lets an implementation leave out arguments that it does not want.
    function = implementation.function
    if implementation.argnames:
        return lambda event: function(event)
    return lambda event: function()


def _record(
    source: PluginSource,
    status: PluginStatus,
    error: str = "",
    provides: dict[str, tuple[str, ...]] | None = None,
) -> PluginRecord:
    return PluginRecord(
        name=source.name,
        distribution=source.distribution,
        version=source.version,
        module=source.module,
        status=status,
        error=error,
        provides=MappingProxyType(provides or {}),
    )
