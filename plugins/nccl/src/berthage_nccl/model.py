"""The cost model: prices from a profile, with the redistribution tables that belong to it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.collectives import CollectiveChoice, FabricPrices
from berthage_nccl.compute import compute_us, explain_product, products_us
from berthage_nccl.lattice import Move, PathTable
from berthage_nccl.mesh import DimFabric, Mesh, fabric_of
from berthage_nccl.moves import Lattice, Pricer
from berthage_nccl.on_demand import Redistribution
from berthage_nccl.placements import PARTIAL_MIN, PARTIAL_SUM, REPLICATE, shard
from berthage_nccl.products import ProductChoice
from berthage_nccl.profile import Profile, load_profile

__all__ = ["CostModel", "cost_model", "fabric"]

_TableKey = tuple[tuple[int, ...], tuple[DimFabric, ...], tuple[int, ...], int, tuple[int, ...]]


def fabric(mesh: Mesh, profile: Profile, overrides: Mapping[str, DimFabric] | None = None) -> tuple[DimFabric, ...]:
    """The fabric of every mesh dimension on a profile's nodes.

    Args:
        mesh: Any sizes.
        profile: Its GPUs a node, and fabrics that it fixes for the mesh dimensions it names.
        overrides: Fabrics by dimension name; they win over the profile's.

    Raises:
        InvalidProblemError: An override does not fit the mesh.
    """
    fixed = {name: value for name, value in profile.fabrics if name in mesh.names}
    return fabric_of(mesh, profile.node.gpus, fixed | dict(overrides or {}))


class CostModel:
    """Prices in microseconds; everything it remembers lives and dies with it.

    Args:
        profile: What the prices depend on.
        overrides: Fabrics by mesh dimension name that replace the derived ones.

    Attributes:
        profile: The profile.
        overrides: The overrides.
        transition_us: What a front end adds for any change of placement.
    """

    def __init__(self, profile: Profile, overrides: Mapping[str, DimFabric] | None = None) -> None:
        self.profile = profile
        self.overrides = dict(overrides or {})
        self.transition_us = 1.0
        self._profile_key = ""
        self._fabrics: dict[DimFabric, FabricPrices] = {}
        self._tables: dict[_TableKey, PathTable] = {}

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.profile.name

    @property
    def key(self) -> str:
        """A digest of everything that the prices depend on."""
        self._profile_key = self._profile_key or self.profile.key  # a profile is frozen, and its digest takes a while
        text = f"{self._profile_key} {sorted(self.overrides.items(), key=lambda item: item[0])} {self.transition_us}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def with_network(self, family: str) -> CostModel:
        """The same machine with another network family; raises UnknownNameError listing the known ones."""
        return CostModel(self.profile.with_network(family), self.overrides)

    def with_source(self, source: str) -> CostModel:
        """The same with curves of one source preferred; raises UnknownNameError listing the known ones."""
        return CostModel(self.profile.with_source(source), self.overrides)

    def fabric(self, mesh: Mesh) -> tuple[DimFabric, ...]:
        """The fabric of every dimension of a mesh, overrides included (those of other meshes' names are left out)."""
        return fabric(mesh, self.profile, {name: f for name, f in self.overrides.items() if name in mesh.names})

    def along(self, mesh: Mesh, dimension: int) -> CostModel:
        """The same machine along one dimension of a mesh: a mesh of one dimension of that size, called ``d``.

        What the dimension spans is what it spans within the whole mesh, so equal sizes across the nodes and within one
        are not priced alike. Equal fabrics give equal keys, whatever the dimensions are called.
        """
        found = CostModel(self.profile, {"d": self.fabric(mesh)[dimension]})
        found.transition_us = self.transition_us
        return found

    # -- collectives and compute ------------------------------------------------------------------

    def collective(self, kind: str, bytes: npt.ArrayLike, fabric: DimFabric) -> npt.NDArray[np.float64]:
        """Price of a collective.

        Args:
            kind: ``all-gather``, ``reduce-scatter``, ``all-reduce`` or ``all-to-all``.
            bytes: Sizes as nccl-tests counts them: the gathered buffer, the buffer before the scatter, or one
                rank's buffer for all-reduce and all-to-all.
            fabric: What the communicator spans.

        Returns:
            Microseconds, in the shape of ``bytes``.

        Raises:
            InvalidProblemError: Unknown kind, or a size that is negative or not finite.
        """
        return self._on(fabric).us(kind, bytes)

    def explain_collective(self, kind: str, bytes: float, fabric: DimFabric) -> CollectiveChoice:
        """The price of one collective with NCCL's algorithm and protocol; raises as :meth:`collective`."""
        return self._on(fabric).explain(kind, float(bytes))

    def compute(
        self,
        flops: npt.ArrayLike,
        bytes: npt.ArrayLike,
        dtype: str,
        matmul: bool | npt.NDArray[np.bool_] = False,
    ) -> npt.NDArray[np.float64]:
        """Price of operations on one device.

        Args:
            flops: Floating-point operations.
            bytes: Bytes read and written.
            dtype: Of the operands, e.g. ``bf16``.
            matmul: Whether it is a matrix product (tensor cores), one flag or one per entry; its shape is taken to
                fill the chip, so where shapes are known :meth:`products` is nearer the truth.

        Returns:
            Microseconds, launch included. An operation that does nothing (a view) is not for this function.

        Raises:
            InvalidProblemError: Unknown dtype, or one that the device has no matrix rate for.
        """
        return compute_us(self.profile, flops, bytes, dtype, matmul)

    def products(self, shapes: npt.ArrayLike, dtype: str) -> npt.NDArray[np.float64]:
        """Price of matrix products whose shapes are known.

        Args:
            shapes: ``[..., 4]``: batch, m, n, k of ``batch`` products (m, k) x (k, n).
            dtype: Of the operands; fp8 products are written as bf16.

        Returns:
            Microseconds, ``float64[...]``.

        Raises:
            InvalidProblemError: A size is below 1, or the dtype unknown or without a matrix rate on the device.
        """
        return products_us(self.profile, shapes, dtype)

    def gemm(self, batch: int, m: int, n: int, k: int, dtype: str) -> float:
        """Microseconds of ``batch`` products (m, k) x (k, n); raises as :meth:`products`."""
        return float(self.products((batch, m, n, k), dtype))

    def explain_gemm(self, batch: int, m: int, n: int, k: int, dtype: str) -> ProductChoice:
        """The price of one matrix product with its tiling, its parts and their source; raises as :meth:`products`."""
        return explain_product(self.profile, (batch, m, n, k), dtype)

    def copy(self, bytes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Microseconds of a local copy that reads and writes ``bytes`` in all; nothing costs nothing."""
        moved = np.asarray(bytes, dtype=np.float64)
        return np.where(moved > 0, self.compute(np.zeros(moved.shape), moved, "f32"), 0.0)

    def _on(self, fabric: DimFabric) -> FabricPrices:
        if fabric not in self._fabrics:
            self._fabrics[fabric] = FabricPrices(fabric, self.profile)
        return self._fabrics[fabric]

    # -- redistribution ---------------------------------------------------------------------------

    def redistribute(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        sources: npt.NDArray[np.int8],
        targets: npt.NDArray[np.int8],
        contiguous: bool = True,
    ) -> npt.NDArray[np.float64]:
        """Prices of changing placements: shortest paths over single-dimension moves.

        Args:
            mesh: The mesh.
            shape: The tensor's global shape.
            itemsize: Bytes of an element.
            sources: Placement codes, ``int8[S, D]``.
            targets: Placement codes, ``int8[T, D]``.
            contiguous: Whether the local tensors are contiguous to begin with; otherwise they are copied first.

        Returns:
            ``float64[S, T]`` microseconds; 0 where nothing changes. The triangle inequality holds exactly.

        Raises:
            InvalidProblemError: A code is no placement of this tensor on this mesh.
        """
        table, wide = self._table(mesh, shape, itemsize, sources, targets)
        rows, columns = table.lattice.index(sources[:, wide]), table.lattice.index(targets[:, wide])
        unique, inverse = np.unique(rows, return_inverse=True)
        return table.prices(unique, columns, contiguous)[inverse]

    def redistribution(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        sources: npt.NDArray[np.int8],
        targets: npt.NDArray[np.int8],
        contiguous: bool = True,
    ) -> Redistribution:
        """What :meth:`redistribute` says, on demand, `transition_us` included: an oracle for a lazy table.

        Raises:
            InvalidProblemError: A code is no placement of this tensor on this mesh.
        """
        table, wide = self._table(mesh, shape, itemsize, sources, targets)
        tensor = f"{self.key} {mesh.sizes} {tuple(shape)} {itemsize}"
        changed = (sources[:, None] != targets[None]).any(axis=2)
        places = sources[:, wide], targets[:, wide]
        return Redistribution(table, *places, changed, contiguous, self.transition_us, tensor)

    @property
    def runs(self) -> int:
        """Shortest-path runs made for redistributions so far: one for each tensor and placement it is moved from."""
        return sum(table.runs for table in self._tables.values())

    def path(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        source: npt.NDArray[np.int8],
        target: npt.NDArray[np.int8],
        contiguous: bool = True,
    ) -> tuple[Move, ...]:
        """The moves whose prices add up to what :meth:`redistribute` says, in order; raises as it does."""
        sources, targets = np.asarray(source)[None], np.asarray(target)[None]
        table, wide = self._table(mesh, shape, itemsize, sources, targets)
        start, end = (int(table.lattice.index(side[:, wide])[0]) for side in (sources, targets))
        found = [
            replace(
                move,
                mesh_dim=int(wide[move.mesh_dim]),
                before=_among(sources[0], wide, move.before),
                after=_among(sources[0], wide, move.after),
            )
            for move in table.path(start, end, contiguous)
        ]
        now = np.array(found[-1].after if found else sources[0])
        for dim in np.flatnonzero(now != targets[0]).tolist():  # of one rank: nothing moves
            after = np.where(np.arange(len(now)) == dim, targets[0], now)
            found.append(Move("relabel", dim, tuple(now.tolist()), tuple(after.tolist()), 0, 0.0))
            now = after
        return tuple(found)

    def _table(
        self,
        mesh: Mesh,
        shape: tuple[int, ...],
        itemsize: int,
        sources: npt.NDArray[np.int8],
        targets: npt.NDArray[np.int8],
    ) -> tuple[PathTable, npt.NDArray[np.int64]]:
        """The paths of a tensor, and the mesh dimensions that they are over: those of one rank change no price."""
        codes = _codes(mesh, shape, sources, targets)
        wide = np.array([dim for dim, size in enumerate(mesh.sizes) if size > 1] or [0], dtype=np.int64)
        everywhere = self.fabric(mesh)
        fabrics, sizes = tuple(everywhere[dim] for dim in wide), tuple(mesh.sizes[dim] for dim in wide)
        key = (sizes, fabrics, tuple(shape), int(itemsize), codes)
        if key not in self._tables:
            pricer = Pricer(lambda kind, dim, size: self._on(fabrics[dim]).us(kind, size), self.copy)
            self._tables[key] = PathTable(Lattice(sizes, tuple(shape), int(itemsize), codes), pricer)
        return self._tables[key], wide


def cost_model(name: str | os.PathLike[str]) -> CostModel:
    """A cost model from a shipped profile's name or a profile file; raises as :func:`load_profile`."""
    return CostModel(load_profile(name))


def _among(placement: npt.NDArray[np.int8], dims: npt.NDArray[np.int64], codes: tuple[int, ...]) -> tuple[int, ...]:
    """A placement with ``codes`` on some mesh dimensions."""
    found = placement.copy()
    found[dims] = codes
    return tuple(found.tolist())


def _codes(
    mesh: Mesh, shape: tuple[int, ...], sources: npt.NDArray[np.int8], targets: npt.NDArray[np.int8]
) -> tuple[int, ...]:
    """Replicate, the Partial kinds in use, and every shard of the tensor."""
    for side in (sources, targets):
        if side.ndim != 2 or side.shape[1] != len(mesh.sizes):
            raise InvalidProblemError(f"placements of shape {side.shape} for a mesh of {len(mesh.sizes)} dimensions")
    seen = np.zeros(128, dtype=np.bool_)
    for side in (sources, targets):
        if side.size and side.min() < 0:
            raise InvalidProblemError(f"{int(side.min())} is no placement code")
        seen[side.astype(np.int64)] = True
    shards = [shard(d) for d in range(len(shape))]
    wrong = set(np.flatnonzero(seen).tolist()) - {REPLICATE, *range(PARTIAL_SUM, PARTIAL_MIN + 1), *shards}
    if wrong:
        raise InvalidProblemError(f"code {min(wrong)} is no placement of a tensor of shape {tuple(shape)}")
    partials = [code for code in range(PARTIAL_SUM, PARTIAL_MIN + 1) if seen[code]]
    return (REPLICATE, *partials, *shards)
