"""Plugins that offer what a test gives them."""

from __future__ import annotations

from typing import Any

from berthage.registry import FormatInfo, Registry, SolverInfo, hookimpl


def solver(name: str, **rest: Any) -> SolverInfo:
    return SolverInfo(name, "For tests.", rest.pop("target", "collections:OrderedDict"), **rest)


class Solvers:
    """A plugin that offers the solvers it is given."""

    def __init__(self, *infos: Any) -> None:
        self.infos = infos

    @hookimpl
    def berthage_solvers(self) -> list[Any]:
        return list(self.infos)


class Formats:
    def __init__(self, *infos: FormatInfo) -> None:
        self.infos = infos

    @hookimpl
    def berthage_formats(self) -> list[FormatInfo]:
        return list(self.infos)


def record(registry: Registry, name: str) -> Any:
    return next(p for p in registry.plugins if p.name == name)
