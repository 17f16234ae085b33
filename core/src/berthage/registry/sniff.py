"""The first bytes of a file, decompressed, for formats that are told by content."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib

__all__ = ["HEAD_BYTES", "read_head"]

HEAD_BYTES = 4096
"""How much of a file a format gets to see."""


def read_head(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of a file, decompressed; empty when it cannot be read or is damaged."""
    try:
        with open(path, "rb") as stream:
            raw = stream.read(HEAD_BYTES)
    except OSError:
        return b""
    try:
        if raw.startswith(b"\x1f\x8b"):
            return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress(raw, HEAD_BYTES)
        if raw.startswith(b"\xfd7zXZ\x00"):
            decoder = lzma.LZMADecompressor(memlimit=1 << 28)
            return decoder.decompress(raw, max_length=HEAD_BYTES)
        if raw.startswith(b"BZh"):
            # A bzip2 block is up to 900 kB, so the head alone may not hold one.
            with bz2.BZ2File(path) as unzipped:
                return unzipped.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        return b""
    return raw
