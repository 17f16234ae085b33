"""The local-polytope relaxation of placement problems, solved by HiGHS in memory.

`lower_bound` gives the bound of the relaxation; the solver itself is used by its name, ``solve(problem, "lp")``.
"""

from berthage_lp.bound import lower_bound
from berthage_lp.options import LpOptions

__all__ = ["LpOptions", "lower_bound"]
