"""A profile: the device, the node, the networks, and every fitted number with its source. A value and a file."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib.resources
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from berthage import InvalidProblemError, UnknownNameError
from berthage_nccl.inherit import inherit
from berthage_nccl.mesh import DimFabric
from berthage_nccl.reading import Reader

__all__ = [
    "COLLECTIVES",
    "Curve",
    "Device",
    "GemmFit",
    "MemoryFit",
    "Network",
    "Node",
    "Profile",
    "known_profiles",
    "load_profile",
    "profile_from_document",
    "read_document",
]

COLLECTIVES: Final = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all")
_FORMAT: Final = "berthage-nccl-profile"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator.

    Attributes:
        name: As people say it.
        arch: ``ampere``, ``hopper`` or ``blackwell``: the column of NCCL's tables.
        sms: Streaming multiprocessors.
        memory_bytes: Device memory.
        hbm_GBps: Peak memory bandwidth.
        vector_tflops: Peak of f32 outside the tensor cores, for what is no matrix product.
        peak_tflops: Peak dense matrix rate by dtype (``f32`` is what matrix products in float32 use: TF32).
        source: Where the figures are from.
        cache_bytes: Level-2 cache.
        boost: The highest clock over the one that the peaks are stated for: no product is faster than that.
    """

    name: str
    arch: str
    sms: int
    memory_bytes: int
    hbm_GBps: float
    vector_tflops: float
    peak_tflops: tuple[tuple[str, float], ...]
    source: str
    cache_bytes: int = 0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    """What connects the devices of one node, and what NCCL's topology search finds in it.

    Attributes:
        gpus: Devices in a node.
        nvlink_GBps: A device's NVLink bandwidth, one direction.
        channels: NCCL channels of a node-wide communicator.
        channel_GBps: Bandwidth of one channel inside the node (NCCL's ``bwIntra``).
        nvls: Whether the switch reduces (NVLink SHARP).
        collnet: Whether the network reduces (SHARP).
        cpu: ``intel`` or ``amd``.
        source: Where the figures are from.
    """

    gpus: int
    nvlink_GBps: float
    channels: int
    channel_GBps: float
    nvls: bool
    collnet: bool
    cpu: str
    source: str


