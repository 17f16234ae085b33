"""Fitting matrix products: which terms the measurements call for, and their constants.

Errors are judged on whole groups of shapes left out of the fit (batch, and the halves of m, n and k), since a model
that has seen a shape's neighbours need not understand it. A term that not every dtype has is used where it lowers
that error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.compute import dtype_bytes, output_bytes
from berthage_nccl.fit.measurements import Products
from berthage_nccl.fit.simplex import minimise
from berthage_nccl.products import Tiling, product_us, tile
from berthage_nccl.profile import Device, GemmFit

__all__ = ["fit_gemms", "groups_of"]

Floats = npt.NDArray[np.float64]
_SMOOTH: Final = 0.05  # log error from which on a row counts linearly, not squared
_FEWEST_GROUPS: Final = 4
_EVALUATIONS: Final = 4000
_AGAIN: Final = 600  # where a fit to almost the same rows is the start
_ROWS_A_CONSTANT: Final = 4

# Start, least and greatest of every constant; launch is in units of the fastest product, small_depth a power of two.
_BOUNDS: Final = MappingProxyType(
    {
        "launch_us": (0.9, 0.1, 1.2),
        "efficiency": (0.9, 0.05, 2.0),
        "memory_efficiency": (0.9, 0.05, 1.0),
        "sharpness": (3.0, 1.0, 20.0),
        "wave_us": (0.5, 0.0, 5.0),
        "cache_speed": (4.0, 0.5, 30.0),
        "split_us": (1.5, 0.0, 10.0),
        "resident": (0.8, 0.0, 1.0),
        "right_passes": (1.0, 0.0, 4.0),
        "small_us": (3.0, 0.0, 10.0),
        "small_depth": (36.0, 20.0, 50.0),
    }
)
_ROOFLINE: Final = ("launch_us", "efficiency", "memory_efficiency", "sharpness")
_ALWAYS: Final = (*_ROOFLINE, "wave_us", "cache_speed", "split_us")
_DEFAULTS: Final = MappingProxyType(
    {field.name: field.default for field in dataclasses.fields(GemmFit) if field.default is not dataclasses.MISSING}
    | {"small_depth": 0.0}
)
# Further terms, and the share of the error on groups left out below which a term must bring it to be used. The slower
# kernel must bring more than the others: with it, a larger product can cost less.
_TERMS: Final = ((("resident",), 0.97), (("right_passes",), 0.97), (("small_us", "small_depth"), 0.9))


@dataclasses.dataclass(frozen=True, slots=True)
class _Table:
    """Distinct shapes of one dtype with their median times."""

    dtype: str
    peak_tflops: float
    device: Device
    shapes: npt.NDArray[np.int64]
    us: Floats

    def take(self, rows: npt.NDArray[np.bool_]) -> _Table:
        return dataclasses.replace(self, shapes=self.shapes[rows], us=self.us[rows])

    def work(self) -> Tiling:
        return tile(self.shapes, dtype_bytes(self.dtype), output_bytes(self.dtype), self.device.sms)


def fit_gemms(products: Sequence[Products], device: Device, source: str) -> list[dict[str, Any]]:
    """Rows of fitted products for a profile document, with residual and held-out errors."""
    peaks = dict(device.peak_tflops)
    rows = []
    for table in products:
        if table.dtype not in peaks:
            continue
        shapes, inverse = np.unique(table.shapes, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        medians = np.array([np.median(table.us[inverse == at]) for at in range(len(shapes))])
        distinct = _Table(table.dtype, peaks[table.dtype], device, shapes, medians)
        found, held = _choose(distinct)
        predicted = _predict(found, distinct)
        rows.append(
            {key: value for key, value in dataclasses.asdict(found).items() if key in _BOUNDS or key == "dtype"}
            | {
                "rows": len(table.us),
                "residual": float(np.abs(predicted[inverse] / table.us - 1).mean()),
                "held_out": -1.0 if held is None else float(np.abs(held[inverse] / table.us - 1).mean()),
                "extrapolated": False,
                "source": source,
            }
        )
    return rows


def groups_of(shapes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A group for every shape ``[R, 4]``: equal batch, and m, n and k in the same halves of their ranges."""
    logs = np.log2(shapes[:, 1:].astype(np.float64))
    upper = (logs > (logs.min(axis=0) + logs.max(axis=0)) / 2).astype(np.int64)
    batch = np.unique(shapes[:, 0], return_inverse=True)[1].ravel()
    return np.asarray(np.unique(batch * 8 + upper @ np.array([4, 2, 1]), return_inverse=True)[1].ravel())


