"""Cost models for NCCL on H100-class machines: collectives, compute and redistribution, in microseconds."""

from berthage_nccl import placements
from berthage_nccl.collectives import CollectiveChoice
from berthage_nccl.lattice import Move
from berthage_nccl.mesh import DimFabric, Mesh
from berthage_nccl.model import CostModel, cost_model, fabric
from berthage_nccl.profile import Profile, known_profiles, load_profile

__all__ = [
    "CollectiveChoice",
    "CostModel",
    "DimFabric",
    "Mesh",
    "Move",
    "Profile",
    "cost_model",
    "fabric",
    "known_profiles",
    "load_profile",
    "placements",
]
