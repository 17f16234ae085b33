"""The reductions that the registry knows: all rules together, and each on its own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from berthage import PlacementProblem, ProblemBuilder
from berthage.solving import RunContext
from berthage_presolve import kernels_elimination
from berthage_presolve.engine import COMPONENTS, RULES, Reduced, reduce_problem
from berthage_presolve.jit import is_compiled


class Presolve:
    """Every rule, to a fixed point. Subclasses run fewer."""

    rules: ClassVar[tuple[str, ...]] = (*RULES, COMPONENTS)

    def reduce(self, problem: PlacementProblem, context: RunContext) -> Reduced:
        """Reduce a problem; JIT compilation is reported as its own, uncharged phase."""
        if not is_compiled(kernels_elimination.choose_eliminated):
            with context.phase("compile", charged=False):
                warmup()
        return reduce_problem(problem, self.rules, context)


class MergeTies(Presolve):
    """Only ``merge-ties``."""

    rules = ("merge-ties",)


class ArcConsistency(Presolve):
    """Only ``arc-consistency``."""

    rules = ("arc-consistency",)


class BudgetPins(Presolve):
    """Only ``budget-pins``."""

    rules = ("budget-pins",)


class SingleLabels(Presolve):
    """Only ``single-labels``."""

    rules = ("single-labels",)


class MergeEdges(Presolve):
    """Only ``merge-edges``."""

    rules = ("merge-edges",)


class DominatedLabels(Presolve):
    """Only ``dominated-labels``."""

    rules = ("dominated-labels",)


class Eliminate(Presolve):
    """Only ``eliminate``."""

    rules = ("eliminate",)


class Components(Presolve):
    """Only ``components``."""

    rules = (COMPONENTS,)


def warmup() -> None:
    """Compile (or load from the cache) every kernel, by reducing a small problem of all kinds."""
    b = ProblemBuilder("warm-up")
    cycle = [b.add_variable(f"v{i}", 3, np.arange(3.0)) for i in range(5)]
    for i in range(5):
        for j in range(i):
            b.add_pairwise(cycle[i], cycle[j], np.eye(3) * (1.0 + i) + np.arange(3.0) * j)
    leaf, link = b.add_variable("leaf", 2, [0.0, 0.5]), b.add_variable("link", 2)
    b.add_pairwise(cycle[0], leaf, np.array([[0.0, np.inf], [1.0, 0.25], [2.0, 3.0]]))
    b.add_pairwise(cycle[1], link, np.array([[0.0, 1.0], [1.0, 0.25], [2.0, 3.0]]))
    b.add_pairwise(link, cycle[2], np.array([[0.0, 1.0, 4.0], [1.0, 0.25, 2.0]]))
    b.add_pairwise(cycle[2], link, np.array([[0.0, 1.0], [1.0, 0.5], [2.0, 3.0]]))
    b.tie(cycle[3], cycle[4])
    b.add_budget("warm-up budget", {cycle[0]: [0.0, 1.0, 2.0]}, upper=1.0)
    b.add_interval_budget("warm-up memory", [(cycle[0], 0, 2, [1, 2, 3]), (cycle[2], 1, 3, [1, 2, 3])], limit=5)
    problem = b.build()
    reduced = reduce_problem(problem, Presolve.rules)
    reduced.lift([np.zeros(part.num_variables, dtype=np.int32) for part in reduced.parts])
