"""What the subcommands on problem files share: their options, and how a problem is read."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from berthage.errors import InvalidProblemError
from berthage.files import read_problem
from berthage.problem import PlacementProblem
from berthage.registry import FormatInfo, Registry
from berthage.solving.params import SolveParams

if TYPE_CHECKING:
    _Type = click.ParamType[Any]  # older click's is not generic at run time
else:
    _Type = click.ParamType


class Number(_Type):
    """A number, kept as an exact integer when it is one."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read an integer if it is one, else a float."""
        if not isinstance(value, str):
            return value
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        self.fail(f"{value!r} is not a number", param, ctx)


class KeyValue(_Type):
    """``KEY=VALUE`` on the command line, as a pair."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Split at the first ``=``."""
        if isinstance(value, tuple):
            return value
        key, separator, text = str(value).partition("=")
        if not separator or not key:
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key, text


def pairs_to_mapping(pairs: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    """Options by name; one that is given twice is refused."""
    found: dict[str, str] = {}
    for key, value in pairs:
        if key in found:
            raise click.UsageError(f"{what} {key} is given twice")
        found[key] = value
    return found


def split_names(text: str | None) -> tuple[str, ...]:
    """The names of a comma list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


class OutputFile(click.Path):
    """A file to be written later: what would keep it from being written is told before the work starts.

    Args:
        allow_dash: Whether ``-`` stands for standard output.
    """

    def __init__(self, *, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path, allow_dash=allow_dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check the file and its folder: files are replaced whole, so the folder must take new ones."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.allow_dash and str(path) == "-":
            return path
        target = Path(os.path.realpath(path))  # what a link points to is replaced, not the link
        folder = target.parent
        if not folder.is_dir():
            self.fail(f"{str(path)!r} cannot be written: there is no folder {str(folder)!r}", param, ctx)
        try:
            if not stat.S_ISREG(os.stat(target).st_mode):
                self.fail(f"{str(path)!r} cannot be replaced: it is not a regular file", param, ctx)
        except FileNotFoundError:
            pass
        except OSError as error:  # a loop of links, a name too long
            self.fail(f"{str(path)!r} cannot be written in {str(folder)!r}: {error.strerror}", param, ctx)
        if not os.access(folder, os.W_OK | os.X_OK):
            self.fail(f"{str(path)!r} cannot be written: no permission to write in {str(folder)!r}", param, ctx)
        return path


input_file = click.Path(exists=True, dir_okay=False, path_type=Path)
output_file = OutputFile()
output_file_or_stdout = OutputFile(allow_dash=True)


@dataclass(frozen=True, slots=True)
class Opened:
    """A problem file that was read.

    Attributes:
        original: The problem as the file has it.
        problem: The same without what is to be left out.
        format: The file format's object.
        format_name: Its name.
    """

    original: PlacementProblem
    problem: PlacementProblem
    format: Any
    format_name: str


@dataclass(frozen=True, slots=True)
class Reading:
    """How a problem file is to be read and what is to be left out."""

    format_name: str | None
    format_options: tuple[tuple[str, str], ...]
    drop_budgets: bool
    drop_constraints: tuple[str, ...]

    def open(self, registry: Registry, path: Path) -> Opened:
        """Read a problem file; what is wrong with it is bad input, not an error of ours."""
        info = format_of(registry, path, self.format_name)
        given = pairs_to_mapping(self.format_options, "--format-option")
        try:
            original = read_problem(path, format=info.name, registry=registry, **given)
        except (OSError, EOFError) as error:
            raise InvalidProblemError(f"{path}: {error}") from error
        problem = original
        if self.drop_constraints:
            problem = problem.without(*self.drop_constraints).problem
        if self.drop_budgets:
            problem = problem.without_budgets().problem
        return Opened(original, problem, registry.create_format(info.name), info.name)


def reading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options about the problem file; the function gets them as ``reading``."""

    @functools.wraps(function)
    def gathered(
        *args: Any,
        format_name: str | None,
        format_options: tuple[tuple[str, str], ...],
        drop_budgets: bool,
        drop_constraints: tuple[str, ...],
        **rest: Any,
    ) -> None:
        function(*args, reading=Reading(format_name, format_options, drop_budgets, drop_constraints), **rest)

    return _with_options(
        gathered,
        click.option("--format", "format_name", metavar="NAME", help="The file's format. [default: by its ending]"),
        click.option(
            "--format-option",
            "format_options",
            type=KeyValue(),
            multiple=True,
            metavar="K=V",
            help="An option of the file format; repeatable.",
        ),
        click.option("--drop-budgets", is_flag=True, help="Leave out every budget."),
        click.option(
            "--drop-constraint",
            "drop_constraints",
            multiple=True,
            metavar="NAME",
            help="Leave out a named relation or budget; repeatable.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Effort:
    """What every solver is told, and the reductions that run before it.

    Attributes:
        params: Limits, gap, seed, threads.
        presolve: All reductions, none, or these.
    """

    params: SolveParams
    presolve: bool | tuple[str, ...]


def effort_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options that every solver takes; the function gets them as ``effort``."""

    @functools.wraps(function)
    def gathered(
        *args: Any,
        presolve: bool,
        reductions: str | None,
        time_limit: float | None,
        iteration_limit: int | None,
        gap: float,
        cutoff: float | None,
        seed: int,
        threads: int,
        **rest: Any,
    ) -> None:
        if reductions is not None and not presolve:
            raise click.UsageError("--no-presolve and --reductions exclude each other")
        params = SolveParams(
            time_limit=time_limit,
            iteration_limit=iteration_limit,
            gap=gap,
            cutoff=cutoff,
            seed=seed,
            threads=threads,
        )
        chosen = presolve if reductions is None else split_names(reductions)
        function(*args, effort=Effort(params, chosen), **rest)

    return _with_options(
        gathered,
        click.option("--time-limit", type=float, metavar="S", help="Wall seconds."),
        click.option("--iteration-limit", type=int, metavar="N", help="Iterations of whatever it iterates."),
        click.option(
            "--gap",
            type=float,
            default=0.0,
            metavar="G",
            show_default=True,
            help="Relative gap that is enough.",
        ),
        click.option("--cutoff", type=Number(), metavar="C", help="Only what costs at most C counts."),
        click.option("--seed", type=int, default=0, metavar="N", show_default=True, help="Random seed."),
        click.option("--threads", type=int, default=1, metavar="N", show_default=True, help="Threads."),
        click.option("--presolve/--no-presolve", default=True, show_default=True, help="Whether reductions run first."),
        click.option("--reductions", metavar="A,B", help="Run just these reductions. [default: the usual ones]"),
    )


def _with_options(
    function: Callable[..., None], *options: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[..., None]:
    for option in reversed(options):
        function = option(function)
    return function


def format_of(registry: Registry, path: Path, name: str | None, *, writing: bool = False) -> FormatInfo:
    """The format that is named, or that the file's ending tells."""
    return registry.format(name) if name else registry.format_for(path, writing=writing)
