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

    def agree(self, value: int, trouble: str) -> None:
        """Compare a value over all ranks.

        Args:
            value: The same on every rank if all is well.
            trouble: What is wrong on this rank; "" when nothing is.

        Raises:
            ApplyError: On every rank, when something is wrong on any, or values differ.
        """
        told: list[Any] = [(value, trouble)]
        if self._many > 1:
            told = [None] * self._many
            try:
                dist.all_gather_object(told, (value, trouble), group=self._group)
            except RuntimeError as error:
                raise ApplyError(
                    f"{trouble or 'sizes changed on this rank'}; the other ranks did not answer ({str(error)[:200]})"
                ) from error
        wrong: dict[str, list[str]] = {}
        for rank, (_, text) in enumerate(told):
            if text:
                wrong.setdefault(text, []).append(str(rank))
        if wrong:
            raise ApplyError("; ".join(f"rank {', '.join(ranks)}: {text}" for text, ranks in list(wrong.items())[:4]))
        if len({found for found, _ in told}) > 1:
            values = ", ".join(f"{found} on rank {rank}" for rank, (found, _) in enumerate(told))
            raise ApplyError(f"the ranks were called with parts of batches of different sizes: {values}")
