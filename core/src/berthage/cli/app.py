"""The ``berthage`` command: its subcommands come from the plugins, core's own among them; how errors are told."""

from __future__ import annotations

import errno
from typing import Any

import click

from berthage.cli.base import ExitCode, Failure, registry_of
from berthage.errors import BerthageError, PluginError, SolutionUnavailableError, UnknownNameError
from berthage.registry import CommandInfo


class DescribedCommand(click.Command):
    """Stands for a command in listings, so that its module is imported only when it runs."""

    def __init__(self, info: CommandInfo) -> None:
        super().__init__(info.name, help=info.summary, short_help=info.summary)


class App(click.Group):
    """The subcommands of all plugins; every error we raise on purpose ends as a message."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all subcommands."""
        return sorted(info.name for info in registry_of(ctx).commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A stand-in for the subcommand."""
        found = [info for info in registry_of(ctx).commands if info.name == cmd_name]
        return DescribedCommand(found[0]) if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The subcommand that runs; its module is imported now."""
        name = str(args[0])
        registry = registry_of(ctx)
        if not name.startswith("-"):
            try:
                registry.command(name)
            except UnknownNameError as error:
                raise click.UsageError(str(error), ctx) from error
        found_name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, DescribedCommand):
            command = registry.load_command(name)
            if not isinstance(command, click.Command):
                raise PluginError(f"command {name!r}: its target is no click.Command but {command!r}")
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
