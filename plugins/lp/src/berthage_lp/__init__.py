"""The local-polytope relaxation of placement problems, solved by HiGHS in memory.

`lower_bound` gives the bound of the relaxation; the solver itself is used by its name, ``solve(problem, "lp")``.
"""

from typing import TYPE_CHECKING, Any

from berthage_lp.options import LpOptions

if TYPE_CHECKING:
    from berthage_lp.bound import lower_bound

__all__ = ["LpOptions", "lower_bound"]


def __getattr__(name: str) -> Any:
    """Import `lower_bound` when it is first used: listing solvers imports this package and stays light."""
    if name != "lower_bound":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from berthage_lp.bound import lower_bound

    return lower_bound
