"""The shipped cost models, as the registry makes them."""

from __future__ import annotations

from berthage_nccl.model import CostModel
from berthage_nccl.profile import load_profile

__all__ = ["a100", "b200", "h100", "h200"]


def h100() -> CostModel:
    """NCCL on H100 SXM."""
    return CostModel(load_profile("nccl-h100"))


def h200() -> CostModel:
    """NCCL on H200 SXM."""
    return CostModel(load_profile("nccl-h200"))


def a100() -> CostModel:
    """NCCL on A100 SXM."""
    return CostModel(load_profile("nccl-a100"))


def b200() -> CostModel:
    """NCCL on B200 SXM."""
    return CostModel(load_profile("nccl-b200"))
