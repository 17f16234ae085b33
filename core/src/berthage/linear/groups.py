"""Label columns: which labels get a 0/1 column, and which variables share theirs through ties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from berthage.linear.ragged import components, ragged, starts_of
from berthage.problem.relations import RelationKind

if TYPE_CHECKING:
    from berthage.problem.model import PlacementProblem

__all__ = ["Groups", "group_labels"]


@dataclass(frozen=True, slots=True)
class Groups:
    """Variables merged by one-to-one ties, and the label columns they share.

    Attributes:
        group_of: ``int64[n]`` group of each variable.
        root: ``int64[G]`` the first variable of each group.
        ptr: ``int64[G+1]`` label columns of group ``g`` are ``ptr[g]:ptr[g+1]``.
        col_of_label: ``int64[sum K]`` column of each flat label, -1 where the label is forbidden.
        sel_ptr, sel: the label of variable ``v`` that goes with the i-th column of its group is
            ``sel[sel_ptr[v] + i]``.
        loose_ties: rows of the relations whose tie is not one to one (kept as pair relations).
    """

    group_of: NDArray[np.int64]
    root: NDArray[np.int64]
    ptr: NDArray[np.int64]
    col_of_label: NDArray[np.int64]
    sel_ptr: NDArray[np.int64]
    sel: NDArray[np.int64]
    loose_ties: NDArray[np.int64]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of label columns of each group."""
        return np.diff(self.ptr)


def group_labels(problem: PlacementProblem) -> Groups:
    """Merge variables joined by one-to-one ties and number the columns of the labels that remain allowed."""
    label_ptr = np.asarray(problem.label_ptr, dtype=np.int64)
    num_labels = np.diff(label_ptr)
    total = int(label_ptr[-1])
    n = problem.num_variables
    allowed = np.isfinite(problem.unary)
    kinds = np.asarray(problem.relations.kind)
    _apply_label_relations(problem, allowed, np.flatnonzero(kinds == RelationKind.LABELS))
    ties = np.flatnonzero(kinds == RelationKind.TIE)
    var_of_label = np.repeat(np.arange(n, dtype=np.int64), num_labels)
    if not len(ties):
        canon, group_root, loose = np.arange(total, dtype=np.int64), np.arange(n, dtype=np.int64), ties
    else:
        canon, group_root, loose = _merge(problem, allowed, ties, var_of_label)
    root, group_of = np.unique(group_root, return_inverse=True)
    group_of = group_of.reshape(-1).astype(np.int64)
    # A column stands for a label of the root variable that is still allowed.
    rooted = group_root[var_of_label] == var_of_label
    is_col = rooted & allowed
    col_of_canon = np.full(total, -1, dtype=np.int64)
    col_of_canon[is_col] = np.arange(int(is_col.sum()), dtype=np.int64)
    col_of_label = np.where(allowed, col_of_canon[canon], -1)
    ptr = starts_of(np.bincount(group_of[var_of_label[is_col]], minlength=len(root)))
    sizes = np.diff(ptr)
    sel_ptr = starts_of(sizes[group_of])
    sel = np.zeros(int(sel_ptr[-1]), dtype=np.int64)
    used = np.flatnonzero(col_of_label >= 0)
    owner = var_of_label[used]
    sel[sel_ptr[owner] + col_of_label[used] - ptr[group_of[owner]]] = used - label_ptr[owner]
    return Groups(group_of, root, ptr, col_of_label, sel_ptr, sel, loose)


def _apply_label_relations(problem: PlacementProblem, allowed: NDArray[np.bool_], rows: NDArray[Any]) -> None:
    relations = problem.relations
    for row in rows:
        u = relations.u[row]
        allowed[problem.label_ptr[u] : problem.label_ptr[u + 1]] &= relations.arrays[relations.data[row]]


def _merge(
    problem: PlacementProblem,
    allowed: NDArray[np.bool_],
    ties: NDArray[Any],
    var_of_label: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Merge one-to-one ties; narrows ``allowed`` in place.

    Labels joined by ties form classes. A class can be chosen exactly when it holds one label of every
    variable of the group, each of them allowed; any other class contradicts a tie.
    """
    relations = problem.relations
    label_ptr = np.asarray(problem.label_ptr, dtype=np.int64)
    num_labels = np.diff(label_ptr)
    u = np.asarray(relations.u, dtype=np.int64)[ties]
    v = np.asarray(relations.v, dtype=np.int64)[ties]
    target = np.concatenate([np.asarray(relations.arrays[d], dtype=np.int64) for d in relations.data[ties]])
    flat_u, tie = ragged(label_ptr[u], num_labels[u])
    allowed[flat_u[target < 0]] = False
    flat_v = label_ptr[v][tie] + np.maximum(target, 0)
    live = (target >= 0) & allowed[flat_u] & allowed[flat_v]
    # A live pair whose other end is forbidden forbids this end as well.
    allowed[flat_u[(target >= 0) & ~allowed[flat_v]]] = False
    flat_u, flat_v, tie = flat_u[live], flat_v[live], tie[live]
    order = np.lexsort((flat_v, tie))
    same = (tie[order][1:] == tie[order][:-1]) & (flat_v[order][1:] == flat_v[order][:-1])
    loose = np.zeros(len(ties), dtype=bool)
    loose[tie[order][1:][same]] = True
    keep = ~loose[tie]
    canon = components(len(allowed), flat_u[keep], flat_v[keep])
    group_root = components(problem.num_variables, u[~loose], v[~loose])
    group_size = np.bincount(group_root, minlength=problem.num_variables)
    members = np.bincount(canon, minlength=len(allowed))
    holders = np.unique(canon * problem.num_variables + var_of_label)
    distinct = np.bincount(holders // max(problem.num_variables, 1), minlength=len(allowed))
    barred = np.bincount(canon[~allowed], minlength=len(allowed)) > 0
    whole = group_size[group_root[var_of_label[canon]]]
    good = (members == whole) & (distinct == members) & ~barred
    allowed &= good[canon]
    return canon, group_root, ties[loose]
