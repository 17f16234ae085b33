"""Names of solvers. Imports no torch."""

from __future__ import annotations

from berthage import Registry

__all__ = ["solver_of"]


def solver_of(name: str, registry: Registry) -> str:
    """The registered name of a solver; ``approx`` stands for ``trws-lazy`` where that is installed, else ``trws``.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name == "approx":
        known = {info.name for info in registry.solvers if not registry.unavailable_reason(info)}
        name = "trws-lazy" if "trws-lazy" in known else "trws"
    return registry.solver(name).name
