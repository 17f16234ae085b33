"""Placements as small integers: one code per mesh dimension, an ``int8`` array per tensor.

``0`` is Replicate, ``1`` to ``4`` are the Partial kinds (sum, avg, max, min), ``8 + d`` is Shard(d).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError

__all__ = [
    "PARTIAL_AVG",
    "PARTIAL_MAX",
    "PARTIAL_MIN",
    "PARTIAL_SUM",
    "REPLICATE",
    "format",
    "is_partial",
    "is_shard",
    "parse",
    "shard",
]

REPLICATE: Final = 0
PARTIAL_SUM: Final = 1
PARTIAL_AVG: Final = 2
PARTIAL_MAX: Final = 3
PARTIAL_MIN: Final = 4
_FIRST_SHARD: Final = 8
_LAST_SHARD: Final = 127 - _FIRST_SHARD
_PARTIAL_NAMES: Final = MappingProxyType(
    {PARTIAL_SUM: "P", PARTIAL_AVG: "P(avg)", PARTIAL_MAX: "P(max)", PARTIAL_MIN: "P(min)"}
)
_PARTIAL_CODES: Final = MappingProxyType(
    {"sum": PARTIAL_SUM, "avg": PARTIAL_AVG, "max": PARTIAL_MAX, "min": PARTIAL_MIN, None: PARTIAL_SUM}
)
_TOKEN: Final = re.compile(r"R|P(?:\((sum|avg|max|min)\))?|S\((\d+)\)")


def shard(dim: int) -> int:
    """The code of Shard(dim); ``dim`` counts from 0.

    Raises:
        InvalidProblemError: ``dim`` is negative or too large for a code.
    """
    if not 0 <= dim <= _LAST_SHARD:
        raise InvalidProblemError(f"Shard({dim}): the tensor dimension must be between 0 and {_LAST_SHARD}")
    return _FIRST_SHARD + dim


def is_shard(code: int) -> bool:
    """Whether a code is a Shard; ``code - 8`` is then its tensor dimension."""
    return code >= _FIRST_SHARD


def is_partial(code: int) -> bool:
    """Whether a code is a Partial of any kind."""
    return PARTIAL_SUM <= code <= PARTIAL_MIN


def format(placement: Iterable[int]) -> str:
    """A placement as text, e.g. ``"S(0)RP(avg)"``; Partial(sum) is ``P``."""
    return "".join(_one(int(code)) for code in placement)


def _one(code: int) -> str:
    if code == REPLICATE:
        return "R"
    if code in _PARTIAL_NAMES:
        return _PARTIAL_NAMES[code]
    if is_shard(code):
        return f"S({code - _FIRST_SHARD})"
    raise InvalidProblemError(f"{code} is no placement code")


def parse(text: str) -> npt.NDArray[np.int8]:
    """A placement from text such as ``"S(0)R"``, ``"S(0), P(avg)"``.

    Returns:
        ``int8[D]``, one code per mesh dimension.

    Raises:
        InvalidProblemError: The text is not a placement.
    """
    squeezed = re.sub(r"[\s,]+", "", text)
    codes: list[int] = []
    at = 0
    while at < len(squeezed):
        found = _TOKEN.match(squeezed, at)
        if found is None:
            raise InvalidProblemError(f"{text!r} is no placement: expected R, P, P(avg) or S(dim) at {squeezed[at:]!r}")
        if found.group(2) is not None:
            codes.append(shard(int(found.group(2))))
        else:
            codes.append(REPLICATE if found.group(0) == "R" else _PARTIAL_CODES[found.group(1)])
        at = found.end()
    return np.array(codes, dtype=np.int8)
