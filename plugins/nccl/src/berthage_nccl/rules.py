"""NCCL's choice of algorithm and protocol, as rules: the tuning model of NCCL 2.30 in our own words.

The constants rank algorithms; their absolute times are 12 to 50 % off and are used here only for the choice, for
ratios between fabrics, and where nothing was measured. NCCL's tree correction is a step function of the size and
would make the time fall as bytes grow, so it is interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.mesh import DimFabric
from berthage_nccl.profile import Profile

__all__ = ["ALGORITHMS", "PROTOCOLS", "Choice", "choose", "small_latency", "times"]

ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
PROTOCOLS: Final = ("LL", "LL128", "Simple")
_TREE, _RING, _DIRECT, _CHAIN, _NVLS, _NVLS_TREE, _PAT = range(7)
_LL, _LL128, _SIMPLE = range(3)

# Latencies in microseconds by algorithm, for LL, LL128 and Simple (NCCL 2.30, src/graph/tuning.cc).
_BASE: Final = ((6.8, 14, 8.4), (6.6, 14, 8.4), (0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0), (8, 8, 8))
_NVLINK: Final = ((0.6, 1.25, 4), (0.6, 1.9, 3.4), (0, 0, 3.7), (0, 0, 2.8), (0, 0, 25), (0, 0, 25), (0, 0, 4))
_NET: Final = ((5, 8.5, 14), (2.7, 4, 14), (0, 0, 31), (0, 0, 30), (0, 0, 18), (0, 0, 20.9), (0, 0, 14))


@dataclass(frozen=True, slots=True)
class _Caps:
    """Bandwidth caps in GB/s for 1, 2 and at least 4 nodes (the same source)."""

    ll_max: tuple[float, float, float]
    ring_ll128: tuple[float, float, float]
    tree_ll128: tuple[float, float, float]
    tree: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    nvls: float


_CAPS: Final = MappingProxyType(
    {
        "ampere": _Caps((87.7, 22.5, 19), (20, 20, 20), (20, 20, 20), (24, 23.6, 17.8), (24, 23.6, 17.8), 0.0),
        "hopper": _Caps((141, 45, 35), (36.7, 36.7, 36.7), (36.7, 36.7, 29), (38.7, 41.4, 36), (0, 57.7, 45.5), 0.85),
        "blackwell": _Caps((282, 90, 70), (40, 40, 40), (55.6, 31.67, 20), (70, 42.8, 24), (0, 96, 80), 0.74),
    }
)
_CPU_LL: Final = MappingProxyType({"intel": (39, 39, 20.4), "amd": (87.7, 22.5, 19)})
_CORRECTION: Final = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9),
)  # fmt: skip
_SMALL_BYTES: Final = 1024.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What NCCL would run.

    Attributes:
        algorithm: One of :data:`ALGORITHMS`, or ``P2P`` for all-to-all.
        protocol: One of :data:`PROTOCOLS`.
        us: NCCL's own estimate; good for ranking only.
    """

    algorithm: str
    protocol: str
    us: float


def times(
    collective: str, sizes: npt.NDArray[np.float64], fabric: DimFabric, profile: Profile
) -> npt.NDArray[np.float64]:
    """NCCL's own estimate for every algorithm and protocol.

    Args:
        collective: all-gather, reduce-scatter or all-reduce.
        sizes: Bytes, as nccl-tests counts them.
        fabric: At least two ranks.
        profile: The machine.

    Returns:
        ``float64[7, 3, len(sizes)]`` in microseconds, inf where NCCL does not offer the combination.
    """
    reduce_all = collective == "all-reduce"
    bandwidth = _bandwidths(reduce_all, fabric, profile)
    latency = _latencies(reduce_all, fabric, profile)
    n = fabric.ranks
    steps = 2 * (n - 1) if reduce_all else n - 1
    found = np.full((len(ALGORITHMS), len(PROTOCOLS), len(sizes)), np.inf)
    for algorithm in range(len(ALGORITHMS)):
        ratio = n / steps if algorithm in (_RING, _NVLS, _NVLS_TREE) else 0.5
        for protocol in range(len(PROTOCOLS)):
            speed = bandwidth[algorithm, protocol] * ratio
            if speed <= 0:
                continue
            rate = np.full(len(sizes), speed)
            if algorithm == _TREE:
                place = np.log2(np.maximum(sizes, 1.0) / 64.0)
                rate = rate * np.interp(place, np.arange(24), _CORRECTION[protocol])
            found[algorithm, protocol] = latency[algorithm, protocol] + sizes / (1000.0 * rate)
    return found


def choose(collective: str, size: float, fabric: DimFabric, profile: Profile) -> Choice:
    """The algorithm and protocol that NCCL's model ranks first; all-to-all is grouped point to point."""
    if collective == "all-to-all":
        return Choice("P2P", "Simple", small_latency(collective, fabric, profile))
    table = times(collective, np.array([float(size)]), fabric, profile)[..., 0]
    algorithm, protocol = np.unravel_index(int(np.argmin(table)), table.shape)
    return Choice(ALGORITHMS[algorithm], PROTOCOLS[protocol], float(table[algorithm, protocol]))


