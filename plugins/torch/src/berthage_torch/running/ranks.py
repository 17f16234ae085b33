"""The ranks of a run: what one of them does for all, and how all hear of what goes wrong on one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from berthage import BerthageError, OptionError

__all__ = ["RankError", "Ranks", "ranks_of_run"]

PATIENCE = timedelta(minutes=30)
"""How long ranks wait for the one that searches. A search has a time limit of its own; a rank that dies is noticed at
once, because its connections close."""


class RankError(BerthageError):
    """Something went wrong on another rank; the message is that rank's."""


@dataclass(frozen=True)
class Ranks:
    """This rank among all.

    Attributes:
        rank: Its number.
        many: How many there are.
        device: Where it computes.
    """

    rank: int
    many: int
    device: torch.device
    _group: Any

    @property
    def first(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def once(self, work: Callable[[], bytes]) -> bytes:
        """Do something on rank 0 alone, and give every rank what it returned.

        Raises:
            RankError: It failed; rank 0 raises its own error.
        """
        told, trouble = b"", None
        if self.first:
            try:
                told = b"+" + work()
            except Exception as error:
                trouble, told = error, b"-" + str(error).encode()
        told = self._broadcast(told)
        if trouble is not None:
            raise trouble
        if told[:1] == b"-":
            raise RankError(f"rank 0: {told[1:].decode()}")
        return told[1:]

    def gather(self, value: Any) -> list[Any]:
        """A JSON value of every rank, on every rank."""
        mine = json.dumps(value).encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.many)]
        dist.all_gather(sizes, torch.tensor([len(mine)]), group=self._group)
        longest = max(int(size) for size in sizes)
        padded = torch.tensor(list(mine.ljust(longest)), dtype=torch.uint8)
        parts = [torch.empty_like(padded) for _ in range(self.many)]
        dist.all_gather(parts, padded, group=self._group)
        return [json.loads(bytes(part.tolist())) for part in parts]

    def _broadcast(self, told: bytes) -> bytes:
        try:
            size = torch.tensor([len(told)])
            dist.broadcast(size, 0, group=self._group)
            data = torch.frombuffer(bytearray(told), dtype=torch.uint8) if told else torch.empty(int(size)).byte()
            dist.broadcast(data, 0, group=self._group)
        except RuntimeError as error:
            raise RankError(f"rank 0 does not answer: {str(error)[:200]}") from error
        return data.numpy().tobytes()


@contextmanager
def ranks_of_run(many: int) -> Iterator[Ranks]:
    """Join the ranks that ``torchrun`` started: NCCL where there is a GPU for each, gloo on CPUs otherwise.

    Args:
        many: How many ranks the mesh has.

    Raises:
        OptionError: There are not that many.
    """
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != many:
        raise OptionError(
            f"the mesh has {many} ranks and {started} {'process runs' if started == 1 else 'processes run'}: "
            f"torchrun --nproc-per-node {many} --no-python berthage run …"
        )
    local = int(os.environ.get("LOCAL_RANK", "0"))
    gpu = torch.cuda.is_available() and torch.cuda.device_count() > local
    if gpu:
        torch.cuda.set_device(local)
    backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
    alone = "WORLD_SIZE" not in os.environ
    if alone:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group(backend)
    try:
        device = torch.device("cuda", local) if gpu else torch.device("cpu")
        yield Ranks(dist.get_rank(), many, device, dist.new_group(backend="gloo", timeout=PATIENCE))
    finally:
        dist.destroy_process_group()
