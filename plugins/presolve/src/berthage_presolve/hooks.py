"""What this plugin offers. Light: importing it loads neither numpy code nor numba."""

from __future__ import annotations

from berthage import hookimpl
from berthage.registry import ReductionInfo

_MODULE = "berthage_presolve.presolve"


@hookimpl
def berthage_reductions() -> list[ReductionInfo]:
    """All rules to a fixed point as ``presolve``, which runs by default, and each rule on its own, by name."""
    single = (
        ("arc-consistency", "remove labels that some neighbour has no allowed partner for", "ArcConsistency"),
        ("budget-pins", "remove labels that no hard budget has room for", "BudgetPins"),
        ("merge-ties", "merge variables that determine each other", "MergeTies"),
        ("single-labels", "decide variables with one label", "SingleLabels"),
        ("merge-edges", "add up parallel edges, fold edges that are a sum of unary costs", "MergeEdges"),
        ("dominated-labels", "remove labels that another one always replaces without harm", "DominatedLabels"),
        ("eliminate", "minimise out variables of degree 0, 1 and 2 without budget weight", "Eliminate"),
        ("components", "split parts that nothing connects", "Components"),
    )
    return [
        ReductionInfo("presolve", "every rule of this plugin, to a fixed point", f"{_MODULE}:Presolve", order=100),
        *(
            ReductionInfo(name, summary, f"{_MODULE}:{target}", order=110 + 10 * i, default=False)
            for i, (name, summary, target) in enumerate(single)
        ),
    ]
