"""The registry: what is installed, by kind and name."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from berthage.errors import PluginError, UnknownNameError, UnsupportedProblemError
from berthage.registry.catalog import Catalog, Conflict, Entry, InfoT
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
from berthage.registry.registration import OBSERVER_HOOKS, Registration, register_all
from berthage.registry.sniff import read_head
from berthage.registry.sources import (
    BUILTIN_MODULE,
    PluginRecord,
    PluginStatus,
    core_source,
    given_sources,
    installed_sources,
    wanted_plugins,
)
from berthage.registry.unknown import unknown_extension, unknown_name

_COMPRESSED = (".gz", ".xz", ".bz2")


class Registry:
    """Everything that plugins offer.

    Building one imports the light hook modules and nothing else. A registry never changes; build
    another to see another set of plugins.

    Args:
        plugins: Modules or objects with hook implementations; a mapping names them.
        builtins: Whether core's own format is registered too.
        only: Names of the plugins (or their distributions) to load; None loads all.

    Attributes:
        plugins: What became of each plugin, broken and skipped ones included.
        trace: Whether imports are told on standard error.
    """

    def __init__(
        self,
        plugins: Mapping[str, Any] | Iterable[Any] = (),
        *,
        builtins: bool = True,
        only: frozenset[str] | None = None,
    ) -> None:
        self.trace = bool(os.environ.get("BERTHAGE_TRACE_PLUGINS"))
        sources = given_sources(plugins)
        others = [s for s in sources if s.module != BUILTIN_MODULE]
        # Installed, core is among the entry points; run from a bare source tree, it is not.
        core = [s for s in sources if s.module == BUILTIN_MODULE] or [core_source()]
        self._registration: Registration = register_all(core if builtins else [], others, only, self._tell)
        self.plugins: tuple[PluginRecord, ...] = tuple(self._registration.records)
        self._solvers = self._catalog("solver", SolverInfo)
        self._formats = self._catalog("format", FormatInfo)
        self._reductions = self._catalog("reduction", ReductionInfo)
        self._seeders = self._catalog("seeder", SeederInfo)
        self._cost_models = self._catalog("cost model", CostModelInfo)
        self._front_ends = self._catalog("front end", FrontEndInfo)
        self._commands = self._catalog("command", CommandInfo)
        self._catalogs: tuple[Catalog[Any], ...] = (
            self._solvers,
            self._formats,
            self._reductions,
            self._seeders,
            self._cost_models,
            self._front_ends,
            self._commands,
        )

    # -- listings ---------------------------------------------------------------------------------

    @property
    def broken(self) -> tuple[PluginRecord, ...]:
        """The plugins that could not be loaded, with the reason."""
        return tuple(p for p in self.plugins if p.status is PluginStatus.BROKEN)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Names that several plugins claim. Using one raises unless it is one of core's own, which core keeps."""
        return tuple(conflict for catalog in self._catalogs for conflict in catalog.conflicts)

    @property
    def solvers(self) -> tuple[SolverInfo, ...]:
        """Solvers, by name."""
        return self._solvers.infos

    @property
    def formats(self) -> tuple[FormatInfo, ...]:
        """Formats, by name."""
        return self._formats.infos

    @property
    def reductions(self) -> tuple[ReductionInfo, ...]:
        """Reductions, in the order in which they run."""
        return tuple(sorted(self._reductions.infos, key=lambda info: (info.order, info.name)))

    @property
    def seeders(self) -> tuple[SeederInfo, ...]:
        """Seeders, by name."""
        return self._seeders.infos

    @property
    def cost_models(self) -> tuple[CostModelInfo, ...]:
        """Cost models, by name."""
        return self._cost_models.infos

    @property
    def front_ends(self) -> tuple[FrontEndInfo, ...]:
        """Front ends, by name."""
        return self._front_ends.infos

    @property
    def commands(self) -> tuple[CommandInfo, ...]:
        """Subcommands that plugins add, by name."""
        return self._commands.infos

    # -- look-up by name --------------------------------------------------------------------------

    def solver(self, name: str) -> SolverInfo:
        """The solver of that name or alias.

        Raises:
            UnknownNameError: Nothing has the name; the message says what is near and what to install.
            PluginError: Two plugins claim the name.
        """
        return self._solvers.entry(name).info

    def format(self, name: str) -> FormatInfo:
        """The format of that name; raises as :meth:`solver`."""
        return self._formats.entry(name).info

    def reduction(self, name: str) -> ReductionInfo:
        """The reduction of that name; raises as :meth:`solver`."""
        return self._reductions.entry(name).info

    def seeder(self, name: str) -> SeederInfo:
        """The seeder of that name; raises as :meth:`solver`."""
        return self._seeders.entry(name).info

    def cost_model(self, name: str) -> CostModelInfo:
        """The cost model of that name; raises as :meth:`solver`."""
        return self._cost_models.entry(name).info

    def front_end(self, name: str) -> FrontEndInfo:
        """The front end of that name; raises as :meth:`solver`."""
        return self._front_ends.entry(name).info

    def command(self, name: str) -> CommandInfo:
        """The subcommand of that name; raises as :meth:`solver`."""
        return self._commands.entry(name).info

    def format_for(self, path: str | os.PathLike[str], *, writing: bool = False) -> FormatInfo:
        """The format of a file: by its name (the longest matching ending; .gz, .xz and .bz2 looked through).

        Where the name does not settle it and the file exists, the formats that can tell are asked about its
        first bytes.

        Raises:
            UnknownNameError: No format has the ending or knows the content, or several do.
            UnsupportedProblemError: The format cannot do what is wanted.
        """
        file_name = PurePath(path).name
        lowered = file_name.lower()
        found = _longest(lowered, self.formats)
        if not found and lowered.endswith(_COMPRESSED):
            found = _longest(lowered.rpartition(".")[0], self.formats)
        able = [info for info in found if (info.writes if writing else info.reads)]
        if not writing and len(able) != 1:
            asked = able or ([] if found else [info for info in self.formats if info.reads])
            able = self._knowing(path, asked) or able
        if not able and not found:
            raise UnknownNameError(unknown_extension(file_name, [e for f in self.formats for e in f.extensions]))
        if not able:
            verb = "written" if writing else "read"
            raise UnsupportedProblemError(f"{file_name}: format {found[0].name!r} cannot be {verb}")
        if len(able) > 1:  # an ending of core's own format stays core's
            able = [info for info in able if self.plugin_of(info).module == BUILTIN_MODULE] or able
        if len(able) > 1:
            names = ", ".join(info.name for info in able)
            raise UnknownNameError(f"{file_name}: several formats fit ({names}); name one")
        return able[0]

    def _knowing(self, path: str | os.PathLike[str], formats: list[FormatInfo]) -> list[FormatInfo]:
        """The formats that know the first bytes of a file as theirs."""
        asked = [info for info in formats if info.sniff is not None]
        head = read_head(path) if asked else b""
        if not head:
            return []
        return [info for info in asked if self._knows(info, head)]

    def _knows(self, info: FormatInfo, head: bytes) -> bool:
        """Whether a format takes the first bytes for its own; a sniffer that fails only warns."""
        what = f"format {info.name!r} of plugin {self.plugin_of(info)}"
        try:
            return bool(self._import(what, info.sniff or "")(head))
        except Exception as error:
            warnings.warn(f"{what} cannot look into files: {error}", RuntimeWarning, stacklevel=4)
            return False

    # -- making things ----------------------------------------------------------------------------

    def create_solver(self, name: str) -> Any:
        """A fresh solver object.

        Raises:
            UnknownNameError: As :meth:`solver`.
            PluginError: Something it needs is not installed, or its module or factory failed.
        """
        return self._create(self._solvers, name)

    def create_format(self, name: str) -> Any:
        """A fresh format object; raises as :meth:`create_solver`."""
        return self._create(self._formats, name)

    def create_reduction(self, name: str) -> Any:
        """A fresh reduction object; raises as :meth:`create_solver`."""
        return self._create(self._reductions, name)

    def create_seeder(self, name: str) -> Any:
        """A fresh seeder object; raises as :meth:`create_solver`."""
        return self._create(self._seeders, name)

    def create_cost_model(self, name: str) -> Any:
        """A fresh cost model object; raises as :meth:`create_solver`."""
        return self._create(self._cost_models, name)

    def create_front_end(self, name: str) -> Any:
        """A fresh front end object; raises as :meth:`create_solver`."""
        return self._create(self._front_ends, name)

    def load_command(self, name: str) -> Any:
        """The ``click.Command`` of a subcommand; raises as :meth:`create_solver`."""
        return self._load(self._commands, self._commands.entry(name))

    def plugin_of(self, info: Info) -> PluginRecord:
        """The plugin that registered a description of this registry."""
        return next(e.plugin for catalog in self._catalogs for e in catalog.entries if e.info is info)

    def missing(self, info: Info) -> tuple[str, ...]:
        """The modules that ``info`` needs and that are not installed; nothing is imported."""
        return tuple(module for module in info.requires if not _installed(module))

    def unavailable_reason(self, info: Info) -> str:
        """Why ``info`` cannot be used here, with what to install; empty when it can."""
        missing = self.missing(info)
        if not missing:
            return ""
        verb = "is" if len(missing) == 1 else "are"
        hint = f": {info.install}" if info.install else ""
        return f"{', '.join(missing)} {verb} not installed{hint}"

    # -- observers --------------------------------------------------------------------------------

    def emit(self, event_name: str, event: object) -> None:
        """Tell every observer; one that raises becomes a warning and the solve goes on.

        Args:
            event_name: ``"solve_started"``, ``"incumbent"``, ``"bound"`` or ``"solve_finished"``
                (the hook's name with or without ``berthage_``).
            event: Handed on as it is.
        """
        hook = event_name if event_name.startswith("berthage_") else f"berthage_{event_name}"
        if hook not in OBSERVER_HOOKS:
            raise UnknownNameError(f"no event is named {event_name!r}; there are: {', '.join(OBSERVER_HOOKS)}")
        for plugin, observe in self._registration.observers.get(hook, ()):
            try:
                observe(event)
            except Exception as error:
                warnings.warn(
                    f"observer {hook} of plugin {plugin} failed: {type(error).__name__}: {error}",
                    RuntimeWarning,
                    stacklevel=2,
                )

    # -- inside -----------------------------------------------------------------------------------

    def _catalog(self, kind: str, info_type: type[InfoT]) -> Catalog[InfoT]:
        entries = [Entry(info, plugin) for info, plugin in self._registration.infos if isinstance(info, info_type)]
        entries.sort(key=lambda e: e.info.name)

        def explain(name: str) -> str:
            broken = [(repr(p.name), p.error) for p in self.broken]
            return unknown_name(kind, name, catalog.names, broken)

        catalog = Catalog(kind, entries, explain)
        return catalog

    def _create(self, catalog: Catalog[InfoT], name: str) -> Any:
        entry = catalog.entry(name)
        factory = self._load(catalog, entry)
        try:
            return factory()
        except Exception as error:
            raise PluginError(
                f"{catalog.kind} {entry.info.name!r} of plugin {entry.plugin} cannot be made: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _load(self, catalog: Catalog[InfoT], entry: Entry[InfoT]) -> Any:
        info = entry.info
        what = f"{catalog.kind} {info.name!r} of plugin {entry.plugin}"
        if reason := self.unavailable_reason(info):
            raise PluginError(f"{what} is unavailable: {reason}")
        return self._import(what, info.target)

    def _import(self, what: str, target: str) -> Any:
        """What ``"package.module:attribute"`` names."""
        module_name, _, attribute = target.partition(":")
        begin = time.perf_counter()
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
        except Exception as error:
            raise PluginError(f"{what} is unavailable: {target}: {type(error).__name__}: {error}") from error
        self._tell(f"{what}: {target} imported in {1e3 * (time.perf_counter() - begin):.1f} ms")
        return found

    def _tell(self, message: str) -> None:
        if self.trace:
            sys.stderr.write(f"berthage: {message}\n")


def load_registry() -> Registry:
    """A registry of everything installed.

    ``BERTHAGE_PLUGINS`` (a comma list of plugin or distribution names) restricts it to some, for
    debugging; ``BERTHAGE_TRACE_PLUGINS=1`` tells on standard error what is imported when.
    """
    return Registry(installed_sources(), only=wanted_plugins())


def _longest(file_name: str, formats: Iterable[FormatInfo]) -> list[FormatInfo]:
    best = 0
    found: list[FormatInfo] = []
    for info in formats:
        length = max((len(e) for e in info.extensions if file_name.endswith(e.lower())), default=0)
        if length > best:
            best, found = length, []
        if length and length == best:
            found.append(info)
    return found


def _installed(module: str) -> bool:
    # Only the top-level package: looking for a submodule would import its parent.
    top = module.partition(".")[0]
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return top in sys.modules
