"""Small array helpers for ragged (CSR-like) data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["components", "ragged", "segment_argmax", "segment_min", "starts_of"]

IntArray = NDArray[np.int64]


def starts_of(counts: NDArray[Any]) -> IntArray:
    """Offsets ``[0, c0, c0+c1, …]`` of segments with the given counts."""
    ptr = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def ragged(starts: NDArray[Any], counts: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Concatenate the ranges ``starts[i] … starts[i]+counts[i]``.

    Returns:
        ``(flat, owner)``: the concatenated range values and, for each, the index ``i`` it came from.
    """
    counts = np.asarray(counts, dtype=np.int64)
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    first = np.cumsum(counts) - counts
    flat = (
        np.arange(len(owner), dtype=np.int64)
        - np.repeat(first, counts)
        + np.repeat(np.asarray(starts, dtype=np.int64), counts)
    )
    return flat, owner


def segment_min(values: NDArray[np.float64], ptr: IntArray, empty: float) -> NDArray[np.float64]:
    """Minimum of each segment ``values[ptr[i]:ptr[i+1]]``; ``empty`` where a segment has no entry."""
    out = np.full(len(ptr) - 1, empty, dtype=np.float64)
    full = np.flatnonzero(ptr[1:] > ptr[:-1])
    if len(full):
        out[full] = np.minimum.reduceat(values, ptr[full])
    return out


def segment_argmax(values: NDArray[np.float64], ptr: IntArray) -> IntArray:
    """Position (within the flat array) of the first maximum of every segment; -1 for an empty one."""
    count = len(ptr) - 1
    out = np.full(count, -1, dtype=np.int64)
    full = np.flatnonzero(ptr[1:] > ptr[:-1])
    if not len(full):
        return out
    top = np.maximum.reduceat(values, ptr[full])
    owner = np.repeat(np.arange(len(full)), (ptr[1:] - ptr[:-1])[full])
    hits = np.flatnonzero(values == top[owner])
    first = np.searchsorted(hits, ptr[full])
    out[full] = hits[first]
    return out


def components(count: int, a: NDArray[Any], b: NDArray[Any]) -> IntArray:
    """Smallest member of the connected component of each of ``count`` nodes, given the edges ``a``–``b``."""
    root = np.arange(count, dtype=np.int64)
    a = np.asarray(a, dtype=np.int64)
    b = np.asarray(b, dtype=np.int64)
    while len(a):
        ra, rb = root[a], root[b]
        apart = ra != rb
        if not apart.any():
            break
        a, b, ra, rb = a[apart], b[apart], ra[apart], rb[apart]
        np.minimum.at(root, np.maximum(ra, rb), np.minimum(ra, rb))
        while True:
            jumped = root[root]
            if np.array_equal(jumped, root):
                break
            root = jumped
    return root
