"""Small array helpers shared by the problem model: exact integer costs, read-only arrays, digests."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError

Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
Array = npt.NDArray[Any]

EXACT_FLOAT = 2.0**53
"""Above this magnitude a float64 no longer holds every integer."""

MOST_COPIES = 2**31 - 1
"""Greatest multiplicity of a term."""


def frozen(values: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Return `values` as a contiguous read-only array of `dtype`, copied only when it has to be."""
    array = np.ascontiguousarray(values, dtype=dtype)
    # A view, even a read-only one, may be of something that is still written to.
    if array.base is not None or (array is values and array.flags.writeable):
        array = array.copy()
    array.flags.writeable = False
    return array


def plain_number(value: object, what: str) -> int | float:
    """A number as a Python int or float, so that equal problems are equal whatever kind of scalar was given.

    Raises:
        InvalidProblemError: For NaN, for what is no number, and for integers beyond the range of floats.
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if abs(int(value)) >= 2**1023:
            raise InvalidProblemError(
                f"{what} is an integer of {len(str(abs(int(value))))} digits; rescale the problem"
            )
        return int(value)
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            raise InvalidProblemError(f"{what} is NaN; give a finite number")
        return float(value)
    raise InvalidProblemError(f"{what} must be a number, got {value!r}")


def split_exact(values: npt.ArrayLike, what: str) -> tuple[Float64Array, Int64Array | None]:
    """Split costs into float64 values and, where a float cannot hold an integer, an int64 residual.

    Args:
        values: Numbers of any shape; Python integers of any size are taken exactly.
        what: How to call the data in an error, for instance ``"cost of variable 'x'"``.

    Returns:
        ``(values, residual)`` with ``exact = int(values) + residual``; the residual is None when it is all
        zero.

    Raises:
        InvalidProblemError: For NaN, -inf, non-numbers, or integers whose residual exceeds int64.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        raw: Array = values
    else:
        try:
            raw = np.asarray(values)
        except (ValueError, OverflowError) as error:
            raise InvalidProblemError(f"{what} is not a rectangular array of numbers: {error}") from None
        if raw.dtype.kind == "f" and raw.size and not _floats_are_exact(values, raw):
            raw = np.asarray(values, dtype=object)
    if raw.dtype.kind in "iub":
        return _split_integers(raw)
    if raw.dtype.kind == "f":
        floats = np.ascontiguousarray(raw, dtype=np.float64)
        check_costs(floats, what)
        return floats, None
    if raw.dtype.kind == "O":
        return _split_objects(raw, what)
    raise InvalidProblemError(f"{what} must be numbers, got an array of {raw.dtype}; convert it first")


def _floats_are_exact(values: object, raw: Array) -> bool:
    """Whether numpy's conversion of a mixed list to floats cannot have rounded a large Python integer."""
    finite = raw[np.isfinite(raw)]
    if not finite.size or float(np.abs(finite).max()) < EXACT_FLOAT:
        return True
    return not any(isinstance(item, int) for item in np.asarray(values, dtype=object).flat)


def _split_integers(raw: Array) -> tuple[Float64Array, Int64Array | None]:
    floats = np.ascontiguousarray(raw, dtype=np.float64)
    if not raw.size or float(np.abs(floats).max()) < EXACT_FLOAT:
        return floats, None
    if float(np.abs(floats).max()) >= 2.0**63:  # int64 cannot take the rounded value back: go through Python integers
        return _split_objects(raw.astype(object), "integer costs")
    residual = np.ascontiguousarray(raw.astype(np.int64) - floats.astype(np.int64))
    return floats, (residual if residual.any() else None)


def _split_objects(raw: Array, what: str) -> tuple[Float64Array, Int64Array | None]:
    floats = np.empty(raw.shape, dtype=np.float64)
    residual = np.zeros(raw.shape, dtype=np.int64)
    for index, item in enumerate(raw.flat):
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            exact = int(item)
            try:
                rounded = float(exact)
            except OverflowError:
                rounded = math.inf
            if not math.isfinite(rounded) or not -(2**63) <= exact - int(rounded) < 2**63:
                raise InvalidProblemError(f"{what} holds the integer {exact}, beyond 2^115; rescale the costs")
            residual.flat[index] = exact - int(rounded)
            floats.flat[index] = rounded
            continue
        try:
            floats.flat[index] = float(item)
        except (TypeError, ValueError, OverflowError):
            raise InvalidProblemError(f"{what} holds {item!r}, which is not a number") from None
    check_costs(floats, what)
    return floats, (residual if residual.any() else None)


def check_costs(values: Float64Array, what: str) -> None:
    """Refuse NaN and -inf: +inf is the only special cost and means *forbidden*."""
    if not values.size:
        return
    low = float(values.min())  # NaN propagates through min
    if np.isnan(low):
        where = tuple(int(i) for i in np.argwhere(np.isnan(values))[0])
        raise InvalidProblemError(f"{what} is NaN at {where}; give a number, or inf for a forbidden choice")
    if low == -np.inf:
        where = tuple(int(i) for i in np.argwhere(np.isneginf(values))[0])
        raise InvalidProblemError(f"{what} is -inf at {where}; a cost may be +inf (forbidden), never -inf")


def is_whole(values: Float64Array) -> bool:
    """Whether every finite value is a whole number."""
    return bool(np.all((values == np.floor(values)) | np.isinf(values)))


def update_digest(digest: hashlib._Hash, parts: Iterable[Any]) -> None:
    """Feed values into a digest, each with its type and length so that none run together."""
    for part in parts:
        if part is None:
            digest.update(b"N;")
        elif isinstance(part, np.ndarray):
            digest.update(f"A{part.dtype.str}{part.shape};".encode())
            digest.update(np.ascontiguousarray(part).data if part.size else b"")
        elif isinstance(part, bytes):
            digest.update(f"B{len(part)};".encode())
            digest.update(part)
        else:
            text = f"{type(part).__name__}:{part!r}".encode()
            digest.update(f"S{len(text)};".encode())
            digest.update(text)
