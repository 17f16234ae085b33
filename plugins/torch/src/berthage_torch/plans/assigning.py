"""The placements of a plan as an assignment of a problem, and what does not fit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem
from berthage_nccl import placements as codes
from berthage_torch.graph import Node
from berthage_torch.pricing.strategies import Strategies
from berthage_torch.searching.building import BuiltProblem

from .placed import strategy
from .plan import Plan

__all__ = ["Followers", "Misfit", "labels_of"]

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A placement of a plan that a graph does not allow.

    Attributes:
        node: The node.
        placement: What the plan says.
        why: Why it cannot be.
    """

    node: str
    placement: str
    why: str


class Followers:
    """The variables of a problem that follow from the others: the copies of tensors, where memory over time is limited.

    Of a shared copy the placement is a decision, and only whether it was moved there follows; a copy for one user lies
    where that wants it.

    Args:
        built: The problem.
    """

    def __init__(self, built: BuiltProblem) -> None:
        self._problem: PlacementProblem = built.problem
        self._aliases = [
            alias for alias in built.aliases.values() if len(_unique(alias.placements)) < len(alias.placements)
        ]
        decided = np.zeros(self._problem.num_variables, dtype=np.bool_)
        decided[built.variable] = True
        decided[[alias.variable for alias in built.aliases.values()]] = True
        self._copies = np.flatnonzero(~decided).tolist()
        self._edges: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        following = {*self._copies, *(alias.variable for alias in self._aliases)}
        ends = zip(self._problem.edge_u.tolist(), self._problem.edge_v.tolist(), strict=True)
        for edge, (u, v) in enumerate(ends):
            if u in following:
                self._edges[u].append((edge, v, False))
            if v in following:
                self._edges[v].append((edge, u, True))

    def settle(self, x: Int32) -> None:
        """Let them follow, in place: ``int32[n]``, the others set, of shared copies any label of their placement."""
        held = [(alias, alias.placements[x[alias.variable]]) for alias in self._aliases]
        known = np.ones(len(x), dtype=np.bool_)
        known[self._copies] = False
        known[[alias.variable for alias in self._aliases]] = False
        for alias, placement in held:
            labels = np.flatnonzero((alias.placements == placement).all(axis=1))
            self._choose(x, known, alias.variable, labels)
        for variable in self._copies:
            self._choose(x, known, variable, np.arange(self._problem.num_labels[variable], dtype=np.int64))

    def _choose(self, x: Int32, known: npt.NDArray[np.bool_], variable: int, labels: Int64) -> None:
        """The label that costs least with the neighbours that are known; nearly always all others are impossible."""
        costs = self._problem.unary_of(variable)[labels].copy()
        for edge, other, flipped in self._edges[variable]:
            if known[other]:
                table, end = self._problem.tables[self._problem.edge_table[edge]], int(x[other])
                costs += table.lookup(end, labels) if flipped else table.lookup(labels, end)
        x[variable] = int(labels[int(np.argmin(costs))])
        known[variable] = True


def _unique(placements: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    return np.unique(placements, axis=0)


def labels_of(plan: Plan, built: BuiltProblem) -> tuple[npt.NDArray[np.int32] | None, tuple[Misfit, ...]]:
    """The assignment that the placements of a plan are in a problem.

    Returns:
        ``int32[n]``, or None and what does not fit.
    """
    x = np.full(built.problem.num_variables, -1, dtype=np.int32)
    misfits: list[Misfit] = []
    by_name = built.graph.by_name
    known: dict[tuple[Strategies, tuple[str, ...], tuple[str, ...]], tuple[int, str]] = {}

    def put(node: str, placement: str, variable: int, label: int, why: str) -> None:
        if label < 0:
            misfits.append(Misfit(node, placement, why))
        elif x[variable] not in (-1, label):
            misfits.append(Misfit(node, placement, "a node that is tied to it is placed otherwise"))
        else:
            x[variable] = label

    for planned in plan.nodes:
        node = by_name[planned.name]
        space = built.strategies[node.index]
        key = (space, planned.inputs, planned.outputs)
        if key not in known:
            inputs, outputs = ([codes.parse(text).tolist() for text in side] for side in key[1:])
            found = space.find(inputs, outputs)
            known[key] = (found, _why_not(node, space, inputs, outputs) if found < 0 else "")
        placement = strategy(planned.inputs, planned.outputs)
        put(planned.name, placement, int(built.variable[node.index]), *known[key])
    for edge in plan.edges:
        if edge.consumer:
            continue
        alias = built.aliases.get((int(built.groups[by_name[edge.producer].index]), edge.output))
        if alias is None:
            misfits.append(Misfit(edge.producer, edge.after, "it is not shared by several users"))
            continue
        hits = np.flatnonzero((alias.placements == np.array(codes.parse(edge.after), dtype=np.int8)).all(axis=1))
        label = int(hits[0]) if len(hits) else -1
        put(edge.producer, edge.after, alias.variable, label, "no user of it can be placed so")
    if misfits:
        return None, tuple(misfits)
    said = np.concatenate([built.variable, [alias.variable for alias in built.aliases.values()]]).astype(np.int64)
    silent = np.flatnonzero(x[said] < 0)
    if len(silent):
        first = built.problem.variable_names[int(said[silent[0]])]
        return None, (Misfit(first, "", "the plan says nothing of it"),)
    Followers(built).settle(x)
    return x, ()


def _why_not(node: Node, space: Strategies, inputs: list[list[int]], outputs: list[list[int]]) -> str:
    """Which tensor of a node cannot be placed as wanted, with its shape."""
    sides = (("argument", space.metas, space.inputs, inputs), ("output", node.outputs, space.outputs, outputs))
    for word, metas, possible, wanted in sides:
        for place, (meta, row) in enumerate(zip(metas, wanted, strict=True)):
            if not (possible[:, place] == np.array(row, dtype=np.int8)).all(axis=1).any():
                shape = () if meta is None else meta.shape
                return f"its {word} {place} of shape {tuple(shape)} cannot be {codes.format(row)}"
    return "its tensors cannot be placed so together"
