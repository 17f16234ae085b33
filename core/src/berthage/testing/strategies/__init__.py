"""Hypothesis strategies for placement problems of every kind, small enough for brute force.

Start with `problems`; `Feature` says what may occur in them, `Costs` how costs are drawn. `assignments`
draws label indices for a problem, `infeasible_problems` problems that nothing satisfies, `trees` acyclic
ones, `placed_problems` those whose labels have coordinates.
"""

from berthage.testing.strategies.costs import Costs, cost_values
from berthage.testing.strategies.placed import placed_problems
from berthage.testing.strategies.problems import (
    ALL_FEATURES,
    Feature,
    assignments,
    infeasible_problems,
    problems,
    trees,
)

__all__ = [
    "ALL_FEATURES",
    "Costs",
    "Feature",
    "assignments",
    "cost_values",
    "infeasible_problems",
    "placed_problems",
    "problems",
    "trees",
]
