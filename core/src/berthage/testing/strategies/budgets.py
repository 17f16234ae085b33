"""Budgets for drawn problems: near what some assignment uses, so that they bind but are not hopeless."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from berthage import ProblemBuilder
from berthage.testing.strategies.costs import Costs

__all__ = ["add_budgets"]

_PRICES = st.sampled_from([0, 1, 2, 1000])


def add_budgets(
    draw: st.DrawFn,
    builder: ProblemBuilder,
    sizes: list[int],
    costs: Costs,
    *,
    linear: bool,
    interval: bool,
    soft: bool,
) -> None:
    """Add one or two budgets of each kind asked for; soft ones among them when ``soft``."""
    whole = costs in (Costs.FLAT, Costs.INTEGER, Costs.BIG)
    for index in range(draw(st.integers(1, 2)) if linear else 0):
        price = draw(_PRICES) if soft and draw(st.booleans()) else None
        _add_linear(draw, builder, sizes, f"linear {index}", whole, price)
    for index in range(draw(st.integers(1, 2)) if interval else 0):
        price = draw(_PRICES) if soft and draw(st.booleans()) else None
        _add_interval(draw, builder, sizes, f"interval {index}", whole, price)


def _weights(size: int, whole: bool, low: int) -> st.SearchStrategy[list[Any]]:
    """Whole numbers, or halves: a sum of halves is exact, so no test hangs on a rounding error at a limit."""
    one: st.SearchStrategy[Any] = st.integers(low, 9)
    if not whole:
        one = st.integers(2 * low, 18).map(lambda k: k / 2)
    return st.lists(one, min_size=size, max_size=size)


def _add_linear(
    draw: st.DrawFn, builder: ProblemBuilder, sizes: list[int], name: str, whole: bool, price: int | None
) -> None:
    members = draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, unique=True))
    weights: dict[int | str, Any] = {v: draw(_weights(sizes[v], whole, -4)) for v in members}
    typical = sum(draw(st.sampled_from(row)) for row in weights.values())
    upper: float = typical + draw(st.integers(-1, 3))
    lower: float = typical - draw(st.integers(0, 3))
    match draw(st.sampled_from(["upper", "lower", "both", "equal"])):
        case "upper":
            lower = -math.inf
        case "lower":
            upper = math.inf
        case "equal":
            lower = upper = typical
        case _:
            lower = min(lower, upper)
    builder.add_budget(name, weights, lower=lower, upper=upper, price=price)


def _add_interval(
    draw: st.DrawFn, builder: ProblemBuilder, sizes: list[int], name: str, whole: bool, price: int | None
) -> None:
    rows = []
    for v in draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=6)):
        start = draw(st.integers(0, 4))
        rows.append((v, start, start + draw(st.integers(0, 3)), draw(_weights(sizes[v], whole, 0))))
    # What one assignment uses if all its rows were live at once, times a share: tight, loose and hopeless
    # all occur.
    typical = sum(draw(st.sampled_from(weights)) for _, _, _, weights in rows)
    limit = draw(st.sampled_from([typical, typical // 2, typical // 3 + 1]))
    builder.add_interval_budget(name, rows, limit=limit, price=price)
