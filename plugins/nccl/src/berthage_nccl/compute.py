"""Prices of compute: a rounded roofline for matrix products, bytes for everything else."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.profile import GemmFit, Profile

__all__ = ["DTYPES", "compute_us", "dtype_bytes", "dtype_key", "gemm_work"]

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


def gemm_work(batch: int, m: int, n: int, k: int, dtype: str) -> tuple[float, float]:
    """FLOPs and bytes of ``batch`` products (m, k) x (k, n); fp8 products are written as bf16.

    Raises:
        InvalidProblemError: A size is below 1, or the dtype unknown.
    """
    if min(batch, m, n, k) < 1:
        raise InvalidProblemError(f"B,M,N,K must be at least 1, not {batch},{m},{n},{k}")
    size = dtype_bytes(dtype)
    out = 2 if dtype_key(dtype) == "f8" else size
    return 2.0 * batch * m * n * k, float(batch * ((m * k + k * n) * size + m * n * out))


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
    peaks = dict(profile.device.peak_tflops)
    if key not in peaks:
        if not key.startswith("i"):
            raise InvalidProblemError(
                f"{profile.device.name} has no matrix rate for {key}; it has {', '.join(sorted(peaks))}"
            )
        key = "f64" if "f64" in peaks else "f32"  # integer products run outside the tensor cores, slowly
    fit = _fit(profile, key)
    arithmetic = work / (fit.efficiency * peaks[key] * 1e6)
    memory = moved / (fit.memory_efficiency * profile.device.hbm_GBps * 1000.0)
    larger, smaller = np.maximum(arithmetic, memory), np.minimum(arithmetic, memory)
    # (x^p + y^p)^(1/p) without overflow, whatever the sizes.
    share = np.divide(smaller, larger, out=np.zeros_like(larger), where=larger > 0)
    return np.asarray(fit.launch_us + larger * (1.0 + share**fit.sharpness) ** (1.0 / fit.sharpness), dtype=np.float64)


def _fit(profile: Profile, key: str) -> GemmFit:
    """The fit of a dtype, or that of the nearest one: 16-bit floats share theirs, the rest take f32's."""
    fits = {fit.dtype: fit for fit in profile.gemms}
    for name in (key, *(("bf16", "f16") if key in ("bf16", "f16") else ()), "f32", "bf16"):
        if name in fits:
            return fits[name]
    raise InvalidProblemError(f"profile {profile.name} has no fitted matrix products")