def small_latency(collective: str, fabric: DimFabric, profile: Profile) -> float:
    """NCCL's estimate for a 1 KiB message, in microseconds: how latency grows with the fabric.

    All-to-all is not in NCCL's model; it is taken as the ring's base, one hop, and 0.4 µs for each further peer to
    issue its send and receive.
    """
    if collective == "all-to-all":
        hop = _NVLINK[_RING][_SIMPLE] if fabric.nodes == 1 else _NET[_RING][_SIMPLE]
        return _BASE[_RING][_SIMPLE] + hop + 0.4 * (fabric.ranks - 2)
    return float(times(collective, np.array([_SMALL_BYTES]), fabric, profile).min())


def _bandwidths(reduce_all: bool, fabric: DimFabric, profile: Profile) -> npt.NDArray[np.float64]:
    """Bus bandwidths in GB/s by algorithm and protocol; 0 where not offered."""
    caps, node = _CAPS[profile.device.arch], profile.node
    nodes, ppn, channels = fabric.nodes, fabric.ranks_per_node, node.channels
    row = 0 if nodes == 1 else 1 if nodes <= 2 else 2
    inter = ppn * profile.net.nic_GBps / channels
    per_channel = node.channel_GBps if nodes <= 2 else min(inter, node.channel_GBps)
    bus = channels * per_channel
    ll_max = caps.ll_max[row] if nodes == 1 else _CPU_LL.get(node.cpu, _CPU_LL["intel"])[row]
    found = np.zeros((len(ALGORITHMS), len(PROTOCOLS)))
    found[_RING] = (min(ll_max, bus / 2), min(0.92 * bus, channels * caps.ring_ll128[row]), bus)
    if reduce_all:
        simple = 0.85 * min(0.92 * bus, channels * caps.tree[row])
        share = 7 / 9 if nodes == 1 else 120 / 128
        found[_TREE] = (
            0.85 * min(bus / 3.8, ll_max),
            0.85 * min(bus * share, channels * caps.tree_ll128[row]),
            simple,
        )
    # The switch reduces from three ranks on: with two there is nothing to save.
    if node.nvls and caps.nvls > 0 and ppn > 2:
        inside = channels * node.channel_GBps * caps.nvls * (channels - 1) / channels
        inside *= 2 if reduce_all else (ppn - 1) / ppn
        if nodes == 1:
            found[_NVLS, _SIMPLE] = inside
        elif node.collnet:
            found[_NVLS, _SIMPLE] = min(inside, channels * inter)
        if reduce_all and nodes > 1:
            outside = channels * inter * (2 if nodes <= 2 else 1)
            found[_NVLS_TREE, _SIMPLE] = min(inside, outside, channels * caps.nvls_tree[row])
    if node.collnet and nodes > 1 and reduce_all:
        found[_DIRECT, _SIMPLE] = bus
        found[_CHAIN, _SIMPLE] = bus
    if ppn == 1 and nodes > 1 and not reduce_all:
        found[_PAT, _SIMPLE] = 0.75 * bus
    return found


def _latencies(reduce_all: bool, fabric: DimFabric, profile: Profile) -> npt.NDArray[np.float64]:
    """Latencies in microseconds by algorithm and protocol."""
    n, nodes, ppn = fabric.ranks, fabric.nodes, fabric.ranks_per_node
    base, intra, inter = np.array(_BASE, float), np.array(_NVLINK, float), np.array(_NET, float)
    depth = log2(nodes)
    overhead = (2.0 if profile.node.cpu == "amd" else 1.0) * np.array([1.0, 1.0, 3.0])
    found = base.copy()
    steps = 2 * (n - 1) if reduce_all else n - 1
    hops = 0 if nodes == 1 else 2 * (nodes - 1) if reduce_all else nodes - 1
    per_step = intra[_RING] if nodes == 1 else np.maximum(intra[_RING], overhead)
    found[_RING] += (steps - hops) * per_step + hops * inter[_RING]
    found[_TREE] += 2 * ((ppn - 1) * intra[_TREE] + depth * inter[_TREE])
    found[_NVLS] = intra[_NVLS] + (inter[_NVLS] if nodes > 1 else 0)
    found[_NVLS_TREE] += intra[_NVLS_TREE] + 2 * depth * inter[_NVLS_TREE]
    found[_DIRECT] += 2 * (min(1, ppn - 1) * intra[_DIRECT] + inter[_DIRECT])
    found[_CHAIN] += 2 * ((ppn - 1) * intra[_CHAIN] + inter[_CHAIN])
    found[_PAT] += depth * inter[_PAT]
    return found
