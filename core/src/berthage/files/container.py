"""One file of a JSON header and compressed arrays: no code, no pickle, every size checked before it is believed.

Layout: the magic bytes, the header's length (8 bytes, little endian), the header (UTF-8 JSON), then the arrays, each
compressed by zlib and found by the offset and length its header entry gives, counted from the end of the header.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from berthage.errors import InvalidProblemError
from berthage.files.atomic import atomic_write
from berthage.problem.arrays import Array

__all__ = ["read_container", "write_container"]

MAGIC = b"\x89BERTHAGE\r\n\x1a"
DTYPES = {"i1", "i4", "i8", "f8", "b1"}
MOST_ELEMENTS = 2**33


def write_container(path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a header and named arrays into one file, atomically.

    Args:
        path: Where.
        header: JSON values; the key ``"arrays"`` is taken.
        arrays: Arrays by name, of integers, floats or booleans.
    """
    entries: dict[str, Any] = {}
    blobs: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        blob = zlib.compress(little.tobytes(), 1)
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        entries[name] = {"dtype": code, "shape": list(array.shape), "offset": offset, "length": len(blob)}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps({**header, "arrays": entries}, allow_nan=False, ensure_ascii=False).encode()
    with atomic_write(path) as stream:
        stream.write(MAGIC + len(text).to_bytes(8, "little") + text)
        for blob in blobs:
            stream.write(blob)


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_container` wrote.

    Raises:
        InvalidProblemError: When the file is not of this kind, cut short, or damaged; the message names the place.
    """
    where = os.fspath(path)
    raw = Path(path).read_bytes()
    start = len(MAGIC) + 8
    if not raw.startswith(MAGIC):
        raise InvalidProblemError(f"{where}: not a berthage file (its first bytes are {raw[:8]!r})")
    size = int.from_bytes(raw[len(MAGIC) : start], "little")
    if start + size > len(raw):
        raise InvalidProblemError(
            f"{where}: cut short: the header needs {size} bytes, {max(0, len(raw) - start)} are there"
        )
    try:
        header = json.loads(raw[start : start + size])
    except (ValueError, RecursionError) as error:
        raise InvalidProblemError(f"{where}: the header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), dict):
        raise InvalidProblemError(f"{where}: the header lacks its list of arrays")
    body = memoryview(raw)[start + size :]
    arrays = {name: _array(f"{where}: array {name!r}", entry, body) for name, entry in header.pop("arrays").items()}
    return header, arrays


def _array(what: str, entry: Any, body: memoryview) -> Array:
    try:
        code, shape = str(entry["dtype"]), tuple(int(s) for s in entry["shape"])
        offset, length = int(entry["offset"]), int(entry["length"])
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InvalidProblemError(f"{what}: its header entry lacks dtype, shape, offset or length") from None
    if code not in DTYPES or any(s < 0 for s in shape) or len(shape) > 2:
        raise InvalidProblemError(f"{what}: dtype {code!r} with shape {shape} is not allowed")
    count = 1
    for s in shape:
        count *= s
    if not 0 <= offset <= offset + length <= len(body) or count > MOST_ELEMENTS:
        raise InvalidProblemError(f"{what}: it lies outside the file, which is cut short or damaged")
    dtype = np.dtype(f"<{code}")
    expected = count * dtype.itemsize
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(body[offset : offset + length], expected + 1)
    except zlib.error as error:
        raise InvalidProblemError(f"{what}: damaged: {error}") from None
    if len(data) != expected or not inflate.eof:
        raise InvalidProblemError(f"{what}: it holds {len(data)} bytes, its shape needs {expected}")
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if dtype.kind == "b" and count and array.view(np.uint8).max() > 1:
        raise InvalidProblemError(f"{what}: a truth value is neither 0 nor 1")
    return array.astype(dtype.newbyteorder("="), copy=False)
