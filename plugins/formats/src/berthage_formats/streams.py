"""Bytes in and out of files: compression looked through, sizes capped, writes atomic."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from os import PathLike
from pathlib import Path

from berthage import InvalidProblemError
from berthage.files.atomic import atomic_write

__all__ = ["StrPath", "bare_name", "read_bytes", "write_bytes"]

StrPath = str | PathLike[str]

COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2")
_XZ_MEMORY_LIMIT = 1 << 28  # the header of an .xz file may ask for gigabytes of dictionary
_CHUNK = 1 << 20


def bare_name(path: StrPath) -> str:
    """File name without compression suffix and without the format's own ending."""
    name = Path(path).name
    for suffix in COMPRESSED_SUFFIXES:
        name = name.removesuffix(suffix)
    return Path(name).stem or "problem"


def read_bytes(path: StrPath, max_bytes: int) -> bytes:
    """Read a whole file, decompressed when its first bytes say gzip, xz or bzip2.

    Args:
        path: File to read.
        max_bytes: Greatest decompressed size accepted.

    Raises:
        InvalidProblemError: The file cannot be opened, is damaged, or is larger than `max_bytes`.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(6)
            stream.seek(0)
            if head.startswith(b"\x1f\x8b"):
                with gzip.GzipFile(fileobj=stream) as unzipped:
                    data = unzipped.read(max_bytes + 1)
            elif head.startswith(b"BZh"):
                with bz2.BZ2File(stream) as unzipped_bz2:
                    data = unzipped_bz2.read(max_bytes + 1)
            elif head.startswith(b"\xfd7zXZ\x00"):
                data = _read_xz(stream, max_bytes + 1)
            else:
                data = stream.read(max_bytes + 1)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InvalidProblemError(f"{path}: the compressed data are damaged or cut short: {error}") from error
    except OSError as error:
        if error.filename is None:  # bz2 reports damaged data so
            raise InvalidProblemError(f"{path}: the compressed data are damaged: {error}") from error
        raise InvalidProblemError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > max_bytes:
        raise InvalidProblemError(
            f"{path}: larger than {max_bytes} bytes once decompressed; if that is right, raise the option max_bytes"
        )
    return data


def _read_xz(stream: io.BufferedReader, limit: int) -> bytes:
    """Decompress concatenated xz streams up to `limit` bytes."""
    out = bytearray()
    pending = stream.read(_CHUNK)
    while pending and len(out) < limit:
        decoder = lzma.LZMADecompressor(memlimit=_XZ_MEMORY_LIMIT)
        while not decoder.eof and len(out) < limit:
            if decoder.needs_input and not pending:
                pending = stream.read(_CHUNK)
                if not pending:
                    raise EOFError("the stream ends before its end marker")
            out += decoder.decompress(pending, max_length=limit - len(out))
            pending = b""
        pending = (decoder.unused_data or stream.read(_CHUNK)).lstrip(b"\0")
    return bytes(out)


def write_bytes(path: StrPath, data: bytes) -> None:
    """Write a file atomically, compressed when its name ends in ``.gz``, ``.xz`` or ``.bz2``."""
    suffix = Path(path).suffix
    if suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # no time stamp: the same problem gives the same file
    elif suffix == ".xz":
        data = lzma.compress(data)
    elif suffix == ".bz2":
        data = bz2.compress(data)
    with atomic_write(path) as stream:
        stream.write(data)
