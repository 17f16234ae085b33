"""From a collective and a fabric to a curve: fitted where there is data, carried over by rules where there is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, sqrt

import numpy as np
import numpy.typing as npt

from berthage_nccl.mesh import DimFabric
from berthage_nccl.profile import Curve, Profile
from berthage_nccl.rules import small_latency, times

__all__ = ["Price", "resolve"]

_RAMP: float = 0.5
_BIG = 2.0**30


@dataclass(frozen=True, slots=True)
class Price:
    """``a + step * S / (S + step_bytes) + c * sqrt(S) + b * S`` microseconds, all coefficients at least 0.

    Attributes:
        latency: a, microseconds.
        step: Rise where the protocol changes, microseconds.
        step_bytes: Size at which half of it is reached.
        root: c, microseconds per square root of a byte.
        per_byte: b, microseconds per byte.
        source: Where it is from.
        measured: Whether it is a curve that was fitted to exactly this fabric.
    """

    latency: float
    step: float
    step_bytes: float
    root: float
    per_byte: float
    source: str
    measured: bool = False

    def fixed(self, sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Everything but the part that is proportional to bytes."""
        rise = self.step * (sizes / (sizes + self.step_bytes))
        return np.asarray(self.latency + rise + self.root * np.sqrt(sizes), dtype=np.float64)

    def us(self, sizes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Microseconds for these sizes."""
        return self.fixed(sizes) + self.per_byte * sizes


def resolve(collective: str, fabric: DimFabric, profile: Profile) -> Price:
    """The curve of a collective on a fabric of at least two ranks, before physics clamps it."""
    exact = _measured(collective, fabric, profile)
    if exact is not None:
        price = exact
    elif fabric.nodes == 1:
        price = _one_node(collective, fabric.ranks, profile)
    else:
        price = _several_nodes(collective, fabric, profile)
    if fabric.nodes > 1 and profile.net.extra_latency_us:
        price = dataclasses.replace(price, latency=price.latency + profile.net.extra_latency_us)
    return price


def _measured(collective: str, fabric: DimFabric, profile: Profile) -> Price | None:
    """The fitted curve of exactly this fabric; of several sources, their mean weighted by measurements."""
    if fabric.nodes * fabric.ranks_per_node != fabric.ranks:
        return None
    network = profile.network if fabric.nodes > 1 else ""
    wanted = (collective, fabric.nodes, fabric.ranks_per_node, network)
    rows = [c for c in profile.curves if (c.collective, c.nodes, c.ranks_per_node, c.network) == wanted]
    preferred = [row for row in rows if row.source == profile.source]
    return _mean(preferred or rows)


def _mean(rows: Sequence[Curve]) -> Price | None:
    if not rows:
        return None
    weight = np.array([max(row.rows, 1) for row in rows], dtype=np.float64)
    weight /= weight.sum()

    def mean(values: Sequence[float]) -> float:
        return float(weight @ np.array(values))

    return Price(
        mean([row.latency_us for row in rows]),
        mean([row.step_us for row in rows]),
        mean([row.step_bytes for row in rows]),
        mean([row.sqrt_us for row in rows]),
        mean([1.0 / (1000.0 * row.bandwidth_GBps) for row in rows]),
        " and ".join(f"{row.source}{' [extrapolated]' if row.extrapolated else ''}" for row in rows),
        measured=True,
    )


def _wire(collective: str, ranks: int) -> float:
    """Bytes on the wire per byte of size, as nccl-tests' bus bandwidth counts them."""
    return (2 if collective == "all-reduce" else 1) * (ranks - 1) / ranks


def _one_node(collective: str, ranks: int, profile: Profile) -> Price:
    """Between measured rank counts linear in log2(ranks); beyond them by the rules' latency and equal bus bandwidth."""
    known = sorted({c.ranks_per_node for c in profile.curves if c.collective == collective and c.nodes == 1})
    if not known:
        return _without_data(collective, ranks, profile)
    at = {k: _one_node_measured(collective, k, profile) for k in known}
    below = max((k for k in known if k <= ranks), default=known[0])
    above = min((k for k in known if k >= ranks), default=known[-1])
    if below == above:
        near = at[below]
        scale = _latency(collective, ranks, profile) / _latency(collective, below, profile)
        return Price(
            near.latency * scale,
            near.step * scale,
            near.step_bytes,
            near.root,
            near.per_byte / _wire(collective, below) * _wire(collective, ranks),
            f"{near.source}, carried over from {below} ranks",
        )
    low, high = at[below], at[above]
    part = log2(ranks / below) / log2(above / below)

    def between(left: float, right: float) -> float:
        return left + part * (right - left)

    return Price(
        between(low.latency, high.latency),
        between(low.step, high.step),
        between(low.step_bytes, high.step_bytes),
        between(low.root, high.root),
        between(low.per_byte / _wire(collective, below), high.per_byte / _wire(collective, above))
        * _wire(collective, ranks),
        f"{low.source}, between {below} and {above} ranks",
    )


def _one_node_measured(collective: str, ranks: int, profile: Profile) -> Price:
    found = _measured(collective, DimFabric.uniform(1, ranks), profile)
    assert found is not None  # the caller lists rank counts that have curves
    return found


def _latency(collective: str, ranks: int, profile: Profile) -> float:
    return small_latency(collective, DimFabric.uniform(1, ranks), profile)


def _without_data(collective: str, ranks: int, profile: Profile) -> Price:
    """Nothing is measured for this collective inside a node."""
    fabric = DimFabric.uniform(1, ranks)
    have = {c.collective for c in profile.curves if c.nodes == 1}
    scale = small_latency(collective, fabric, profile) / small_latency("all-gather", fabric, profile)
    twin = {"reduce-scatter": "all-gather", "all-gather": "reduce-scatter"}.get(collective, "")
    if twin in have:  # the same ring, run the other way
        near = resolve(twin, fabric, profile)
        return dataclasses.replace(near, source=f"as {twin}: {near.source}", measured=False)
    if twin and "all-reduce" in have:
        near = resolve("all-reduce", fabric, profile)
        less = small_latency(collective, fabric, profile) / small_latency("all-reduce", fabric, profile)
        return Price(
            near.latency * less,
            near.step * less,
            near.step_bytes,
            near.root / 2,
            near.per_byte / 2,
            f"half an all-reduce: {near.source}",
        )
    if collective == "all-reduce" and have & {"reduce-scatter", "all-gather"}:
        scatter, gather = (resolve(kind, fabric, profile) for kind in ("reduce-scatter", "all-gather"))
        latency = max(scatter.latency, gather.latency) * scale
        return Price(
            min(latency, scatter.latency + gather.latency),
            max(scatter.step, gather.step),
            scatter.step_bytes,
            max(scatter.root, gather.root),
            scatter.per_byte + gather.per_byte,
            f"reduce-scatter, then all-gather: {scatter.source}",
        )
    latency = small_latency(collective, fabric, profile)
    if collective == "all-to-all":
        per_byte = _wire(collective, ranks) / (1000.0 * profile.node.channels * profile.node.channel_GBps)
    else:
        per_byte = _slope(collective, fabric, profile)
    root = _RAMP * sqrt(latency * per_byte)
    return Price(latency, 0.0, 1.0, root, per_byte, "NCCL 2.30 tuning model, not calibrated")


def _slope(collective: str, fabric: DimFabric, profile: Profile) -> float:
    """Microseconds per byte at large sizes, by NCCL's own model."""
    best = times(collective, np.array([_BIG, 2 * _BIG]), fabric, profile).min(axis=(0, 1))
    return float(best[1] - best[0]) / _BIG


def _several_nodes(collective: str, fabric: DimFabric, profile: Profile) -> Price:
    """The slower of inside and between nodes, with latency as NCCL's rules scale it.

    Where the network has a curve of the same collective on another fabric, latency and slope are scaled so that the
    same rule hits that curve; elsewhere the network's own latency scale, efficiency and ramp are used.
    """
    net = profile.net
    rough = small_latency(collective, fabric, profile)
    slope = _structure(collective, fabric, profile)
    anchor = _anchor(collective, fabric, profile)
    if anchor is None:
        latency = rough * net.latency_scale
        mark = " [extrapolated]" if net.extrapolated else ""
        source = f"NCCL 2.30 rules on {net.family}: {net.source}{mark}"
        return Price(latency, 0.0, 1.0, net.ramp * sqrt(latency * slope), slope, source)
    row, there = anchor
    near = _mean([row])
    assert near is not None  # one row has a mean
    scale = rough / small_latency(collective, there, profile)
    per_byte = slope * near.per_byte / _structure(collective, there, profile)
    latency = near.latency * scale
    ramp = near.root / sqrt(near.latency * near.per_byte) if near.latency > 0 else _RAMP
    return Price(
        latency,
        near.step * scale,
        near.step_bytes,
        ramp * sqrt(latency * per_byte),
        per_byte,
        f"{near.source}, carried over from {row.nodes} x {row.ranks_per_node} by NCCL 2.30 rules",
    )


def _anchor(collective: str, fabric: DimFabric, profile: Profile) -> tuple[Curve, DimFabric] | None:
    """The curve of the same collective and network on the nearest fabric."""
    rows = [c for c in profile.curves if c.collective == collective and c.nodes > 1 and c.network == profile.network]
    rows = [row for row in rows if row.source == profile.source] or rows
    if not rows:
        return None

    def distance(row: Curve) -> tuple[float, int, int, str]:
        far = abs(log2(row.nodes / fabric.nodes)) + abs(log2(row.ranks_per_node / fabric.ranks_per_node))
        return (far, row.nodes, row.ranks_per_node, row.source)

    row = min(rows, key=distance)
    return row, DimFabric.uniform(row.nodes, row.ranks_per_node)


def _structure(collective: str, fabric: DimFabric, profile: Profile) -> float:
    """Microseconds per byte by structure: what is inside a node and what crosses, whichever is slower.

    Gather and scatter run as rings: every link carries ``(n - 1) / n`` of the buffer. All-reduce is taken as
    hierarchical (tree, NVLSTree): inside like a one-node all-reduce, between nodes ``2 (N - 1) / N`` through the NICs.
    """
    n, k = fabric.ranks, fabric.ranks_per_node
    nic = profile.net.nic_GBps * profile.net.efficiency * 1000.0
    if collective == "all-to-all":
        between = (n - k) / n / nic
    elif collective == "all-reduce":
        between = 2 * (n - k) / n / (k * nic)
    else:
        between = (n - 1) / n / (k * nic)
    if k == 1:
        return between
    alone = resolve(collective, DimFabric.uniform(1, k), profile).per_byte
    if collective == "all-to-all":
        inside = alone / _wire(collective, k) * (k - 1) / n
    elif collective == "all-reduce":
        inside = alone
    else:
        inside = alone / _wire(collective, k) * _wire(collective, n)
    return max(inside, between)
