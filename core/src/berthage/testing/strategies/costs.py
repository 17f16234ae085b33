"""How costs are drawn: whole numbers, eighths, arbitrary floats, and whole numbers that no float holds."""

from __future__ import annotations

import math
from enum import StrEnum

from hypothesis import strategies as st

__all__ = ["Costs", "cost_values"]

Number = int | float


class Costs(StrEnum):
    """Where the numbers of a problem come from."""

    FLAT = "flat"
    """0 and 1; nearly everything ties."""
    INTEGER = "integer"
    """Small whole numbers."""
    EIGHTHS = "eighths"
    """Multiples of 1/8: not integral, yet every sum of a few is exact in float64."""
    FLOAT = "float"
    """Arbitrary floats of moderate size; sums round."""
    BIG = "big"
    """Whole numbers around powers beyond 2^53, given as Python integers."""


_EIGHTHS = st.integers(-40, 80).map(lambda k: k / 8)
_FLOATS = st.floats(-1000.0, 1000.0, allow_nan=False)
_SMALL = st.integers(-5, 20)
_BIG = st.builds(int.__add__, st.sampled_from([0, 2**53, 2**60, 10**18, 10**19]), st.integers(-3, 9))


def cost_values(kind: Costs, size: int, *, infinities: bool = False) -> st.SearchStrategy[list[Number]]:
    """Lists of ``size`` costs of one kind; with ``infinities`` about one in eight is inf (forbidden)."""
    one: st.SearchStrategy[Number]
    match kind:
        case Costs.FLAT:
            one = st.integers(0, 1)
        case Costs.INTEGER:
            one = _SMALL
        case Costs.EIGHTHS:
            one = _EIGHTHS
        case Costs.FLOAT:
            one = _FLOATS
        case Costs.BIG:
            one = _BIG
    values = st.lists(one, min_size=size, max_size=size)
    if not infinities:
        return values
    marks = st.lists(st.integers(0, 7), min_size=size, max_size=size)
    return st.builds(
        lambda costs, drawn: [math.inf if mark == 7 else cost for cost, mark in zip(costs, drawn, strict=True)],
        values,
        marks,
    )
