"""Split-dimension seeding: the seeder ``split-dim``, and the restriction to what is near a seed.

Importing this package imports no numpy; its names do when they are first used.
"""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from berthage.seeding import Restriction, SeedCache, restrict

    from .options import SplitOptions
    from .projection import Projected
    from .seeder import SplitDim

__all__ = ["Projected", "Restriction", "SeedCache", "SplitDim", "SplitOptions", "restrict"]

_HOME: Final = MappingProxyType(
    {
        "Projected": "berthage_split.projection",
        "Restriction": "berthage.seeding",
        "SeedCache": "berthage.seeding",
        "SplitDim": "berthage_split.seeder",
        "SplitOptions": "berthage_split.options",
        "restrict": "berthage.seeding",
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
