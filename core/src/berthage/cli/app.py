"""The ``berthage`` command: our subcommands, those of plugins, and how errors are told."""

from __future__ import annotations

import errno
from typing import Any

import click

from berthage.cli.check import check
from berthage.cli.common import ExitCode, Failure, registry_of
from berthage.cli.compare import compare
from berthage.cli.convert import convert
from berthage.cli.inspecting import inspect
from berthage.cli.listings import plugins, solvers
from berthage.cli.solving import solve
from berthage.errors import BerthageError, PluginError, SolutionUnavailableError, UnknownNameError
from berthage.registry import CommandInfo


class PluginCommand(click.Command):
    """Stands for a plugin's command in listings, so that its module is imported only when it runs."""

    def __init__(self, info: CommandInfo) -> None:
        super().__init__(info.name, help=info.summary, short_help=info.summary)


class App(click.Group):
    """Our subcommands and those of plugins; every error we raise on purpose ends as a message."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return sorted({*super().list_commands(ctx), *(info.name for info in registry_of(ctx).commands)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand; one of a plugin comes as a stand-in."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        found = [info for info in registry_of(ctx).commands if info.name == cmd_name]
        return PluginCommand(found[0]) if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that runs; one of a plugin is imported now."""
        name = str(args[0])
        registry = registry_of(ctx)
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            try:
                registry.command(name)
            except UnknownNameError as error:
                own = click.Group.list_commands(self, ctx)
                raise click.UsageError(f"{error}; berthage's own: {', '.join(own)}", ctx) from error
        found_name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, PluginCommand):
            loaded = registry.load_command(name)
            if not isinstance(loaded, click.Command):
                raise PluginError(f"command {name!r}: its target is no click.Command but {loaded!r}")
            command = loaded
        return found_name, command, rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run, and turn the errors that we raise on purpose into messages and exit codes."""
        try:
            return super().invoke(ctx)
        except (PluginError, SolutionUnavailableError) as error:
            raise Failure(str(error), ExitCode.ERROR) from error
        except BerthageError as error:
            raise Failure(str(error), ExitCode.USAGE) from error
        except MemoryError as error:
            raise Failure("out of memory", ExitCode.ERROR) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            raise Failure(str(error), ExitCode.ERROR) from error


_EXIT_CODES = """\b
Exit codes:
  0  solved, or the command did what it was asked
  1  error; for check: the solution violates something
  2  bad usage or bad input
  3  infeasible: it is proved that no solution exists
  4  nothing found within the limit
"""


@click.group(
    cls=App,
    epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="berthage", prog_name="berthage")
def app() -> None:
    """Choose one option for every decision of a large structured problem at the least predicted cost."""


for command in (check, compare, convert, inspect, plugins, solve, solvers):
    app.add_command(command)
