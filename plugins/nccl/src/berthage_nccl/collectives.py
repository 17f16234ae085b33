"""Prices of collectives: the resolved curves, clamped so that what must hold holds exactly.

With F the wire floor and T the curves, in this order: ``T = max(T, F)``; ``T_AR = max(T_AR, T_RS, T_AG)`` where the
all-reduce was not measured on this fabric; ``AR = min(T_AR, 1.1 (T_RS + T_AG))``; ``RS = min(T_RS, AR)``;
``AG = min(T_AG, AR)``; and an all-to-all of S bytes a rank is at most 0.995 of an all-gather of the same tensor (n S
bytes) from 1 MiB a rank on. Minima and maxima of increasing functions increase, and every floor on the left of a
minimum is below that on the right, so none of these undoes another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.curves import Price, resolve
from berthage_nccl.mesh import DimFabric
from berthage_nccl.physics import floor_per_byte
from berthage_nccl.profile import COLLECTIVES, Profile
from berthage_nccl.rules import choose

__all__ = ["RESHARD_BYTES", "RESHARD_SHARE", "CollectiveChoice", "FabricPrices"]

RESHARD_BYTES: Final = float(2**20)
RESHARD_SHARE: Final = 0.995
_COMPOSED: Final = 1.1


@dataclass(frozen=True, slots=True)
class CollectiveChoice:
    """How a collective would run and what its price is made of.

    Attributes:
        algorithm: NCCL's algorithm by its own rules, ``P2P`` for all-to-all, ``none`` for nothing to do.
        protocol: ``LL``, ``LL128``, ``Simple``; empty for nothing to do.
        latency_us: The part that is not proportional to bytes.
        bandwidth_us: The part that is.
        total_us: Their sum, the price.
        source: Where the curve is from, and what clamped it.
    """

    algorithm: str
    protocol: str
    latency_us: float
    bandwidth_us: float
    total_us: float
    source: str


class FabricPrices:
    """The prices of all collectives on one fabric.

    Args:
        fabric: What the communicator spans.
        profile: The machine.
    """

    def __init__(self, fabric: DimFabric, profile: Profile) -> None:
        self.fabric = fabric
        self.profile = profile
        many = COLLECTIVES if fabric.ranks > 1 else ()
        self._curves: Mapping[str, Price] = {kind: resolve(kind, fabric, profile) for kind in many}
        self._floors: Mapping[str, float] = {kind: floor_per_byte(kind, fabric, profile) for kind in many}

    def us(self, collective: str, sizes: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Prices in microseconds.

        Args:
            collective: One of the four.
            sizes: Bytes as nccl-tests counts them: the larger side for gather and scatter, one rank's buffer for
                all-reduce and all-to-all. Nothing costs nothing.

        Raises:
            InvalidProblemError: Unknown collective, or a size that is negative or not finite.
        """
        if collective not in COLLECTIVES:
            raise InvalidProblemError(f"unknown collective {collective!r}; known: {', '.join(COLLECTIVES)}")
        size = np.asarray(sizes, dtype=np.float64)
        if not np.all(np.isfinite(size)) or np.any(size < 0):
            raise InvalidProblemError("sizes are finite numbers of bytes, at least 0")
        if self.fabric.ranks == 1:
            return np.zeros(size.shape)
        return np.where(size > 0, self._clamped(collective, size), 0.0)

    def _clamped(self, collective: str, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if collective == "all-to-all":
            whole = self.fabric.ranks * np.maximum(size, RESHARD_BYTES)
            return np.minimum(self._floored(collective, size), RESHARD_SHARE * self._clamped("all-gather", whole))
        scatter, gather = self._floored("reduce-scatter", size), self._floored("all-gather", size)
        reduced = self._floored("all-reduce", size)
        if not self._curves["all-reduce"].measured:
            reduced = np.maximum(reduced, np.maximum(scatter, gather))
        reduced = np.minimum(reduced, _COMPOSED * (scatter + gather))
        if collective == "all-reduce":
            return reduced
        return np.minimum(scatter if collective == "reduce-scatter" else gather, reduced)

    def _floored(self, collective: str, size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.maximum(self._curves[collective].us(size), self._floors[collective] * size)

    def explain(self, collective: str, size: float) -> CollectiveChoice:
        """The price of one collective and how NCCL would run it; raises as :meth:`us`."""
        total = float(self.us(collective, size))
        if total == 0.0:
            return CollectiveChoice("none", "", 0.0, 0.0, 0.0, "one rank or no bytes: nothing to do")
        chosen = choose(collective, float(size), self.fabric, self.profile)
        curve, floor = self._curves[collective], self._floors[collective] * size
        bandwidth = min(total, max(curve.per_byte * size, floor))
        raw = float(curve.us(np.array(float(size))))
        source = curve.source
        if total > raw:
            source += "; raised to the wire floor" if total <= floor else "; raised to what its parts cost"
        elif total < raw:
            source += "; lowered to keep the order between collectives"
        return CollectiveChoice(chosen.algorithm, chosen.protocol, total - bandwidth, bandwidth, total, source)
