"""Prices of compute: a rounded roofline for matrix products, bytes for everything else."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.products import ProductChoice, explain, join, memory_us, product_us, tile
from berthage_nccl.profile import GemmFit, Profile

__all__ = ["DTYPES", "compute_us", "dtype_bytes", "dtype_key", "explain_product", "output_bytes", "products_us"]

DTYPES: Final = MappingProxyType(
    {"bf16": 2, "f16": 2, "f32": 4, "f64": 8, "f8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
)
_ALIASES: Final = MappingProxyType(
    {
        "bfloat16": "bf16",
        "half": "f16",
        "float16": "f16",
        "fp16": "f16",
        "float": "f32",
        "float32": "f32",
        "fp32": "f32",
        "tf32": "f32",
        "double": "f64",
        "float64": "f64",
        "fp8": "f8",
        "float8": "f8",
        "bool": "i8",
        "int8": "i8",
        "uint8": "i8",
        "int16": "i16",
        "int32": "i32",
        "int64": "i64",
        "complex64": "f64",
        "complex128": "f64",
    }
)


def dtype_key(dtype: str) -> str:
    """The key of a dtype, by any of its usual names (``torch.`` prefixes and fp8 variants included).

    Raises:
        InvalidProblemError: Nobody calls a dtype so.
    """
    name = dtype.lower().removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name.startswith(("float8", "f8")):
        name = "f8"
    if name not in DTYPES:
        raise InvalidProblemError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}")
    return name


def dtype_bytes(dtype: str) -> int:
    """Bytes of an element; raises as :func:`dtype_key`."""
    return DTYPES[dtype_key(dtype)]


def output_bytes(dtype: str) -> int:
    """Bytes of an element of the result of a product: fp8 products are written as bf16; raises as :func:`dtype_key`."""
    return 2 if dtype_key(dtype) == "f8" else dtype_bytes(dtype)


def products_us(profile: Profile, shapes: npt.ArrayLike, dtype: str) -> npt.NDArray[np.float64]:
    """Microseconds of matrix products; see :meth:`berthage_nccl.CostModel.products`."""
    sizes = _checked(shapes)
    _, peak, fit = _rates(profile, dtype_key(dtype))
    work = tile(sizes, dtype_bytes(dtype), output_bytes(dtype), profile.device.sms)
    return product_us(fit, peak, profile.device, work)


def explain_product(profile: Profile, shape: tuple[int, int, int, int], dtype: str) -> ProductChoice:
    """The price of one matrix product and how it would run; raises as :func:`products_us`."""
    sizes = _checked(shape)
    key, peak, fit = _rates(profile, dtype_key(dtype))
    work = tile(sizes, dtype_bytes(dtype), output_bytes(dtype), profile.device.sms)
    source = fit.source if fit.dtype == key else f"as {fit.dtype}: {fit.source}"
    return explain(fit, peak, profile.device, work, f"{source} [extrapolated]" if fit.extrapolated else source)


def _checked(shapes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    sizes = np.asarray(shapes, dtype=np.float64)
    if sizes.shape[-1:] != (4,) or np.any(~np.isfinite(sizes)) or np.any(sizes < 1):
        wrong = "B,M,N,K must be four numbers of at least 1"
        raise InvalidProblemError(f"{wrong}, not {','.join(f'{size:g}' for size in sizes.ravel()[:4])}")
    return sizes


def compute_us(
    profile: Profile,
    flops: npt.ArrayLike,
    bytes_moved: npt.ArrayLike,
    dtype: str,
    matmul: bool | npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """Microseconds of operations; see :meth:`berthage_nccl.CostModel.compute`."""
    work = np.asarray(flops, dtype=np.float64)
    moved = np.asarray(bytes_moved, dtype=np.float64)
    key = dtype_key(dtype)
    memory = profile.memory
    rate = memory.efficiency * profile.device.hbm_GBps * 1000.0
    plain = memory.launch_us + np.maximum(work / (profile.device.vector_tflops * 1e6), moved / rate)
    if not np.any(matmul):
        return np.asarray(plain, dtype=np.float64)
    return np.where(matmul, _matmul_us(profile, work, moved, key), plain)


def _matmul_us(
    profile: Profile, work: npt.NDArray[np.float64], moved: npt.NDArray[np.float64], key: str
) -> npt.NDArray[np.float64]:
    """Products whose shapes are not said: as if their tiles filled the chip."""
    _, peak, fit = _rates(profile, key)
    cores = work / (fit.efficiency * peak * 1e6)
    us = fit.launch_us + join(cores, memory_us(fit, profile.device, moved), fit.sharpness)
    return np.maximum(us, work / (profile.device.boost * peak * 1e6))


def _rates(profile: Profile, key: str) -> tuple[str, float, GemmFit]:
    """The key under which products of a dtype run, the device's peak for it, and what was fitted."""
    peaks = dict(profile.device.peak_tflops)
    if key not in peaks:
        if not key.startswith("i"):
            raise InvalidProblemError(
                f"{profile.device.name} has no matrix rate for {key}; it has {', '.join(sorted(peaks))}"
            )
        key = "f64" if "f64" in peaks else "f32"  # integer products run outside the tensor cores, slowly
    return key, peaks[key], _fit(profile, key)


def _fit(profile: Profile, key: str) -> GemmFit:
    """The fit of a dtype, or that of another one: bf16's is the best founded."""
    fits = {fit.dtype: fit for fit in profile.gemms}
    for name in (key, "bf16", "f16", "f32"):
        if name in fits:
            return fits[name]
    raise InvalidProblemError(f"profile {profile.name} has no fitted matrix products")
