"""What this distribution offers. Imports nothing heavy."""

from __future__ import annotations

from berthage import hookimpl
from berthage.registry import SeederInfo

from .options import SplitOptions


@hookimpl
def berthage_seeders() -> list[SeederInfo]:
    """The seeder ``split-dim``."""
    return [
        SeederInfo(
            "split-dim",
            "each dimension of the labels' coordinates as a problem of its own, solved and put together",
            "berthage_split.seeder:SplitDim",
            options=SplitOptions,
        )
    ]
