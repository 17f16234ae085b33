"""Reductions: turning a problem into smaller equivalent ones before any solver, and lifting the answer back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from berthage.errors import PluginError
from berthage.evaluation import evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.solving.context import RunContext
from berthage.solving.results import Infeasibility

__all__ = ["Reduced", "Reduction", "ReductionChain", "run_chain"]

Report = Mapping[str, int | float | str | bool]


class Reduced(Protocol):
    """What a reduction makes of a problem.

    The sum of the parts' objectives, constants included, is the objective of the lifted assignment, up to
    `bound_error`; the least such sum is the optimum of the original.
    """

    @property
    def parts(self) -> tuple[PlacementProblem, ...]:
        """The smaller problems: usually one, several when components were split, none when all is decided."""
        ...

    @property
    def infeasibility(self) -> Infeasibility | None:
        """Set when the reduction proved that there is no assignment; the parts are then not looked at."""
        ...

    @property
    def report(self) -> Report:
        """What was removed, by name."""
        ...

    @property
    def bound_error(self) -> float:
        """Absolute rounding error of combined costs; core subtracts it from lifted bounds."""
        ...

    def lift(self, assignments: Sequence[Int32Array]) -> Int32Array:
        """The original assignment, int32[n], that the parts' assignments stand for."""
        ...

    def project(self, assignment: Int32Array) -> tuple[Int32Array, ...] | None:
        """The parts' assignments for an original one; None when it uses something that was removed."""
        ...


class Reduction(Protocol):
    """A reduction, made by calling its description's target without arguments."""

    def reduce(self, problem: PlacementProblem, context: RunContext) -> Reduced:
        """Reduce a problem. The problem itself is not changed."""
        ...


@dataclass(slots=True)
class _Node:
    problem: PlacementProblem
    name: str = ""
    reduced: Reduced | None = None
    children: list[_Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReductionChain:
    """A problem reduced by a chain of reductions, and the way back.

    Attributes:
        parts: What is left to solve.
        infeasibility: Set when a reduction proved that there is no assignment.
        reports: ``(reduction, report)``, in the order in which they ran.
        bound_error: Absolute rounding error to subtract from the sum of the parts' bounds.
    """

    _root: _Node
    parts: tuple[PlacementProblem, ...]
    infeasibility: Infeasibility | None
    reports: tuple[tuple[str, Report], ...]
    bound_error: float

    def lift(self, assignments: Sequence[Int32Array]) -> Int32Array:
        """The original assignment that assignments of the parts stand for.

        Raises:
            PluginError: When a reduction's lift does not give a feasible assignment of the promised cost.
        """
        queue = iter(assignments)
        return _lift(self._root, queue)

    def project(self, assignment: Int32Array) -> tuple[Int32Array, ...] | None:
        """Assignments of the parts for an original one, or None."""
        return _project(self._root, assignment)


def run_chain(
    problem: PlacementProblem, reductions: Sequence[tuple[str, Reduction]], context: RunContext
) -> ReductionChain:
    """Apply reductions one after the other, each to every part the one before left."""
    root = _Node(problem)
    leaves = [root]
    reports: list[tuple[str, Report]] = []
    error = 0.0
    for name, reduction in reductions:
        if context.stop_reason() is not None:
            break
        grown: list[_Node] = []
        for leaf in leaves:
            reduced = reduction.reduce(leaf.problem, context)
            reports.append((name, dict(reduced.report)))
            if reduced.infeasibility is not None:
                return ReductionChain(root, (), reduced.infeasibility, tuple(reports), 0.0)
            error += float(reduced.bound_error)
            leaf.name, leaf.reduced = name, reduced
            leaf.children = [_Node(part) for part in reduced.parts]
            grown += leaf.children
        leaves = grown
    return ReductionChain(root, tuple(leaf.problem for leaf in leaves), None, tuple(reports), error)


def _lift(node: _Node, queue: Iterator[Int32Array]) -> Int32Array:
    if node.reduced is None:
        return next(queue)
    parts = [_lift(child, queue) for child in node.children]
    lifted = np.asarray(node.reduced.lift(parts))
    evaluation = evaluate(node.problem, lifted)
    promised = [evaluate(child.problem, part) for child, part in zip(node.children, parts, strict=True)]
    if all(part.feasible for part in promised):
        total = sum(part.objective for part in promised)
        slack = (
            1e-9 * max(1.0, abs(float(total)), *(abs(float(p.objective)) for p in promised))
            + 2.0 * node.reduced.bound_error
        )
        if not evaluation.feasible or abs(float(evaluation.objective - total)) > slack:
            raise PluginError(
                f"reduction {node.name!r} lifted an assignment of cost {total} to one of cost {evaluation.objective}"
                f"{''.join(f'; {v.detail}' for v in evaluation.violations[:3])}: this is a bug in that reduction"
            )
    return lifted.astype(np.int32)


def _project(node: _Node, assignment: Int32Array) -> tuple[Int32Array, ...] | None:
    if node.reduced is None:
        return (assignment,)
    parts = node.reduced.project(assignment)
    if parts is None:
        return None
    collected: list[Int32Array] = []
    for child, part in zip(node.children, parts, strict=True):
        below = _project(child, part)
        if below is None:
            return None
        collected += below
    return tuple(collected)