@dataclass(frozen=True, slots=True)
class Network:
    """A network family between nodes.

    Attributes:
        family: ``ib``, ``efa``, ``tcpxo``, ``roce`` or a name of the user's.
        nic_GBps: NIC bandwidth a device has, one direction.
        efficiency: Share of it that a large collective gets where no curve was fitted.
        latency_scale: NCCL's own latency is multiplied by this where no curve was fitted.
        extra_latency_us: Added to every collective that crosses nodes.
        ramp: ``c / sqrt(a b)`` of the curves where none was fitted: how slowly bandwidth is reached.
        extrapolated: Whether anything of it is an estimate.
        source: Where the figures are from.
    """

    family: str
    nic_GBps: float
    efficiency: float
    latency_scale: float
    extra_latency_us: float
    ramp: float
    extrapolated: bool
    source: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted time of one collective on one uniform fabric.

    ``us(S) = latency_us + step_us * S / (S + step_bytes) + sqrt_us * sqrt(S) + S / (1000 * bandwidth_GBps)``,
    all coefficients at least 0, so it never decreases. S is what nccl-tests calls size.

    Attributes:
        collective: One of :data:`COLLECTIVES`.
        nodes: Nodes.
        ranks_per_node: Ranks on each.
        network: Network family, empty on one node.
        latency_us: Time of the smallest message.
        step_us: Rise between small and middle sizes, where the protocol changes.
        step_bytes: Size at which half of the rise is reached.
        sqrt_us: Microseconds per square root of a byte.
        bandwidth_GBps: Slope at large sizes.
        rows: Measurements it was fitted to; its weight where several sources have the same fabric.
        residual: Mean absolute relative error on those from 1 MiB on.
        held_out: The same on sizes left out of the fit, each in turn; -1 when unknown.
        extrapolated: Whether it was carried over from another device.
        source: Who measured.
    """

    collective: str
    nodes: int
    ranks_per_node: int
    network: str
    latency_us: float
    step_us: float
    step_bytes: float
    sqrt_us: float
    bandwidth_GBps: float
    rows: int
    residual: float
    held_out: float
    extrapolated: bool
    source: str


@dataclass(frozen=True, slots=True)
class GemmFit:
    """The fitted time of matrix products of one dtype; :mod:`berthage_nccl.products` says how the numbers are used.

    Attributes:
        dtype: Key of the device's peaks.
        launch_us: Launch and tail.
        efficiency: Share of peak of a tile's inner loop. Above 1 the measurements claimed more than the chip can do;
            prices stay at or above the peak at the highest clock.
        memory_efficiency: Share of HBM bandwidth that is reached, at most 1.
        sharpness: p; infinity would be a hard roofline.
        rows: Measurements it was fitted to.
        residual: Mean absolute relative error on them.
        held_out: The same on groups of shapes left out of the fit; -1 when unknown.
        extrapolated: Whether it was carried over from another device or dtype.
        source: Who measured.
        wave_us: Filling and draining the pipeline, once a wave of tiles.
        cache_speed: Bandwidth at which tiles read their operands, in multiples of the memory's.
        split_us: Adding up partial sums where K is cut.
        resident: Share of the cache that keeps operands and results between kernels.
        right_passes: Further passes over the right operand.
        small_us: What the slower kernel of small products would cost more at the depth where it gives way.
        small_depth: That depth, in ``b m n k^2``.
    """

    dtype: str
    launch_us: float
    efficiency: float
    memory_efficiency: float
    sharpness: float
    rows: int
    residual: float
    held_out: float
    extrapolated: bool
    source: str
    wave_us: float = 0.0
    cache_speed: float = 10.0
    split_us: float = 0.0
    resident: float = 0.0
    right_passes: float = 0.0
    small_us: float = 0.0
    small_depth: float = 1.0


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What an operation limited by memory costs: ``launch_us + bytes / (efficiency * hbm)``.

    Attributes:
        launch_us: Launch and tail.
        efficiency: Share of HBM bandwidth that is reached.
        extrapolated: Whether anything of it is an estimate.
        source: Where the figures are from.
    """

    launch_us: float
    efficiency: float
    extrapolated: bool
    source: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything that prices depend on.

    Attributes:
        name: The profile's name.
        description: One line.
        device: The device.
        node: The node.
        network: The network family in use.
        networks: All families that the profile knows.
        curves: Fitted collectives.
        gemms: Fitted matrix products.
        memory: Operations limited by memory.
        source: The only source of curves in use where it has any; empty mixes them by their rows.
        fabrics: Fabrics by mesh dimension name that replace the derived ones.
    """

    name: str
    description: str
    device: Device
    node: Node
    network: str
    networks: tuple[Network, ...]
    curves: tuple[Curve, ...]
    gemms: tuple[GemmFit, ...]
    memory: MemoryFit
    source: str = ""
    fabrics: tuple[tuple[str, DimFabric], ...] = ()

    def __post_init__(self) -> None:
        self.net  # noqa: B018  # an unknown family is told at once
        if self.source and self.source not in {curve.source for curve in self.curves}:
            known = ", ".join(sorted({curve.source for curve in self.curves})) or "none"
            raise UnknownNameError(f"profile {self.name}: no curve is from {self.source!r}; sources: {known}")

    @property
    def key(self) -> str:
        """A digest of all content."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def net(self) -> Network:
        """The network in use.

        Raises:
            UnknownNameError: The profile does not know the family.
        """
        for network in self.networks:
            if network.family == self.network:
                return network
        known = ", ".join(network.family for network in self.networks)
        raise UnknownNameError(f"profile {self.name}: unknown network family {self.network!r}; it knows {known}")

    def with_network(self, family: str) -> Profile:
        """The same with another network family; raises as :attr:`net`."""
        return dataclasses.replace(self, network=family)

    def with_source(self, source: str) -> Profile:
        """The same with curves of one source preferred.

        Raises:
            UnknownNameError: No curve has that source.
        """
        return dataclasses.replace(self, source=source)


def known_profiles() -> tuple[str, ...]:
    """The names of the shipped profiles."""
    folder = importlib.resources.files("berthage_nccl").joinpath("profiles")
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")))


def load_profile(name: str | os.PathLike[str]) -> Profile:
    """A shipped profile by name, or one from a ``.toml`` or ``.json`` file.

    Raises:
        UnknownNameError: There is no such profile; the message lists the known ones.
        InvalidProblemError: The file is broken; the message says where.
    """
    return profile_from_document(_document(name), str(name))


def profile_from_document(document: Mapping[str, Any], where: str) -> Profile:
    """A profile from what a file holds; ``extends`` names the profile that fills in what is missing.

    Raises:
        UnknownNameError: ``extends`` names no profile.
        InvalidProblemError: Something is missing, superfluous or ill-typed.
    """
    return _read(_whole(document, where, ()), where)


def read_document(name: str | os.PathLike[str]) -> Mapping[str, Any]:
    """What a profile holds with everything that it inherits; raises as :func:`load_profile`."""
    return _whole(_document(name), str(name), ())


def _whole(document: Mapping[str, Any], where: str, seen: tuple[str, ...]) -> Mapping[str, Any]:
    """The document with everything that it inherits."""
    base = document.get("extends")
    if base is None:
        return document
    if not isinstance(base, str) or base in seen:
        raise InvalidProblemError(f"{where}: extends must name another profile, not {base!r}")
    return inherit(_whole(_document(base), base, (*seen, base)), document, base)


