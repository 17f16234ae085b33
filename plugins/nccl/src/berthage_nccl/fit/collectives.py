"""Fitting curves of collectives: sources apart, rank counts of one source together.

``t = a_k + a'_k log2(n / n_least) + step * S / (S + 64 KiB) + c sqrt(S) + S / bw_kn``: the slope is each rank count's
own, latency grows with the rank count, and the root and the step are shared, also by all-gather and reduce-scatter,
which are one ring run in two directions. All coefficients are at least 0. Whether the step is used is decided by the
error on sizes left out of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.fit.measurements import Measurement
from berthage_nccl.fit.regress import robust
from berthage_nccl.mesh import DimFabric
from berthage_nccl.profile import Profile
from berthage_nccl.rules import small_latency

__all__ = ["fit_collectives", "fit_networks"]

Floats = npt.NDArray[np.float64]
_LARGE: Final = float(2**20)
_SMALL_IMPORTANCE: Final = 0.2  # below 1 MiB measurements are mostly jitter, and count for little in a step
_STEP_BYTES: Final = float(2**16)
_CROSS_NODE_EFFICIENCY: Final = 0.95
_FEWEST_SIZES: Final = 5
_TRAFFIC: Final = MappingProxyType({"all-gather": "ring", "reduce-scatter": "ring"})


@dataclass(frozen=True, slots=True)
class _Group:
    """One source, kind of traffic, node count and network: fitted together.

    ``series`` says which collective and rank count every row is of, by its place in ``names``; ``kind`` and ``ranks``
    say the same apart.
    """

    source: str
    nodes: int
    network: str
    names: tuple[tuple[str, int], ...]
    series: npt.NDArray[np.int64]
    kind: npt.NDArray[np.str_]
    ranks: Floats
    sizes: Floats
    times: Floats


def fit_collectives(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Curve rows for a profile document, with residual and held-out errors."""
    rows: list[dict[str, Any]] = []
    for group in _groups(measurements):
        step, held = _choose(group)
        found = _fit(group, step)
        rows += [_row(group, place, found, held, step) for place in range(len(group.names))]
    return sorted(rows, key=lambda row: (row["source"], row["collective"], row["nodes"], row["ranks_per_node"]))


def fit_networks(measurements: Sequence[Measurement], profile: Profile) -> dict[str, dict[str, Any]]:
    """What the curves between nodes say about a network where no curve fits: latency scale, efficiency and ramp.

    Returns:
        By network family, the fields of :class:`berthage_nccl.profile.Network` that follow from the measurements.
    """
    found: dict[str, dict[str, Any]] = {}
    for group in _groups(measurements):
        if group.nodes == 1 or group.network not in {net.family for net in profile.networks}:
            continue
        plain = _fit(group, False)
        for place, (collective, ranks) in enumerate(group.names):
            row = _row(group, place, plain, np.full(len(group.sizes), -1.0), False)
            fabric = DimFabric.uniform(group.nodes, ranks)
            rough = small_latency(collective, fabric, profile.with_network(group.network))
            per_byte = 1.0 / (1000.0 * row["bandwidth_GBps"])
            latency = max(row["latency_us"], 1.0)
            entry = {
                "latency_scale": latency / rough,
                "ramp": row["sqrt_us"] / sqrt(latency * per_byte),
                "source": f"latency and ramp from {group.source}, {collective} on {group.nodes} x {ranks}",
            }
            nic = {net.family: net.nic_GBps for net in profile.networks}[group.network]
            if collective != "all-reduce":
                n = fabric.ranks
                entry["efficiency"] = min((n - 1) / n / (ranks * nic * 1000.0) / per_byte, _CROSS_NODE_EFFICIENCY)
            found[group.network] = found.get(group.network, {}) | entry
    return found


