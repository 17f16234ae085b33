"""Ranks as processes, with gloo: what a test calls on each of them, and what they give back."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from berthage_torch import Plan

__all__ = ["run_ranks"]


def run_ranks(work: Callable[..., Any], ranks: int, *args: Any, timeout: float = 240.0) -> list[Any]:
    """Run ``work(*args)`` on so many ranks, each a process of its own with a gloo process group.

    Args:
        work: A function at the top of a module. What it returns is saved with `torch.save` and comes back.
        ranks: How many.
        args: Its arguments; they must pickle.
        timeout: Seconds after which all are ended.

    Returns:
        What each rank returned.

    Raises:
        RuntimeError: A rank failed or time ran out; with the error of the rank that failed first.
    """
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        name = (work.__module__, work.__qualname__)
        args = tuple(_sent(value, Path(folder)) for value in args)
        started = [
            context.Process(target=_rank, args=(rank, ranks, folder, name, args), daemon=True) for rank in range(ranks)
        ]
        for process in started:
            process.start()
        deadline = time.monotonic() + timeout
        try:
            while any(process.is_alive() for process in started):
                if any(process.exitcode not in (None, 0) for process in started) or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
            time.sleep(0.2)  # for those that fail together
            wrong = sorted(Path(folder).glob("error-*"), key=lambda path: path.stat().st_mtime_ns)
            if wrong:
                raise RuntimeError("\n".join(f"{path.name}: {path.read_text()}" for path in wrong[:1]))
            if any(process.is_alive() for process in started):
                raise RuntimeError(f"no answer after {timeout} s")
            codes = [process.exitcode for process in started]
            if any(codes):
                raise RuntimeError(f"ranks ended with {codes}")
        finally:
            for process in started:
                process.terminate()
                process.join()
        return [torch.load(Path(folder) / f"result-{rank}", weights_only=False) for rank in range(ranks)]


@dataclass(frozen=True)
class _File:
    """A plan on its way to a rank."""

    path: str


def _sent(value: Any, folder: Path) -> Any:
    """Plans travel as files."""
    if isinstance(value, Plan):
        path = folder / f"plan-{len(list(folder.glob('plan-*')))}.json"
        value.save(path)
        return _File(str(path))
    return [_sent(item, folder) for item in value] if isinstance(value, (list, tuple)) else value


def _received(value: Any) -> Any:
    if isinstance(value, _File):
        return Plan.load(value.path)
    return [_received(item) for item in value] if isinstance(value, list) else value


def _rank(rank: int, ranks: int, folder: str, name: tuple[str, str], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks, timeout=timedelta(seconds=120)
        )
        module, function = name
        work = getattr(importlib.import_module(module), function)
        torch.save(work(*map(_received, args)), Path(folder) / f"result-{rank}")
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        (Path(folder) / f"error-{rank}").write_text(traceback.format_exc())
        os._exit(1)