def _document(name: str | os.PathLike[str]) -> Mapping[str, Any]:
    """What a profile file holds."""
    shipped = known_profiles()
    if isinstance(name, str) and name in shipped:
        text = importlib.resources.files("berthage_nccl").joinpath("profiles", f"{name}.toml").read_text("utf-8")
        return tomllib.loads(text)
    path = Path(name)
    if path.suffix.lower() not in {".toml", ".json"} and not path.is_file():
        near = difflib.get_close_matches(str(name), shipped, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise UnknownNameError(
            f"unknown device profile {str(name)!r}{hint}; known: {', '.join(shipped)}; or give a .toml or .json file"
        )
    try:
        text = path.read_text("utf-8")
        document: Any = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidProblemError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidProblemError(f"{path}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise InvalidProblemError(f"{path}: a profile begins with format = {_FORMAT!r}")
    return document


def _read(document: Mapping[str, Any], where: str) -> Profile:
    top = Reader(document, where)
    top.ignore("format", "extends")
    device = top.table("device")
    networks = top.table("networks")
    fabrics = top.table("fabrics", required=False)
    profile = Profile(
        name=top.text("name"),
        description=top.text("description"),
        device=Device(
            peak_tflops=tuple(sorted(device.table("peak_tflops").numbers().items())),
            **device.fields(Device, skip=("peak_tflops",)),
        ),
        node=Node(**top.table("node").fields(Node)),
        network=top.text("network"),
        networks=tuple(
            Network(family=family, **networks.table(family).fields(Network, skip=("family",)))
            for family in sorted(networks.keys())
        ),
        curves=tuple(Curve(**row.fields(Curve)) for row in top.rows("curves")),
        gemms=tuple(GemmFit(**row.fields(GemmFit)) for row in top.rows("gemms")),
        memory=MemoryFit(**top.table("memory").fields(MemoryFit)),
        source=top.text("source", default=""),
        fabrics=tuple((name, DimFabric(**fabrics.table(name).fields(DimFabric))) for name in sorted(fabrics.keys())),
    )
    for table in (device, networks, fabrics, top):
        table.done()
    _check(profile, where)
    return profile


def _named(prefix: str, table: object, names: tuple[str, ...]) -> dict[str, float]:
    return {prefix + name: getattr(table, name) for name in names}


def _not_negative(where: str, prefix: str, table: object, names: tuple[str, ...]) -> None:
    for name, value in _named(prefix, table, names).items():
        if value < 0:
            raise InvalidProblemError(f"{where}: {name} must be at least 0, not {value}")


def _check(profile: Profile, where: str) -> None:
    """Numbers that must be positive are, and names are among the known ones."""
    positive = {
        "device.hbm_GBps": profile.device.hbm_GBps,
        "device.vector_tflops": profile.device.vector_tflops,
        "device.memory_bytes": profile.device.memory_bytes,
        "device.sms": profile.device.sms,
        "device.boost": profile.device.boost,
        "node.gpus": profile.node.gpus,
        "node.nvlink_GBps": profile.node.nvlink_GBps,
        "node.channels": profile.node.channels,
        "node.channel_GBps": profile.node.channel_GBps,
        "memory.efficiency": profile.memory.efficiency,
    }
    positive |= {f"device.peak_tflops.{dtype}": peak for dtype, peak in profile.device.peak_tflops}
    for net in profile.networks:
        positive |= _named(f"networks.{net.family}.", net, ("nic_GBps", "efficiency", "latency_scale"))
    for fit in profile.gemms:
        positive |= _named(
            f"gemms.{fit.dtype}.", fit, ("efficiency", "memory_efficiency", "sharpness", "cache_speed", "small_depth")
        )
        _not_negative(where, f"gemms.{fit.dtype}.", fit, ("launch_us", "wave_us", "split_us", "resident"))
        _not_negative(where, f"gemms.{fit.dtype}.", fit, ("right_passes", "small_us"))
    for curve in profile.curves:
        here = f"curve {curve.collective} {curve.nodes}x{curve.ranks_per_node}"
        positive |= _named(f"{here}: ", curve, ("bandwidth_GBps", "step_bytes", "nodes", "ranks_per_node"))
        if curve.collective not in COLLECTIVES:
            raise InvalidProblemError(f"{where}: {here}: the collectives are {', '.join(COLLECTIVES)}")
        if min(curve.latency_us, curve.step_us, curve.sqrt_us) < 0:
            raise InvalidProblemError(f"{where}: {here}: a negative coefficient would make the price fall with size")
    for name, value in positive.items():
        if not value > 0:
            raise InvalidProblemError(f"{where}: {name} must be above 0, not {value}")
    if profile.device.arch not in ("ampere", "hopper", "blackwell"):
        raise InvalidProblemError(f"{where}: device.arch is ampere, hopper or blackwell, not {profile.device.arch!r}")
