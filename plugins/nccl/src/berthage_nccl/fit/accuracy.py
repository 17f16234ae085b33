"""How far prices are from measurements: of a given model, or of one fitted without the sizes that it is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage_nccl.fit.measurements import Measurement
from berthage_nccl.mesh import DimFabric
from berthage_nccl.model import CostModel

__all__ = ["ErrorRow", "errors", "fold_of", "table"]

_BANDS = ((0.0, 2.0**20, "< 1 MiB"), (2.0**20, 2.0**26, "1-64 MiB"), (2.0**26, float("inf"), ">= 64 MiB"))
_LARGE = 2.0**20


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Mean absolute relative error over some measurements.

    Attributes:
        source: Who measured.
        collective: The collective; empty for all.
        fabric: ``nodes x ranks per node``; empty for all.
        network: Network family; empty inside a node.
        band: Sizes.
        rows: Measurements.
        error: Mean of ``|price / time - 1|``.
    """

    source: str
    collective: str
    fabric: str
    network: str
    band: str
    rows: int
    error: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def errors(model: CostModel, measurements: Sequence[Measurement], *, apart: bool = False) -> npt.NDArray[np.float64]:
    """``|price / time - 1|`` of every measurement, on its own network.

    Args:
        model: Whose prices.
        measurements: The times.
        apart: Whether the curves of the measurement's own source are preferred, where the profile has any; otherwise
            the sources are mixed as the profile does by default.
    """
    known = {curve.source for curve in model.profile.curves}
    models: dict[tuple[str, str], CostModel] = {}
    found = np.empty(len(measurements))
    for at, row in enumerate(measurements):
        key = (row.network, row.source if apart and row.source in known else "")
        if key not in models:
            chosen = model.with_network(key[0]) if key[0] else model
            models[key] = chosen.with_source(key[1]) if key[1] else chosen
        fabric = DimFabric.uniform(row.nodes, row.ranks_per_node)
        found[at] = abs(float(models[key].collective(row.collective, row.bytes, fabric)) / row.us - 1)
    return found


def fold_of(measurements: Sequence[Measurement], folds: int) -> npt.NDArray[np.int64]:
    """A fold for every measurement: the sizes of each source in order, dealt out in turn."""
    sources = np.array([row.source for row in measurements])
    sizes = np.array([row.bytes for row in measurements])
    found = np.zeros(len(measurements), dtype=np.int64)
    for source in np.unique(sources):
        mine = sources == source
        found[mine] = np.unique(sizes[mine], return_inverse=True)[1] % folds
    return found


def table(measurements: Sequence[Measurement], error: npt.NDArray[np.float64]) -> list[ErrorRow]:
    """Errors by source, collective, fabric, network and size; the last rows are whole sources from 1 MiB on."""
    groups: dict[tuple[str, str, str, str, str], list[float]] = {}
    for row, value in zip(measurements, error.tolist(), strict=True):
        band = next(name for low, high, name in _BANDS if low <= row.bytes < high)
        fabric = f"{row.nodes} x {row.ranks_per_node}"
        groups.setdefault((row.source, row.collective, fabric, row.network, band), []).append(value)
        if row.bytes >= _LARGE:
            groups.setdefault((row.source, "", "", "", ">= 1 MiB"), []).append(value)
    place = {name: at for at, (_, _, name) in enumerate(_BANDS)}
    ordered = sorted(groups, key=lambda key: (key[1] == "", *key[:4], place.get(key[4], 0)))
    return [ErrorRow(*key, len(groups[key]), float(np.mean(groups[key]))) for key in ordered]
