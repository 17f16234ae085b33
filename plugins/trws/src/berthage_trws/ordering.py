"""In which order the sweeps visit the variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem

from .pack import breadth_first


def node_order(problem: PlacementProblem, ordering: str) -> npt.NDArray[np.int64]:
    """The variables in sweep order: ``natural``, or ``bfs`` from the first variable of each component."""
    n, m = problem.num_variables, problem.num_edges
    if ordering == "natural" or not m:
        return np.arange(n)
    ends = np.concatenate([problem.edge_u, problem.edge_v]).astype(np.int64)
    others = np.concatenate([problem.edge_v, problem.edge_u]).astype(np.int64)
    rank = np.lexsort((others, ends))
    ptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=n), out=ptr[1:])
    order: npt.NDArray[np.int64] = breadth_first(ptr, others[rank])
    return order