def _groups(measurements: Sequence[Measurement]) -> list[_Group]:
    table: dict[tuple[str, str, int, str], list[Measurement]] = {}
    for row in measurements:
        if row.ranks_per_node * row.nodes > 1:
            traffic = _TRAFFIC.get(row.collective, row.collective)
            table.setdefault((row.source, traffic, row.nodes, row.network), []).append(row)
    groups = []
    for (source, _, nodes, network), rows in sorted(table.items()):
        names = tuple(sorted({(row.collective, row.ranks_per_node) for row in rows}))
        groups.append(
            _Group(
                source,
                nodes,
                network,
                names,
                np.array([names.index((row.collective, row.ranks_per_node)) for row in rows], dtype=np.int64),
                np.array([row.collective for row in rows]),
                np.array([row.ranks_per_node for row in rows], dtype=np.float64),
                np.array([row.bytes for row in rows]),
                np.array([row.us for row in rows]),
            )
        )
    return groups


def _choose(group: _Group) -> tuple[bool, Floats]:
    """Whether the step is used, and the held-out errors of that choice; -1 where there are too few rows to tell."""
    if len(np.unique(group.sizes)) <= _FEWEST_SIZES:
        return False, np.full(len(group.sizes), -1.0)
    large = group.sizes >= _LARGE if (group.sizes >= _LARGE).any() else np.ones(len(group.sizes), dtype=np.bool_)
    held = {step: _held_out(group, step) for step in (False, True)}
    best = min(held, key=lambda step: float(held[step][large].mean()))
    return best, held[best]


def _columns(group: _Group, step: bool) -> Floats:
    """The step, the root, latency and its growth for every collective, then a slope for every series."""
    sizes = group.sizes
    columns = [sizes / (sizes + _STEP_BYTES) if step else 0 * sizes, np.sqrt(sizes)]
    for kind in sorted({name for name, _ in group.names}):
        mine = group.kind == kind
        columns += [1.0 * mine, np.where(mine, np.log2(group.ranks / group.ranks[mine].min()), 0.0)]
    columns += [sizes * (group.series == place) for place in range(len(group.names))]
    return np.stack(columns, axis=1)


def _fit(group: _Group, step: bool, keep: npt.NDArray[np.bool_] | None = None) -> Floats:
    kept = np.ones(len(group.sizes), dtype=np.bool_) if keep is None else keep
    importance = np.where(group.sizes >= _LARGE, 1.0, 0.3 if step else _SMALL_IMPORTANCE)
    return robust(_columns(group, step)[kept], group.times[kept], importance[kept])


def _held_out(group: _Group, step: bool) -> Floats:
    """Relative errors where each size in turn is left out of the fit, for all series at once."""
    matrix = _columns(group, step)
    errors = np.zeros(len(group.sizes))
    for size in np.unique(group.sizes):
        out = group.sizes == size
        errors[out] = np.abs(matrix[out] @ _fit(group, step, ~out) / group.times[out] - 1)
    return errors


def _row(group: _Group, place: int, found: Floats, held: Floats, step: bool) -> dict[str, Any]:
    collective, ranks = group.names[place]
    kinds = sorted({name for name, _ in group.names})
    at = 2 + 2 * kinds.index(collective)
    least = min(count for name, count in group.names if name == collective)
    mine = group.series == place
    large = mine & (group.sizes >= _LARGE)
    errors = np.abs(_columns(group, step) @ found / group.times - 1)
    slope = float(found[2 + 2 * len(kinds) + place])
    return {
        "collective": collective,
        "nodes": group.nodes,
        "ranks_per_node": ranks,
        "network": group.network,
        "latency_us": float(found[at] + found[at + 1] * np.log2(ranks / least)),
        "step_us": float(found[0]),
        "step_bytes": _STEP_BYTES,
        "sqrt_us": float(found[1]),
        "bandwidth_GBps": 1.0 / (1000.0 * slope) if slope > 0 else 1e9,
        "rows": int(mine.sum()),
        "large": int(large.sum()),
        "residual": float(errors[large].mean()) if large.any() else float(errors[mine].mean()),
        "held_out": float(held[large].mean()) if large.any() else -1.0,
        "extrapolated": False,
        "source": group.source,
    }
