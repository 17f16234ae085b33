"""The time of matrix products from their shapes: tiles that fill the chip wave after wave, bytes, and the chip's peak.

``us = launch + ((min over tilings of cores)^p + memory^p)^(1/p) + right + small``, and never less than the FLOPs at the
chip's highest clock. The parts, in the words of :class:`berthage_nccl.profile.GemmFit`:

* *cores*: a tiling cuts the result into tiles and K into 1, 2, 4 or 8 parts; ``ceil(tiles * parts / sms)`` waves run
  one after the other, each as long as one tile at ``efficiency`` of its share of the peak and ``wave_us`` to fill and
  drain the pipeline. All tiles together read their operands through the cache, at ``cache_speed`` times the memory's
  bandwidth. More than one part adds ``split_us`` and the partial sums through the cache. The library chooses well, so
  the cheapest tiling counts.
* *memory*: operands read once and the result written once, except what stays in the cache between kernels.
* *right*: ``right_passes`` more passes over the right operand (fp8 tensor cores take it transposed only).
* *small*: products below a depth ``d = b m n k^2`` are left to a slower kernel, whose time grows with ``k sqrt(b m n)``
  (fp8): ``small_us sqrt(x) / (1 + x^4)`` with ``x = d / small_depth``.

Everything but *small* rises with every one of the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.profile import Device, GemmFit

__all__ = ["ProductChoice", "Tiling", "explain", "join", "memory_us", "product_us", "tile"]

Floats = npt.NDArray[np.float64]

# The tiles of the libraries' kernels on recent chips, rows x columns of the result, and parts that K is cut into.
_TILES: Final = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
_PARTS: Final = (1, 2, 4, 8)
_SHORTEST: Final = 256.0  # no part of K is shorter: the pipeline would be all fill and drain
_SUM_BYTES: Final = 4  # partial sums are float32
_CACHE_SHARE: Final = 0.4  # what a byte from the cache costs in the memory term: L2 is 2.5 times as fast as HBM
_STEEP: Final = 4.0  # the slower kernel is gone at twice the depth: libraries decide by rules, not gradually


@dataclass(frozen=True, slots=True)
class ProductChoice:
    """How a matrix product would run and what its price is made of.

    Attributes:
        rows: Rows of the cheapest tile.
        columns: Its columns.
        parts: Into how many K is cut.
        waves: Waves of tiles.
        launch_us: Launch and tail.
        cores_us: What the cores take.
        memory_us: What the memory takes at the same time.
        total_us: The price; besides the above it has further passes, a slower kernel, and the chip's peak as its floor.
        source: Where the constants are from.
    """

    rows: int
    columns: int
    parts: int
    waves: int
    launch_us: float
    cores_us: float
    memory_us: float
    total_us: float
    source: str


@dataclass(frozen=True, slots=True)
class Tiling:
    """Products of given shapes under every tiling: all that does not depend on what is fitted.

    Attributes:
        waves: ``float64[C, ...]``: waves of each of C tilings.
        tile_flops: ``float64[C, 1...]`` or ``[C, ...]``: of one tile over one part of K.
        traffic: ``float64[C, ...]``: bytes that all tiles read through the cache.
        partial: ``float64[C, ...]``: bytes of partial sums, written and read; 0 where K is whole.
        parts: ``bool[C, 1...]``: whether K is cut.
        flops: ``float64[...]``.
        bytes: ``float64[...]``: each operand and the result once.
        right: ``float64[...]``: bytes of the right operands.
        depth: ``float64[...]``: ``b m n k^2``, by which the slower kernel is chosen.
    """

    waves: Floats
    tile_flops: Floats
    traffic: Floats
    partial: Floats
    parts: npt.NDArray[np.bool_]
    flops: Floats
    bytes: Floats
    right: Floats
    depth: Floats


def tile(shapes: npt.ArrayLike, size: int, out: int, sms: int) -> Tiling:
    """Cut products into tiles.

    Args:
        shapes: ``[..., 4]``: batch, m, n, k.
        size: Bytes of an operand's element.
        out: Bytes of a result's element.
        sms: Streaming multiprocessors.
    """
    b, m, n, k = np.moveaxis(np.asarray(shapes, dtype=np.float64), -1, 0)
    here = (-1, *(1 for _ in b.shape))
    rows, columns, parts = (
        np.array(side, dtype=np.float64).reshape(here)
        for side in zip(*((tm, tn, part) for tm, tn in _TILES for part in _PARTS), strict=True)
    )
    count = b * np.ceil(m / rows) * np.ceil(n / columns)
    part = np.maximum(k / parts, np.minimum(k, _SHORTEST))
    return Tiling(
        np.ceil(count * parts / sms),
        2 * rows * columns * part,
        count * parts * (rows + columns) * part * size,
        np.where(parts > 1, 2 * parts * b * m * n * _SUM_BYTES, 0.0),
        parts > 1,
        2 * b * m * n * k,
        b * ((m + n) * k * size + m * n * out),
        b * k * n * size,
        b * m * n * k * k,
    )


def product_us(fit: GemmFit, peak_tflops: float, device: Device, work: Tiling) -> Floats:
    """Microseconds of products, ``float64[...]``.

    Args:
        fit: What was fitted to the dtype.
        peak_tflops: The device's peak for it.
        device: The device.
        work: The products.
    """
    cores = _cores_us(fit, peak_tflops, device, work)
    us = fit.launch_us + join(cores.min(axis=0), memory_us(fit, device, work.bytes), fit.sharpness)
    us = us + fit.right_passes * work.right / (1000.0 * device.hbm_GBps)
    if fit.small_us > 0:
        depth = work.depth / fit.small_depth
        us = us + fit.small_us * np.sqrt(depth) / (1.0 + depth**_STEEP)
    return np.maximum(us, work.flops / (device.boost * peak_tflops * 1e6))


def _cores_us(fit: GemmFit, peak_tflops: float, device: Device, work: Tiling) -> Floats:
    """``float64[C, ...]``: what the cores take under every tiling."""
    core = fit.efficiency * peak_tflops * 1e6 / device.sms
    cache = 1000.0 * device.hbm_GBps * fit.cache_speed
    cores = np.maximum(work.waves * (fit.wave_us + work.tile_flops / core), work.traffic / cache)
    return np.asarray(cores + np.where(work.parts, fit.split_us + work.partial / cache, 0.0))


def explain(fit: GemmFit, peak_tflops: float, device: Device, work: Tiling, source: str) -> ProductChoice:
    """The cheapest tiling of one product, ``work`` of shape ``[C]``, and the parts of its price."""
    cores = _cores_us(fit, peak_tflops, device, work)
    best = int(np.argmin(cores))
    rows, columns = _TILES[best // len(_PARTS)]
    return ProductChoice(
        rows,
        columns,
        _PARTS[best % len(_PARTS)],
        int(work.waves[best]),
        fit.launch_us,
        float(cores[best]),
        float(memory_us(fit, device, work.bytes)),
        float(product_us(fit, peak_tflops, device, work)),
        source,
    )


def memory_us(fit: GemmFit, device: Device, moved: Floats) -> Floats:
    """Microseconds that ``moved`` bytes take, when the cache keeps ``fit.resident`` of itself between kernels."""
    kept = np.minimum(moved, fit.resident * device.cache_bytes)
    return np.asarray((moved - (1.0 - _CACHE_SHARE) * kept) / (fit.memory_efficiency * device.hbm_GBps * 1000.0))


def join(one: Floats, other: Floats, sharpness: float) -> Floats:
    """``(x^p + y^p)^(1/p)`` without overflow: two things at once, the longer of them and a little of the other."""
    larger, smaller = np.maximum(one, other), np.minimum(one, other)
    share = np.divide(smaller, larger, out=np.zeros_like(larger), where=larger > 0)
    return np.asarray(larger * (1.0 + share**sharpness) ** (1.0 / sharpness), dtype=np.float64)
