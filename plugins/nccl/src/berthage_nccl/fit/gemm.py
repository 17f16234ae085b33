"""Fitting matrix products: launch, two efficiencies and how sharp the roofline is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.compute import gemm_work
from berthage_nccl.fit.measurements import Products
from berthage_nccl.profile import Device

__all__ = ["fit_gemms"]

Floats = npt.NDArray[np.float64]
_FOLDS: Final = 4
_SHARPEST: Final = 20.0
_SMOOTH: Final = 0.05  # log error from which on a row counts linearly, not squared
_ROUNDS: Final = 400
_FINEST: Final = 1e-5


def fit_gemms(products: Sequence[Products], device: Device, source: str) -> list[dict[str, Any]]:
    """Rows of fitted products for a profile document, with residual and held-out errors.

    Efficiencies stay at most 1: measurements that claim more than the device's peak are not followed.
    """
    peaks = dict(device.peak_tflops)
    rows = []
    for table in products:
        if table.dtype not in peaks:
            continue
        arithmetic, memory = _ideal(table, peaks[table.dtype], device.hbm_GBps)
        everything = np.ones(len(table.us), dtype=np.bool_)
        found = _fit(arithmetic, memory, table.us, everything)
        errors = np.abs(_predict(found, arithmetic, memory) / table.us - 1)
        held = np.full(len(table.us), -1.0)
        if len(table.us) >= 4 * _FOLDS:
            fold = np.random.default_rng(0).permutation(len(table.us)) % _FOLDS
            for part in range(_FOLDS):
                out = fold == part
                less = _fit(arithmetic, memory, table.us, ~out)
                held[out] = np.abs(_predict(less, arithmetic[out], memory[out]) / table.us[out] - 1)
        rows.append(
            {
                "dtype": table.dtype,
                "launch_us": float(found[0]),
                "efficiency": float(found[1]),
                "memory_efficiency": float(found[2]),
                "sharpness": float(found[3]),
                "rows": len(table.us),
                "residual": float(errors.mean()),
                "held_out": float(held.mean()),
                "extrapolated": False,
                "source": source,
            }
        )
    return rows


def _ideal(table: Products, peak_tflops: float, hbm_GBps: float) -> tuple[Floats, Floats]:
    """Microseconds at peak arithmetic and at peak bandwidth."""
    work = np.array([gemm_work(b, m, n, k, table.dtype) for b, m, n, k in table.shapes.tolist()])
    return work[:, 0] / (peak_tflops * 1e6), work[:, 1] / (hbm_GBps * 1000.0)


def _predict(found: Floats, arithmetic: Floats, memory: Floats) -> Floats:
    launch, efficiency, memory_efficiency, sharpness = found
    x, y = arithmetic / efficiency, memory / memory_efficiency
    larger, smaller = np.maximum(x, y), np.minimum(x, y)
    return np.asarray(launch + larger * (1 + (smaller / larger) ** sharpness) ** (1 / sharpness), dtype=np.float64)


def _fit(arithmetic: Floats, memory: Floats, us: Floats, keep: npt.NDArray[np.bool_]) -> Floats:
    """Four bounded numbers by pattern search (Hooke and Jeeves) from several starts; no library needed."""
    x, y, t = arithmetic[keep], memory[keep], us[keep]
    least = float(t.min())
    bounds = (np.array([0.0, 0.05, 0.05, 1.0]), np.array([2 * least, 1.0, 1.0, _SHARPEST]))
    starts = [np.array([0.95 * least, 0.75, 0.85, sharpness]) for sharpness in (1.5, 3.0, 8.0)]
    found = [_pattern_search(start, bounds, x, y, t) for start in starts]
    return min(found, key=lambda at: _loss(at, x, y, t))


def _pattern_search(start: Floats, bounds: tuple[Floats, Floats], x: Floats, y: Floats, t: Floats) -> Floats:
    """Steps along the axes, then once more along what they achieved together; the steps shrink when nothing helps."""
    width = np.array([0.1 * float(start[0]), 0.1, 0.1, 1.0])
    base, best = start, _loss(start, x, y, t)
    for _ in range(_ROUNDS):
        at, value = _explore(base, best, width, bounds, x, y, t)
        if value >= best:
            width = width / 2
            if float(width.max()) < _FINEST:
                break
            continue
        while value < best:
            ahead = np.clip(2 * at - base, *bounds)
            base, best = at, value
            at, value = _explore(ahead, _loss(ahead, x, y, t), width, bounds, x, y, t)
    return base


def _explore(
    at: Floats, value: float, width: Floats, bounds: tuple[Floats, Floats], x: Floats, y: Floats, t: Floats
) -> tuple[Floats, float]:
    for index in range(len(at)):
        for sign in (1.0, -1.0):
            trial = at.copy()
            trial[index] += sign * width[index]
            trial = np.clip(trial, *bounds)
            loss = _loss(trial, x, y, t)
            if loss < value - 1e-12:
                at, value = trial, loss
                break
    return at, value


def _loss(found: Floats, arithmetic: Floats, memory: Floats, us: Floats) -> float:
    error = np.log(_predict(found, arithmetic, memory) / us)
    return float((np.sqrt(1 + (error / _SMOOTH) ** 2) - 1).sum())
