"""What a plugin says about the things it offers: light values, no heavy imports.

A plugin's hooks return lists of these descriptions. A description names its implementation as
``"package.module:attribute"``; that module is imported only when the name is used, so listing
everything that is installed stays quick.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from dataclasses import KW_ONLY, dataclass

from berthage.errors import PluginError

_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class Capability(enum.StrEnum):
    """What a solver promises; a promise that is not made is not tested."""

    EXACT = "exact"
    """Proves optimality or infeasibility on any problem, given enough time."""
    BOUND = "bound"
    """Every result carries a finite lower bound when one exists."""
    ANYTIME = "anytime"
    """Reports improving assignments while it runs and keeps the best when stopped."""
    LINEAR_BUDGETS = "linear-budgets"
    """Respects linear budgets."""
    INTERVAL_BUDGETS = "interval-budgets"
    """Respects interval budgets."""
    SOFT_BUDGETS = "soft-budgets"
    """Weighs the price of soft budgets, rather than only respecting hard ones."""
    WARM_START = "warm-start"
    """Uses the assignment in ``SolveParams.warm_start``."""
    LAZY_TABLES = "lazy-tables"
    """Works on lazy cost tables without pricing every entry."""
    RELATIONS = "relations"
    """Uses hard relations (forbidden pairs, ties) directly."""
    INTEGRAL = "integral"
    """Never ends with ``NOT_INTEGRAL``: what it returns is always a whole assignment."""


@dataclass(frozen=True, slots=True)
class Info:
    """What every description has.

    Attributes:
        name: The name people type, in kebab-case, unique among its kind.
        summary: One line, shown in listings.
        target: ``"package.module:attribute"``, imported only when the name is used.
        requires: Import names that must be installed, e.g. ``("pulp",)``.
        install: The command that installs what is missing, e.g. ``"pip install pulp"``.
            The registry fills in the plugin's own distribution when it is empty.
        version: The implementation's version. The registry fills in the distribution's.
        options: A frozen dataclass whose fields all have defaults, or None when there is nothing
            to set. Field metadata may have ``help``, ``choices``, ``minimum`` and ``maximum``.
    """

    name: str
    summary: str
    target: str
    _: KW_ONLY
    requires: tuple[str, ...] = ()
    install: str = ""
    version: str = ""
    options: type | None = None

    def __post_init__(self) -> None:
        what = f"{type(self).__name__}({self.name!r})"
        # Plugins need not be type-checked, so nothing about the fields is taken for granted.
        name: object = self.name
        target: object = self.target
        requires: object = self.requires
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(f"{what}: a name is lower-case words joined by '-', like 'my-solver'")
        if not isinstance(target, str) or not _TARGET.fullmatch(target):
            raise PluginError(f"{what}: target is 'package.module:attribute', not {target!r}")
        if not isinstance(requires, tuple):
            raise PluginError(f"{what}: requires is a tuple of import names, not {requires!r}")
        if self.options is not None:
            _check_options_type(what, self.options)

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every name it answers to."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class SolverInfo(Info):
    """A solver: ``target()`` makes an object with ``solve(problem, params, options, context)``.

    Attributes:
        capabilities: What it promises; the conformance kit tests each promise.
        aliases: Other names it answers to.
    """

    _: KW_ONLY
    capabilities: frozenset[Capability] = frozenset()
    aliases: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """The name, then the aliases."""
        return (self.name, *self.aliases)


@dataclass(frozen=True, slots=True)
class FormatInfo(Info):
    """A file format: ``target()`` makes an object with ``read`` and, perhaps, ``write``.

    ``read(path, **options) -> PlacementProblem``, ``write(problem, path, **options)``, and
    optionally ``read_solution(path, problem)`` and ``write_solution(path, problem, assignment)``.

    Attributes:
        extensions: File name endings with their dot, e.g. ``(".uai",)``. A ``.gz`` or ``.xz``
            after them is looked through.
        reads: Whether it can read problems.
        writes: Whether it can write them.
        sniff: ``"package.module:function"`` with ``function(head: bytes) -> bool``, or None: whether the
            first bytes of a file, decompressed, are of this format. Asked only where the name does not
            settle it.
    """

    _: KW_ONLY
    extensions: tuple[str, ...] = ()
    reads: bool = True
    writes: bool = False
    sniff: str | None = None

    def __post_init__(self) -> None:
        # dataclass(slots=True) rebuilds the class, which breaks zero-argument super().
        Info.__post_init__(self)
        for extension in self.extensions:
            if not extension.startswith("."):
                raise PluginError(f"FormatInfo({self.name!r}): an extension starts with a dot, not {extension!r}")
        if self.sniff is not None and not _TARGET.fullmatch(self.sniff):
            raise PluginError(f"FormatInfo({self.name!r}): sniff is 'package.module:function', not {self.sniff!r}")


@dataclass(frozen=True, slots=True)
class ReductionInfo(Info):
    """A reduction: ``target()`` makes an object with ``reduce(problem, context) -> Reduced``.

    Attributes:
        order: Its place in the chain that runs before a solver; lower runs first.
        default: Whether ``solve(presolve=True)`` runs it; others run only when named.
    """

    _: KW_ONLY
    order: int = 100
    default: bool = True


@dataclass(frozen=True, slots=True)
class SeederInfo(Info):
    """A seeder: ``target()`` makes an object with ``seed(problem, params, options, registry) -> Seed``."""


@dataclass(frozen=True, slots=True)
class CostModelInfo(Info):
    """A cost model: ``target()`` makes an object that prices compute and communication."""


@dataclass(frozen=True, slots=True)
class FrontEndInfo(Info):
    """A front end: ``target()`` makes an object that turns models into problems."""


@dataclass(frozen=True, slots=True)
class CommandInfo(Info):
    """A subcommand of ``berthage``: ``target`` is a :class:`click.Command` (not a factory).

    It is shown in ``berthage --help`` by its summary, without importing its module.
    """


def _check_options_type(what: str, options: object) -> None:
    if not isinstance(options, type) or not dataclasses.is_dataclass(options):
        raise PluginError(f"{what}: options must be a dataclass type, not {options!r}")
    for field in dataclasses.fields(options):
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if field.init and missing:
            raise PluginError(f"{what}: option {field.name!r} of {options.__name__} needs a default")
