"""The way back: each reduction of a `Work` leaves a step that lifts assignments and projects them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from berthage_presolve import kernels_elimination
from berthage_presolve.state import Array, spans


class Step(Protocol):
    """One exact change of the problem."""

    def lift(self, labels: Array) -> Array:
        """Labels before the step, for labels after it."""
        ...

    def project(self, labels: Array) -> Array | None:
        """Labels after the step, for labels before it; None when they are infeasible."""
        ...


@dataclass(frozen=True, slots=True)
class Remap:
    """Labels were removed or variables merged: an old variable follows one new variable.

    Attributes:
        new_of: int64[n], new variable of each old one.
        at: int64[n], where the old variable's entries start in `label`.
        label: int64, old label for each label of the new variable.
        counts: int64[n'], labels of the new variables.
    """

    new_of: Array
    at: Array
    label: Array
    counts: Array

    def lift(self, labels: Array) -> Array:
        """See `Step.lift`."""
        lifted: Array = self.label[self.at + labels[self.new_of]]
        return lifted

    def project(self, labels: Array) -> Array | None:
        """See `Step.project`."""
        counts = self.counts[self.new_of]
        agrees = self.label[spans(self.at, counts)] == np.repeat(labels, counts)
        ptr = np.concatenate([[0], np.cumsum(self.counts)])
        where = spans(ptr[:-1][self.new_of], counts)
        votes = np.bincount(where[agrees], minlength=int(ptr[-1]))
        members = np.bincount(self.new_of, minlength=len(self.counts))
        good = np.flatnonzero(votes == np.repeat(members, self.counts))
        owner = np.repeat(np.arange(len(self.counts)), self.counts)[good]
        chosen = np.full(len(self.counts), -1, dtype=np.int64)
        chosen[owner[::-1]] = good[::-1] - ptr[owner[::-1]]  # the first of several
        return None if (chosen < 0).any() else chosen


@dataclass(frozen=True, slots=True)
class Replace:
    """Dominated labels: where one was chosen, another is at least as good. Applied before the labels are removed.

    Attributes:
        var: int64[r], variables in the order of removal.
        loser: int64[r], the removed label.
        winner: int64[r], the label that replaces it.
    """

    var: Array
    loser: Array
    winner: Array

    def lift(self, labels: Array) -> Array:
        """See `Step.lift`."""
        return labels

    def project(self, labels: Array) -> Array | None:
        """See `Step.project`."""
        better = labels.copy()
        for v, loser, winner in zip(self.var.tolist(), self.loser.tolist(), self.winner.tolist(), strict=True):
            if better[v] == loser:
                better[v] = winner
        return better


@dataclass(frozen=True, slots=True)
class Drop:
    """Variables were removed because they have one label and nothing depends on it.

    Attributes:
        kept: int64[n'], old index of each new variable.
        count: Number of old variables.
    """

    kept: Array
    count: int

    def lift(self, labels: Array) -> Array:
        """See `Step.lift`."""
        lifted = np.zeros(self.count, dtype=np.int64)
        lifted[self.kept] = labels
        return lifted

    def project(self, labels: Array) -> Array | None:
        """See `Step.project`."""
        kept: Array = labels[self.kept]
        return kept


@dataclass(frozen=True, slots=True)
class Eliminated:
    """Variables were minimised out; the state at that time is kept to choose their labels again.

    Attributes:
        kept: int64[n'], old index of each new variable.
        ptr: int64[n+1].
        unary: float64, costs of eliminated variables as they were when eliminated.
        edges: int64[·, WIDTH].
        mult: float64.
        maps: int32.
        cells: float64.
        order: int64, eliminated variables in order.
        used: int64[·, 2], edges they had then, -1 for none.
    """

    kept: Array
    ptr: Array
    unary: Array
    edges: Array
    mult: Array
    maps: Array
    cells: Array
    order: Array
    used: Array

    def lift(self, labels: Array) -> Array:
        """See `Step.lift`."""
        lifted = np.zeros(len(self.ptr) - 1, dtype=np.int64)
        lifted[self.kept] = labels
        kernels_elimination.choose_eliminated(
            self.ptr, self.unary, self.edges, self.mult, self.maps, self.cells, self.order, self.used, lifted
        )
        return lifted

    def project(self, labels: Array) -> Array | None:
        """See `Step.project`."""
        kept: Array = labels[self.kept]
        return kept
