"""``berthage solvers`` and ``berthage plugins``: what is installed, without importing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from berthage.cli.base import registry_of
from berthage.cli.strict_json import FORMAT_VERSION, plain, to_json
from berthage.registry import PluginRecord, PluginStatus, Registry, SolverInfo, describe_options
from berthage.registry.unknown import how_to_install, shipped


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def solvers(ctx: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """List the solvers.

    For each NAME that is given, its options are listed too.
    """
    registry = registry_of(ctx)
    infos = tuple(dict.fromkeys(registry.solver(name) for name in names)) if names else registry.solvers
    if as_json:
        rows = [solver_row(registry, info) for info in infos]
        click.echo(to_json({"format_version": FORMAT_VERSION, "solvers": rows}), nl=False)
        return
    if not infos:
        click.echo(f"No solver is installed. Ours: {how_to_install(*shipped('solver'))}")
    for line in columns([_solver_words(registry, info) for info in infos]):
        click.echo(line)
    if names:
        for info in infos:
            _echo_details(registry, info)
    for conflict in registry.conflicts:
        click.echo(f"conflict: {conflict}", err=True)
    if registry.broken:
        broken = ", ".join(record.name for record in registry.broken)
        click.echo(f"unavailable plugins: {broken} (see `berthage plugins`)", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def plugins(ctx: click.Context, as_json: bool) -> None:
    """List the plugins and what they offer.

    Those that could not be loaded are listed with the reason.
    """
    registry = registry_of(ctx)
    if as_json:
        rows = [plugin_row(record) for record in registry.plugins]
        conflicts = [dataclasses.asdict(conflict) for conflict in registry.conflicts]
        document = {"format_version": FORMAT_VERSION, "plugins": rows, "conflicts": conflicts}
        click.echo(to_json(document), nl=False)
        return
    lines = [
        (p.name, f"{p.distribution} {p.version}".strip(), p.status.value, _provided(p) or p.error)
        for p in registry.plugins
    ]
    for line in columns(lines):
        click.echo(line)
    for conflict in registry.conflicts:
        click.echo(f"conflict: {conflict}")


def solver_row(registry: Registry, info: SolverInfo) -> dict[str, Any]:
    """A solver as JSON has it."""
    plugin = registry.plugin_of(info)
    reason = registry.unavailable_reason(info)
    return {
        "name": info.name,
        "aliases": info.aliases,
        "summary": info.summary,
        "version": info.version,
        "plugin": plugin.distribution or plugin.name,
        "capabilities": sorted(info.capabilities),
        "available": not reason,
        "reason": reason or None,
        "install": info.install or None,
        "options": [plain(dataclasses.asdict(option)) for option in describe_options(info)],
    }


def plugin_row(record: PluginRecord) -> dict[str, Any]:
    """A plugin as JSON has it."""
    return {
        "name": record.name,
        "distribution": record.distribution or None,
        "version": record.version or None,
        "module": record.module,
        "status": record.status,
        "error": record.error or None,
        "provides": record.provides,
    }


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _solver_words(registry: Registry, info: SolverInfo) -> tuple[str, str, str]:
    reason = registry.unavailable_reason(info)
    alias = f" (also: {', '.join(info.aliases)})" if info.aliases else ""
    return info.name, info.version, f"{info.summary}{alias}{f' [unavailable: {reason}]' if reason else ''}"


def _echo_details(registry: Registry, info: SolverInfo) -> None:
    plugin = registry.plugin_of(info)
    click.echo(f"\n{info.name}, from {plugin.distribution or plugin.name}")
    click.echo(f"  promises: {', '.join(sorted(info.capabilities)) or 'nothing beyond the protocol'}")
    rows = [(f"  --option {o.name}={plain(o.default)}", o.type, o.help) for o in describe_options(info)]
    for line in columns(rows):
        click.echo(line)


def _provided(record: PluginRecord) -> str:
    if record.status is not PluginStatus.LOADED:
        return ""
    parts = [f"{kind} {', '.join(names)}" for kind, names in record.provides.items()]
    return "; ".join(parts) or "nothing"