def _choose(table: _Table) -> tuple[GemmFit, Floats | None]:
    """The fit, and what fits without a shape's group say of it; None where there are too few groups to tell."""
    used: tuple[str, ...] = _ALWAYS if len(table.us) >= _ROWS_A_CONSTANT * len(_ALWAYS) else _ROOFLINE
    found = _fit(table, used)
    groups = groups_of(table.shapes)
    if groups.max() + 1 < _FEWEST_GROUPS:
        return found, None
    held = _held_out(table, groups, used, found)
    error = float(np.abs(held / table.us - 1).mean())
    left = list(_TERMS)
    while left:
        trials = []
        for term, share in left:
            names = (*used, *term)
            wider = _fit(table, names, found)
            out = _held_out(table, groups, names, wider)
            now = float(np.abs(out / table.us - 1).mean())
            if now < share * error:
                trials.append((now, (term, share), wider, out))
        if not trials:
            break
        error, chosen, found, held = min(trials, key=lambda trial: trial[0])
        used = (*used, *chosen[0])
        left.remove(chosen)
    return found, held


def _held_out(table: _Table, groups: npt.NDArray[np.int64], names: tuple[str, ...], near: GemmFit) -> Floats:
    """Microseconds by fits without each group in turn."""
    us = np.empty(len(table.us))
    for group in range(int(groups.max()) + 1):
        out = groups == group
        us[out] = _predict(_fit(table.take(~out), names, near, _AGAIN), table.take(out))
    return us


def _predict(fit: GemmFit, table: _Table) -> Floats:
    return product_us(fit, table.peak_tflops, table.device, table.work())


def _fit(
    table: _Table, names: tuple[str, ...], near: GemmFit | None = None, evaluations: int = _EVALUATIONS
) -> GemmFit:
    """Fit the named constants; the others have their defaults. ``near`` is where the search starts."""
    least = float(table.us.min())
    unit = np.array([least if name == "launch_us" else 1.0 for name in names])
    start, low, high = (unit * np.array([_BOUNDS[name][at] for name in names]) for at in range(3))
    if near is not None:
        known = dataclasses.asdict(near) | {"small_depth": np.log2(near.small_depth)}
        have = [
            known[name] if known[name] != _DEFAULTS.get(name) else at for name, at in zip(names, start, strict=True)
        ]
        start = np.clip(np.array(have), low, high)
    work = table.work()
    logs = np.log(table.us)

    def loss(at: Floats) -> float:
        error = np.log(product_us(_as_fit(table.dtype, names, at), table.peak_tflops, table.device, work)) - logs
        return float((np.sqrt(1 + (error / _SMOOTH) ** 2) - 1).mean() * _SMOOTH)

    found, _ = minimise(loss, start, (low, high), evaluations)
    return _as_fit(table.dtype, names, found)


def _as_fit(dtype: str, names: tuple[str, ...], at: Floats) -> GemmFit:
    given = dict(zip(names, at.tolist(), strict=True))
    if "small_depth" in given:
        given["small_depth"] = 2.0 ** given["small_depth"]
    return GemmFit(dtype=dtype, rows=0, residual=0.0, held_out=-1.0, extrapolated=False, source="", **given)
