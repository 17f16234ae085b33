"""Strategies that a search could not offer because of the sizes of tensors, summed up by operation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berthage_torch.pricing.strategies import Strategies

__all__ = ["LeftOut", "left_out"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What an operation was not offered.

    Attributes:
        op: The operation; the kind of a node that is none.
        node: The first node where it happened.
        uneven: Strategies whose shards would be uneven where the operation cannot run on uneven ones.
        empty: Strategies that would leave a rank without an element.
    """

    op: str
    node: str
    uneven: int
    empty: int


def left_out(strategies: Iterable[Strategies]) -> tuple[LeftOut, ...]:
    """What was left out of the strategies of nodes, each distinct one counted once; by operation."""
    found: dict[str, LeftOut] = {}
    for each in dict.fromkeys(strategies):
        if not each.uneven and not each.empty:
            continue
        op = each.node.op or each.node.kind
        before = found.get(op, LeftOut(op, each.node.name, 0, 0))
        found[op] = LeftOut(op, before.node, before.uneven + each.uneven, before.empty + each.empty)
    return tuple(found[op] for op in sorted(found))
