"""Arrays of an ``.npz`` file, every size checked before anything is allocated and nothing ever executed."""

from __future__ import annotations

import re
import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_formats.streams import StrPath

__all__ = ["Arrays"]

# What zipfile, zlib and numpy raise on damaged archives; RuntimeError is an encrypted member.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)

_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    rb"\{'descr': '(?P<descr>[^']{1,20})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>[0-9, ]{0,80})\),? ?\} *\n?"
)
_PLAIN_TYPE = re.compile(r"[<>|=]?(?:b1|[iuf][1248]|U[0-9]{1,3})")


class Arrays:
    """The arrays of an archive, by name.

    Args:
        path: The ``.npz`` file.
        max_bytes: Greatest total size of the members once decompressed.

    Raises:
        InvalidProblemError: The file is no zip archive, damaged or too large.
    """

    def __init__(self, path: StrPath, max_bytes: int) -> None:
        self.source = str(path)
        try:
            with zipfile.ZipFile(path) as archive:
                total = sum(item.file_size for item in archive.infolist())
                if total > max_bytes:
                    raise InvalidProblemError(
                        f"{path}: {total} bytes once decompressed, more than {max_bytes}; "
                        "if the file is right, raise the option max_bytes"
                    )
                names = [name for name in archive.namelist() if name.endswith(".npy")]
                self._members = {name.removesuffix(".npy"): archive.read(name) for name in names}
        except OSError as error:
            raise InvalidProblemError(f"{path}: cannot be read: {error.strerror or error}") from error
        except InvalidProblemError:
            raise
        except _DAMAGE as error:
            raise InvalidProblemError(f"{path}: expected an undamaged .npz archive: {error}") from error

    def get(self, name: str, kind: str, length: int | None = None) -> npt.NDArray[Any]:
        """The vector called `name`.

        Args:
            name: Its name.
            kind: ``"i"`` for whole numbers (int64 comes back), ``"f"`` for float64, ``"b"`` for bool.
            length: Its length, or None when any will do.

        Raises:
            InvalidProblemError: It is missing, damaged, or of another type or shape.
        """
        if name not in self._members:
            raise InvalidProblemError(f"{self.source}: expected an array {name!r}, but it is missing")
        array = self._decode(name)
        words = {"i": "whole numbers", "f": "numbers", "b": "booleans"}
        allowed = {"i": "iu", "f": "fiu", "b": "b"}
        if array.ndim != 1 or array.dtype.kind not in allowed[kind]:
            raise InvalidProblemError(
                f"{self.source}: {name}: expected a vector of {words[kind]}, found {array.dtype}{list(array.shape)}"
            )
        if length is not None and len(array) != length:
            raise InvalidProblemError(f"{self.source}: {name}: expected {length} entries, found {len(array)}")
        return array.astype({"i": np.int64, "f": np.float64, "b": np.bool_}[kind])

    def _decode(self, name: str) -> npt.NDArray[Any]:
        member = self._members[name]
        try:
            dtype, fortran, shape, start = _header(member)
            body = memoryview(member)[start:]
            count = 1
            for side in shape:
                count *= side
            if count * dtype.itemsize != len(body):
                raise ValueError(f"the header says {count} values of {dtype}, the data hold {len(body)} bytes")
            return np.frombuffer(body, dtype=dtype).reshape(shape, order="F" if fortran else "C")
        except (ValueError, TypeError, OverflowError) as error:
            raise InvalidProblemError(f"{self.source}: {name}: expected an .npy array: {error}") from error


def _header(member: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Type, order, shape and start of the data of an ``.npy`` member, by pattern: nothing in it is evaluated."""
    if not member.startswith(_MAGIC) or len(member) < 12:
        raise ValueError("the magic bytes are missing")
    width = 2 if member[6] == 1 else 4
    start = 8 + width + int.from_bytes(member[8 : 8 + width], "little")
    found = _HEADER.fullmatch(member[8 + width : start])
    if not found:
        raise ValueError("the header is damaged")
    kind = found["descr"].decode()
    if not _PLAIN_TYPE.fullmatch(kind):
        raise ValueError(f"arrays of type {kind!r} are not accepted")
    shape = tuple(int(side) for side in found["shape"].replace(b",", b" ").split())
    return np.dtype(kind), found["fortran"] == b"True", shape, start
