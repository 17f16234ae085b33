"""Cost models for NCCL on H100-class machines: collectives, compute and redistribution, in microseconds."""

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from berthage_nccl import placements
    from berthage_nccl.collectives import CollectiveChoice
    from berthage_nccl.lattice import Move
    from berthage_nccl.mesh import DimFabric, Mesh
    from berthage_nccl.model import CostModel, cost_model, fabric
    from berthage_nccl.products import ProductChoice
    from berthage_nccl.profile import Profile, known_profiles, load_profile

__all__ = [
    "CollectiveChoice",
    "CostModel",
    "DimFabric",
    "Mesh",
    "Move",
    "ProductChoice",
    "Profile",
    "cost_model",
    "fabric",
    "known_profiles",
    "load_profile",
    "placements",
]

# Imported when first used: the registry imports this package to list what it offers, and that should cost nothing.
_HOME: Final = MappingProxyType(
    {
        "CollectiveChoice": "berthage_nccl.collectives",
        "CostModel": "berthage_nccl.model",
        "DimFabric": "berthage_nccl.mesh",
        "Mesh": "berthage_nccl.mesh",
        "Move": "berthage_nccl.lattice",
        "ProductChoice": "berthage_nccl.products",
        "Profile": "berthage_nccl.profile",
        "cost_model": "berthage_nccl.model",
        "fabric": "berthage_nccl.model",
        "known_profiles": "berthage_nccl.profile",
        "load_profile": "berthage_nccl.profile",
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name from the module that defines it."""
    if name == "placements":
        return import_module("berthage_nccl.placements")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next look-up finds it without coming here
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
