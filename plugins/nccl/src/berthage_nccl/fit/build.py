"""A profile document from measurements and a base profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.fit.accuracy import errors, fold_of
from berthage_nccl.fit.collectives import fit_collectives, fit_networks
from berthage_nccl.fit.gemm import fit_gemms
from berthage_nccl.fit.measurements import Context, Measurement, read_gemms, read_measurements
from berthage_nccl.model import CostModel
from berthage_nccl.profile import load_profile, profile_from_document, read_document

__all__ = ["Fitted", "fit_profile", "fold_errors"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit made.

    Attributes:
        document: The profile's document.
        curves: The rows of collectives that were fitted.
        gemms: The rows of matrix products that were fitted.
    """

    document: dict[str, Any]
    curves: Sequence[Mapping[str, Any]]
    gemms: Sequence[Mapping[str, Any]]

    def by_source(self) -> dict[str, float]:
        """Held-out error from 1 MiB on by source, over its rows; only where it is known."""
        found: dict[str, list[tuple[int, float]]] = {}
        for row in self.curves:
            if row["held_out"] >= 0:
                found.setdefault(row["source"], []).append((row["large"], row["held_out"]))
        return {
            source: sum(many * error for many, error in rows) / sum(many for many, _ in rows)
            for source, rows in found.items()
            if sum(many for many, _ in rows) > 0
        }

    def report(self) -> dict[str, Any]:
        """Everything that was fitted, as JSON has it."""
        return {
            "format_version": 1,
            "profile": self.document["name"],
            "curves": [dict(row) for row in self.curves],
            "gemms": [dict(row) for row in self.gemms],
            "held_out_by_source": self.by_source(),
        }


def fit_profile(
    measurements: Sequence[Path],
    gemms: Path | None,
    base: str,
    name: str,
    context: Context | None = None,
    *,
    keep_curves: bool = False,
) -> Fitted:
    """Fit everything that was measured; the rest is the base profile's.

    Args:
        measurements: Files of collectives.
        gemms: A file of matrix products.
        base: Profile that gives device, node and networks.
        name: The new profile's name.
        context: What the files do not say.
        keep_curves: Whether the base's curves stay where nothing new was measured; otherwise they are dropped.

    Raises:
        InvalidProblemError: A file cannot be understood.
        UnknownNameError: The base is unknown.
    """
    rows = [row for path in measurements for row in read_measurements(path, context)]
    return _fitted(rows, gemms, base, name, context, keep_curves)


def fold_errors(
    measurements: Sequence[Measurement], base: str, folds: int, *, apart: bool = True
) -> npt.NDArray[np.float64]:
    """Errors of whole profiles, clamps included, on sizes that they were not fitted to.

    Args:
        measurements: All of them.
        base: As for :func:`fit_profile`.
        folds: Every source's sizes are dealt out in this many parts; each part is priced by a fit to the others.
        apart: Whether the source is a parameter; otherwise the sources are mixed as a profile does by default.

    Raises:
        InvalidProblemError: Fewer distinct sizes than folds, or fewer than two folds.
    """
    fold = fold_of(measurements, folds) if folds >= 2 else np.zeros(len(measurements), dtype=np.int64)
    if len(np.unique(fold)) < max(folds, 2):
        raise InvalidProblemError(f"{folds} folds need at least 2 parts and as many distinct sizes")
    found = np.empty(len(measurements))
    for part in range(folds):
        kept = [row for row, at in zip(measurements, fold, strict=True) if at != part]
        out = [row for row, at in zip(measurements, fold, strict=True) if at == part]
        fitted = _fitted(kept, None, base, f"fold {part}", None, False)
        found[fold == part] = errors(CostModel(profile_from_document(fitted.document, "fold")), out, apart=apart)
    return found


def _fitted(
    rows: Sequence[Measurement], gemms: Path | None, base: str, name: str, context: Context | None, keep_curves: bool
) -> Fitted:
    document = read_document(base)
    profile = load_profile(base)
    curves = fit_collectives(rows)
    products = fit_gemms(read_gemms(gemms), profile.device, _gemm_source(context, gemms)) if gemms is not None else []
    made = {key: value for key, value in document.items() if key != "extends"} | {
        "name": name,
        "description": document["description"]
        if name == document["name"]
        else f"Fitted from {len(rows)} measurements of collectives on {profile.device.name}",
        "networks": _networks(document["networks"], fit_networks(rows, profile), curves),
    }
    stored = [{key: value for key, value in row.items() if key != "large"} for row in curves]
    if rows:
        made["curves"] = stored + (_others(document.get("curves", []), stored) if keep_curves else [])
    if products:
        fitted = {row["dtype"] for row in products}
        made["gemms"] = products + [row for row in document.get("gemms", []) if row["dtype"] not in fitted]
    profile_from_document(made, name)
    return Fitted(made, curves, products)


def _gemm_source(context: Context | None, gemms: Path) -> str:
    return context.source if context is not None and context.source else gemms.stem


def _others(base: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (row["collective"], row["nodes"], row["ranks_per_node"], row["network"])

    measured = {key(row) for row in new}
    return [dict(row) for row in base if key(row) not in measured]


def _networks(
    base: Mapping[str, Mapping[str, Any]], learned: Mapping[str, Mapping[str, Any]], curves: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    found: dict[str, Any] = {family: dict(table) | dict(learned.get(family, {})) for family, table in base.items()}
    template = found.get("ib") or next(iter(found.values()))
    for family in sorted({row["network"] for row in curves if row["network"]} - set(found)):
        found[family] = dict(template) | {"extrapolated": True, "source": "NIC bandwidth as InfiniBand's; please check"}
    return found
