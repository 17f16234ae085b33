"""A problem no solver finishes quickly, for checks of limits and interruption."""

from __future__ import annotations

import numpy as np

from berthage import PlacementProblem, ProblemBuilder

__all__ = ["hard_problem"]


def hard_problem(variables: int = 60, labels: int = 8, seed: int = 1) -> PlacementProblem:
    """A complete graph with random whole-number tables; always feasible, far beyond exhaustive search.

    Relaxations of such problems are loose, so neither a bound nor an enumeration closes the gap in seconds.
    """
    random = np.random.default_rng(seed)
    builder = ProblemBuilder(f"hard {variables}x{labels}")
    for v in range(variables):
        builder.add_variable(f"v{v}", labels, random.integers(0, 100, labels))
    for u in range(variables):
        for v in range(u + 1, variables):
            builder.add_pairwise(u, v, random.integers(0, 100, (labels, labels)))
    return builder.build()
