"""All ranks agree before sizes change, so that what is wrong on one is an error on all and not a hang."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from berthage_torch.errors import ApplyError

__all__ = ["Council"]

PATIENCE = timedelta(seconds=120)
"""How long a rank waits for the others. They come from the same place in the same program: what takes longer is a
rank that never comes. Lowering, the slowest that a rank does between two calls, takes seconds."""


class Council:
    """The ranks of a mesh, on a process group of their own.

    Args:
        mesh: The mesh. All its ranks make this object together.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        ranks = mesh.mesh.flatten().tolist()
        self._many = len(ranks)
        self._group: Any = None
        if self._many > 1:
            self._group = dist.new_group(ranks, timeout=PATIENCE, backend="gloo", use_local_synchronization=True)

    def agree(self, value: int, trouble: str, about: str, expected: str) -> None:
        """Compare a value over all ranks.

        Args:
            value: The batch size, the same on every rank if all is well.
            about: What this rank has of the inputs.
            expected: What it has at the plan's sizes.
            trouble: What is wrong on this rank; "" when nothing is.

        Raises:
            ApplyError: On every rank, when something is wrong on any, or values differ.
        """
        mine = (value, trouble, about)
        told: list[Any] = [mine]
        if self._many > 1:
            told = [None] * self._many
            try:
                dist.all_gather_object(told, mine, group=self._group)
            except RuntimeError as error:
                raise ApplyError(
                    f"{trouble or 'sizes changed on this rank'}; the other ranks did not answer ({str(error)[:200]})"
                ) from error
        wrong = _by_rank([text for _, text, _ in told])
        if wrong:
            raise ApplyError(wrong)
        if len({found for found, _, _ in told}) > 1:
            have = _by_rank([f"{text} of a batch of {found}" for found, _, text in told])
            raise ApplyError(f"the ranks hold parts of different batches: {have}; here the plan expects {expected}")


def _by_rank(texts: list[str]) -> str:
    """What is told, and by which ranks; of many different things the first four."""
    found: dict[str, list[str]] = {}
    for rank, text in enumerate(texts):
        if text:
            found.setdefault(text, []).append(str(rank))
    return "; ".join(f"rank {', '.join(ranks)}: {text}" for text, ranks in list(found.items())[:4])
