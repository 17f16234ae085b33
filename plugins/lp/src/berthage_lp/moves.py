"""What each label would cost given the labels of all other variables, from the arrays of a program."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from berthage.linear import LinearProgram, segment_argmax

__all__ = ["Moves"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Moves:
    """Conditional costs of single-variable moves. A *choice* is one label column a group, ``int64[G]``.

    Args:
        program: The program whose groups, pairs and costs are used; budgets play no part here.
    """

    def __init__(self, program: LinearProgram) -> None:
        self.program = program
        self.num_labels = int(program.group_ptr[-1])
        sizes = np.diff(program.group_ptr)
        self.group_of_column = np.repeat(np.arange(len(sizes)), sizes)
        labels = slice(0, self.num_labels)
        self._own = np.where(program.upper[labels] > 0.0, program.cost[labels], np.inf)
        cells = program.pair_cells
        known = (cells >= 0) & (program.upper[np.maximum(cells, 0)] > 0.0) if len(program.cost) else cells >= 0
        self._cell_cost = np.where(known, program.cost[np.maximum(cells, 0)] if len(cells) else 0.0, np.inf)
        first, second = program.pair_first, program.pair_second
        start = program.pair_class_ptr[:-1]
        self._first_class = start
        self._second_class = start + sizes[first]
        self._sides = (
            self._side(first, self._first_class, sizes),
            self._side(second, self._second_class, sizes),
        )

    def _side(self, groups: Ints, starts: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
        """``(pair, column, class)`` of every label on one side of every pair."""
        count = sizes[groups]
        pair = np.repeat(np.arange(len(groups)), count)
        within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        column = self.program.group_ptr[groups][pair] + within
        return pair, column, self.program.pair_classes[starts[pair] + within]

    def cheapest(self) -> Ints:
        """The cheapest label column of every group, pairs left out."""
        return segment_argmax(-self._own, self.program.group_ptr)

    def choice(self, assignment: NDArray[np.int32]) -> Ints:
        """The label columns of an assignment (its labels must all have one)."""
        program = self.program
        choice = np.zeros(len(program.group_ptr) - 1, dtype=np.int64)
        choice[program.group_of] = program.col_of_label[program.label_ptr[:-1] + assignment]
        return choice

    def assignment(self, choice: Ints) -> NDArray[np.int32]:
        """The assignment that a choice stands for."""
        program = self.program
        within = (choice - program.group_ptr[:-1])[program.group_of]
        return program.sel[program.sel_ptr[:-1] + within].astype(np.int32)

    def costs(self, choice: Ints) -> Floats:
        """``float64[label columns]`` cost of each label while all other groups keep their choice; inf: forbidden."""
        program = self.program
        local = choice - program.group_ptr[:-1]
        class_first = program.pair_classes[self._first_class + local[program.pair_first]]
        class_second = program.pair_classes[self._second_class + local[program.pair_second]]
        total = self._own.copy()
        for (pair, column, own), other, first in (
            (self._sides[0], class_second, True),
            (self._sides[1], class_first, False),
        ):
            theirs = other[pair]
            width = program.pair_width[pair]
            row, col = (own, theirs) if first else (theirs, own)
            dead = (own < 0) | (theirs < 0)
            cell = program.pair_cell_ptr[pair] + np.maximum(row, 0) * width + np.maximum(col, 0)
            cost = np.where(dead, np.inf, self._cell_cost[cell])
            total += np.bincount(column, weights=cost, minlength=self.num_labels)
        return total

    def neighbours(self, groups: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Groups that share a pair with any of the marked ones."""
        program = self.program
        near = np.zeros(len(groups), dtype=bool)
        near[program.pair_second[groups[program.pair_first]]] = True
        near[program.pair_first[groups[program.pair_second]]] = True
        return near
