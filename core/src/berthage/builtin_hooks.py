"""What core itself offers, registered through the same hooks as a stranger's plugin."""

from __future__ import annotations

from berthage.registry.descriptions import CommandInfo, FormatInfo
from berthage.registry.hookspecs import hookimpl


@hookimpl
def berthage_formats() -> list[FormatInfo]:
    """Berthage's own problem files."""
    return [
        FormatInfo(
            name="berthage",
            summary="Berthage's own problem files: lossless, one file.",
            target="berthage.files.native:NativeFormat",
            extensions=(".berthage",),
            reads=True,
            writes=True,
        )
    ]


@hookimpl
def berthage_commands() -> list[CommandInfo]:
    """The command line's own subcommands."""
    return [
        CommandInfo("check", "Evaluate a solution of a problem.", "berthage.cli.check:check"),
        CommandInfo("compare", "Run several solvers on a problem and compare them.", "berthage.cli.compare:compare"),
        CommandInfo("convert", "Convert a problem file to another format.", "berthage.cli.convert:convert"),
        CommandInfo("inspect", "Show what a problem file holds.", "berthage.cli.inspecting:inspect"),
        CommandInfo("plugins", "List the plugins and what they offer.", "berthage.cli.listings:plugins"),
        CommandInfo("solve", "Solve a problem.", "berthage.cli.solving:solve"),
        CommandInfo("solvers", "List the solvers.", "berthage.cli.listings:solvers"),
    ]
