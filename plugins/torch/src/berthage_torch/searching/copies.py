"""Copies of tensors as variables of their own: where each is wanted, and whether it had to be moved to be there.

They are in a problem only where memory over time is limited: that a copy takes memory depends on both ends of an edge,
and a budget sees one variable at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, DenseTable, LabelSet, ProblemBuilder
from berthage_nccl import placements as codes
from berthage_torch.graph import TensorMeta
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.strategies import Int8, Int32

from .holdings import Holding

__all__ = ["Copies", "Copy", "add_copy", "follow"]


@dataclass(frozen=True, eq=False)
class Copy:
    """A tensor at one end of an edge.

    Attributes:
        variable: Its variable.
        placements: ``int8[L, D]``, where each label has it.
        moved: ``bool[L]``, whether it was moved to be there.
    """

    variable: int
    placements: Int8
    moved: npt.NDArray[np.bool_]

    @property
    def classes(self) -> tuple[Int8, Int32]:
        """The placements as `Pricer.table` takes them."""
        return self.placements, np.arange(len(self.placements), dtype=np.int32)


def add_copy(
    builder: ProblemBuilder,
    pricer: Pricer,
    name: str,
    meta: TensorMeta,
    producer: int,
    produced: tuple[Int8, Int32],
    targets: Int8,
    count: int,
) -> Copy:
    """Add a copy and what it costs to make it.

    Args:
        builder: The problem under construction.
        pricer: Where prices come from.
        name: Name of the variable.
        meta: The tensor.
        producer: Variable of what it is made from.
        produced: Distinct placements of that ``int8[S, D]``, and the class of each label.
        targets: ``int8[T, D]``, where it may be wanted.
        count: How many copies of a layer it stands for.
    """
    sources, rows = produced
    equal = (sources[:, None] == targets[None]).all(axis=2)
    us = pricer.redistribution(meta, sources, targets)
    costs = np.concatenate([np.where(equal, us, np.inf), np.where(equal, np.inf, us)], axis=1)
    possible = np.isfinite(costs).any(axis=0)
    placements = np.concatenate([targets, targets])[possible]
    moved = np.repeat([False, True], len(targets))[possible]
    names = [codes.format(row) + (" moved" if far else "") for row, far in zip(placements.tolist(), moved, strict=True)]
    variable = builder.add_variable(name, LabelSet.of(names, placements.astype(np.int32)), multiplicity=count)
    columns = np.arange(len(placements), dtype=np.int32)
    table = ClassedTable(DenseTable(costs[:, possible]), rows, columns)
    builder.add_pairwise(producer, variable, table, multiplicity=count)
    return Copy(variable, placements, moved)


def follow(builder: ProblemBuilder, copy: Copy, consumer: int, wanted: tuple[Int8, Int32]) -> None:
    """Let a copy lie where its only user wants it."""
    targets, columns = wanted
    equal = (copy.placements[:, None] == targets[None]).all(axis=2)
    table = ClassedTable(DenseTable(np.where(equal, 0.0, np.inf)), copy.classes[1], columns)
    builder.add_pairwise(copy.variable, consumer, table)


@dataclass(frozen=True, eq=False)
class Copies:
    """The copies in a problem.

    Attributes:
        groups: ``int64[nodes]``, the first node of each node's group.
        shared: Shared copies by (first node of the producer's group, output).
        along: Copies for single users, by whether it comes from a shared one, producer's group, output, consumer's
            group and position.
    """

    groups: npt.NDArray[np.int64]
    shared: dict[tuple[int, int], Copy] = field(default_factory=dict)
    along: dict[tuple[bool, int, int, int, int], Copy] = field(default_factory=dict)

    def of(self, held: Holding) -> Copy | None:
        """The copy that a holding is, or None: it is what was produced, or what lies as produced."""
        index, output = held.tensor
        u = int(self.groups[index])
        if held.edge is None:
            return self.shared[u, output] if held.shared else None
        v = int(self.groups[held.edge.consumer])
        return self.along.get((held.shared, u, output, v, held.edge.position))
