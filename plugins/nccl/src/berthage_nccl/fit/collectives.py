"""Fitting curves of collectives: sources apart, rank counts of one source together.

``t = a + a' log2(n / n_least) + step * S / (S + 64 KiB) + c sqrt(S) + S / bw_n``: the slope is each rank count's own,
the root term is shared, latency grows with the rank count. All coefficients are at least 0. Whether the step is used
is decided by the error on sizes left out of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
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


@dataclass(frozen=True, slots=True)
class _Group:
    """One source, collective, node count and network: rank counts are fitted together."""

    source: str
    collective: str
    nodes: int
    network: str
    ranks: Floats
    sizes: Floats
    times: Floats


def fit_collectives(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Curve rows for a profile document, with residual and held-out errors."""
    rows: list[dict[str, Any]] = []
    for group in _groups(measurements):
        step, held = _choose(group)
        found = _fit(group, step)
        for ranks in np.unique(group.ranks):
            rows.append(_row(group, int(ranks), found, held, step))
    return rows


def fit_networks(measurements: Sequence[Measurement], profile: Profile) -> dict[str, dict[str, Any]]:
    """What the curves between nodes say about a network where no curve fits: latency scale, efficiency and ramp.

    Returns:
        By network family, the fields of :class:`berthage_nccl.profile.Network` that follow from the measurements.
    """
    found: dict[str, dict[str, Any]] = {}
    for group in _groups(measurements):
        if group.nodes == 1 or group.network not in {net.family for net in profile.networks}:
            continue
        for ranks in np.unique(group.ranks):
            row = _row(group, int(ranks), _fit(group, False), np.full(len(group.sizes), -1.0), False)
            fabric = DimFabric.uniform(group.nodes, int(ranks))
            rough = small_latency(group.collective, fabric, profile.with_network(group.network))
            per_byte = 1.0 / (1000.0 * row["bandwidth_GBps"])
            latency = max(row["latency_us"], 1.0)
            entry = {
                "latency_scale": latency / rough,
                "ramp": row["sqrt_us"] / sqrt(latency * per_byte),
                "source": f"latency and ramp from {group.source}, {group.collective} on {group.nodes} x {int(ranks)}",
            }
            nic = {net.family: net.nic_GBps for net in profile.networks}[group.network]
            if group.collective != "all-reduce":
                n = fabric.ranks
                entry["efficiency"] = min((n - 1) / n / (ranks * nic * 1000.0) / per_byte, _CROSS_NODE_EFFICIENCY)
            found[group.network] = found.get(group.network, {}) | entry
    return found


def _groups(measurements: Sequence[Measurement]) -> list[_Group]:
    table: dict[tuple[str, str, int, str], list[Measurement]] = {}
    for row in measurements:
        table.setdefault((row.source, row.collective, row.nodes, row.network), []).append(row)
    return [
        _Group(
            *key,
            np.array([row.ranks_per_node for row in rows], dtype=np.float64),
            np.array([row.bytes for row in rows]),
            np.array([row.us for row in rows]),
        )
        for key, rows in sorted(table.items())
        if any(row.ranks_per_node * row.nodes > 1 for row in rows)
    ]


def _choose(group: _Group) -> tuple[bool, Floats]:
    """Whether the step is used, and the held-out errors of that choice; -1 where there are too few rows to tell."""
    if len(np.unique(group.sizes)) <= _FEWEST_SIZES:
        return False, np.full(len(group.sizes), -1.0)
    large = group.sizes >= _LARGE if (group.sizes >= _LARGE).any() else np.ones(len(group.sizes), dtype=np.bool_)
    held = {step: _held_out(group, step) for step in (False, True)}
    best = min(held, key=lambda step: float(held[step][large].mean()))
    return best, held[best]


def _columns(group: _Group, ranks: Floats, sizes: Floats, step: bool) -> Floats:
    """Latency, its growth with ranks, the step, the root, then a slope for every rank count of the group."""
    counts = np.unique(group.ranks)
    ones = np.ones_like(sizes)
    columns = [ones, np.log2(ranks / counts[0]), sizes / (sizes + _STEP_BYTES) if step else 0 * ones, np.sqrt(sizes)]
    columns += [sizes * (ranks == count) for count in counts]
    return np.stack(columns, axis=1)


def _fit(group: _Group, step: bool, keep: npt.NDArray[np.bool_] | None = None) -> Floats:
    kept = np.ones(len(group.sizes), dtype=np.bool_) if keep is None else keep
    importance = np.where(group.sizes >= _LARGE, 1.0, 0.3 if step else _SMALL_IMPORTANCE)
    matrix = _columns(group, group.ranks, group.sizes, step)
    return robust(matrix[kept], group.times[kept], importance[kept])


def _held_out(group: _Group, step: bool) -> Floats:
    """Relative errors where each size in turn is left out of the fit, for all rank counts at once."""
    matrix = _columns(group, group.ranks, group.sizes, step)
    errors = np.zeros(len(group.sizes))
    for size in np.unique(group.sizes):
        out = group.sizes == size
        errors[out] = np.abs(matrix[out] @ _fit(group, step, ~out) / group.times[out] - 1)
    return errors


def _row(group: _Group, ranks: int, found: Floats, held: Floats, step: bool) -> dict[str, Any]:
    counts = np.unique(group.ranks)
    mine = group.ranks == ranks
    large = mine & (group.sizes >= _LARGE)
    predicted = _columns(group, group.ranks, group.sizes, step) @ found
    errors = np.abs(predicted / group.times - 1)
    slope = float(found[4 + int(np.flatnonzero(counts == ranks)[0])])
    return {
        "collective": group.collective,
        "nodes": group.nodes,
        "ranks_per_node": ranks,
        "network": group.network,
        "latency_us": float(found[0] + found[1] * np.log2(ranks / counts[0])),
        "step_us": float(found[2]),
        "step_bytes": _STEP_BYTES,
        "sqrt_us": float(found[3]),
        "bandwidth_GBps": 1.0 / (1000.0 * slope) if slope > 0 else 1e9,
        "rows": int(mine.sum()),
        "large": int(large.sum()),
        "residual": float(errors[large].mean()) if large.any() else float(errors[mine].mean()),
        "held_out": float(held[large].mean()) if large.any() else -1.0,
        "extrapolated": False,
        "source": group.source,
    }
