"""Rule ``arc-consistency``: labels that no label of some neighbour goes with are removed, until none is left."""

from __future__ import annotations

import numpy as np

from berthage import Infeasibility
from berthage_presolve import edge_columns as col
from berthage_presolve import kernels_consistency as kernels
from berthage_presolve.outcome import Contradiction, Outcome
from berthage_presolve.state import Array, BoolArray, Work
from berthage_presolve.transform import keep_labels


def arc_consistency(work: Work) -> Outcome:
    """Propagate forbidden labels and pairs.

    Raises:
        Contradiction: When a variable loses every label.
    """
    edges = work.edges[forbidding(work)]
    alive = np.isfinite(work.unary)
    cause = np.full(len(alive), -1, dtype=np.int64)
    empty = first_empty(work, alive)
    if empty < 0:
        ptr, halves = kernels.incidence(work.size, edges)
        empty = kernels.propagate(work.ptr, alive, cause, edges, work.maps, work.cells, ptr, halves)
    if empty >= 0:
        raise Contradiction(_explain(work, edges, alive, cause, int(empty)))
    gone = int(len(alive) - alive.sum())
    if not gone:
        return Outcome(work)
    new, step = keep_labels(work, alive)
    return Outcome(new, (step,), {"labels without a partner": gone}, True)


def forbidding(work: Work) -> BoolArray:
    """bool[m]: edges whose stored cells hold an infinite cost, and ties."""
    edges = work.edges
    found: BoolArray = edges[:, col.KIND] == col.TIE
    stored = np.flatnonzero(edges[:, col.KIND] == col.COST)
    at, first, which = np.unique(edges[stored, col.AT], return_index=True, return_inverse=True)
    size = (edges[:, col.ROWS] * edges[:, col.COLS])[stored[first]]
    found[stored] = kernels.has_infinite(at, size, work.cells)[which]
    return found


def first_empty(work: Work, alive: BoolArray) -> int:
    """The first variable without a live label, or -1."""
    if not work.size:
        return -1
    empty = np.flatnonzero(~np.logical_or.reduceat(alive, work.ptr[:-1]))
    return int(empty[0]) if len(empty) else -1


def _explain(work: Work, edges: Array, alive: BoolArray, cause: Array, variable: int) -> Infeasibility:
    """Follow the causes of removals back from the variable that has no label left."""
    problem = work.problem
    names: dict[str, None] = {}
    seen, queue = {variable}, [variable]
    while queue and len(names) < 64:
        v = queue.pop(0)
        labels = slice(int(work.ptr[v]), int(work.ptr[v + 1]))
        rows = work.cause[labels]
        names.update({problem.relations.names[row]: None for row in np.unique(rows[rows >= 0]).tolist()})
        for e in np.unique(cause[labels][~alive[labels] & (cause[labels] >= 0)]).tolist():
            u, w = int(edges[e, col.U]), int(edges[e, col.V])
            row = int(edges[e, col.RELATION])
            first, second = work.names(np.array([u, w]))
            names[problem.relations.names[row] if row >= 0 else f"{first} -- {second}"] = None
            for other in (u, w):
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
    name = work.names(np.array([variable]))[0]
    known = tuple(names) or (name,)
    shown = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
    detail = (
        f"variable {name!r} has no label left: {shown} forbid all of them"
        if names
        else (f"variable {name!r} has no label left: infinite costs forbid all of them")
    )
    constraints = tuple(n for n in known if n in set(problem.constraint_names))
    return Infeasibility(detail, constraints or (name,))
