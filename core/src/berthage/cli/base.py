"""What every subcommand needs and costs nothing to import: exit codes, failures, the registry."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import click

from berthage.registry import Registry, load_registry

if TYPE_CHECKING:
    from berthage.solving.results import SolveResult


class ExitCode(enum.IntEnum):
    """What the shell is told."""

    SOLVED = 0
    """A solution was found, or the command did what it was asked."""
    ERROR = 1
    """Something failed; for ``check``, the solution violates something."""
    USAGE = 2
    """The command line or an input file is wrong."""
    INFEASIBLE = 3
    """It is proved that no solution exists."""
    NOTHING_FOUND = 4
    """No solution was found within the limit."""


class Failure(click.ClickException):
    """An error that is told as a message, with its exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # click has it as a class attribute
        """What the shell is told."""
        return int(self.code)


def exit_code(result: SolveResult) -> ExitCode:
    """What the shell is told about a result."""
    return {
        "optimal": ExitCode.SOLVED,
        "feasible": ExitCode.SOLVED,
        "infeasible": ExitCode.INFEASIBLE,
        "no_solution_found": ExitCode.NOTHING_FOUND,
    }.get(result.termination.reason.value, ExitCode.ERROR)


def registry_of(ctx: click.Context) -> Registry:
    """The registry of this run: one handed over as the context's object, or what is installed."""
    root = ctx.find_root()
    if not isinstance(root.obj, Registry):
        root.obj = load_registry()
    return root.obj
