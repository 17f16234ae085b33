"""Problems whose labels have coordinates."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from berthage import PlacementProblem, ProblemBuilder

__all__ = ["placed_problems"]


@st.composite
def placed_problems(draw: st.DrawFn, *, max_dimensions: int = 3) -> PlacementProblem:
    """Small problems whose labels lie on a grid: with gaps in it, forbidden labels, ties, pairs and budgets."""
    dims = draw(st.integers(1, max_dimensions))
    grid = np.array(list(itertools.product(range(2), repeat=dims)))
    builder = ProblemBuilder("placed")
    count = draw(st.integers(1, 4))
    sizes = []
    for v in range(count):
        some = draw(st.lists(st.integers(0, len(grid) - 1), min_size=1, max_size=len(grid), unique=True))
        places = grid[sorted(some)]
        costs = [float(draw(st.integers(0, 9))) for _ in some]
        if draw(st.integers(0, 5)) == 0:
            costs[draw(st.integers(0, len(costs) - 1))] = float("inf")
        bare = draw(st.integers(0, 7)) == 0
        builder.add_variable(
            f"v{v}", len(some), costs, coordinates=None if bare and v else places, multiplicity=draw(st.integers(1, 2))
        )
        sizes.append(len(some))
    for u, v in itertools.combinations(range(count), 2):
        if draw(st.booleans()):
            table = draw(st.lists(st.integers(0, 9), min_size=sizes[u] * sizes[v], max_size=sizes[u] * sizes[v]))
            builder.add_pairwise(u, v, np.array(table, dtype=float).reshape(sizes[u], sizes[v]))
        if draw(st.integers(0, 7)) == 0:
            mask = draw(st.lists(st.booleans(), min_size=sizes[u] * sizes[v], max_size=sizes[u] * sizes[v]))
            builder.allow_pairs(u, v, np.array(mask).reshape(sizes[u], sizes[v]))
    if draw(st.integers(0, 3)) == 0:
        rows: dict[int | str, Any] = {v: [draw(st.integers(0, 4)) for _ in range(sizes[v])] for v in range(count)}
        builder.add_budget("room", rows, upper=draw(st.integers(0, 4 * count)))
    return builder.build()
