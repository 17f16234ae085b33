"""What no implementation can beat: bytes over the slowest link, divided by its bandwidth."""

from __future__ import annotations

from berthage_nccl.mesh import DimFabric
from berthage_nccl.profile import Profile

__all__ = ["floor_per_byte"]


def floor_per_byte(collective: str, fabric: DimFabric, profile: Profile) -> float:
    """The wire floor in microseconds per byte of nccl-tests size.

    All-gather and reduce-scatter move ``(n - k) / n`` of the buffer into (out of) a node with ``k`` of the ``n``
    ranks, through its ``k`` NICs; all-reduce twice that; all-to-all the same share of each rank's own buffer through
    its own NIC. Inside a node a rank receives ``(n - 1) / n`` over NVLink; an all-reduce receives twice that, or the
    buffer once where the switch reduces.
    """
    n, k = fabric.ranks, fabric.ranks_per_node
    if n == 1:
        return 0.0
    share = (n - 1) / n
    if collective == "all-reduce":
        share = min(2 * share, 1.0) if profile.node.nvls else 2 * share
    nvlink, nic = profile.node.nvlink_GBps, profile.net.nic_GBps
    if fabric.nodes == 1:
        return share / (1000.0 * nvlink)
    crossing = (n - k) / n
    if collective == "all-to-all":
        cut = crossing / nic
    else:
        cut = crossing * (2 if collective == "all-reduce" else 1) / (k * nic)
    return max(cut, share / (nvlink + nic)) / 1000.0
