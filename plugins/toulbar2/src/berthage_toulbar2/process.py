"""Runs the search in a child process that a clock or Ctrl-C can end."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from berthage import Limit, PlacementProblem, SolveContext

from .options import Toulbar2Options
from .scaling import Scaled

POLL = 0.02
"""Seconds between two looks at the child."""


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What the child found.

    Attributes:
        labels: An assignment, or None.
        proved: Whether the search ended by itself: the assignment is optimal, or nothing costs less than the top.
        bound: Lower bound in units; None for none.
        limit: What stopped it.
        detail: More of that.
        nodes: Nodes of the search.
    """

    labels: list[int] | None = None
    proved: bool = False
    bound: float | None = None
    limit: Limit | None = None
    detail: str = ""
    nodes: int = 0


def search(problem: PlacementProblem, scaled: Scaled, options: Toulbar2Options, context: SolveContext) -> Found:
    """Have a child process search; end it when it is time to stop."""
    with tempfile.TemporaryDirectory(prefix="berthage-toulbar2-") as name:
        folder = Path(name)
        remaining, most = context.remaining(), context.params.iteration_limit
        np.savez(
            folder / "problem.npz",
            counts=problem.num_labels,
            unary=scaled.unary,
            edges=np.stack([problem.edge_u, problem.edge_v, scaled.of_edge], 1).astype(np.int64),
            top=scaled.top,
            seed=context.params.seed % 2**31,
            vac=options.vac,
            memory=options.memory,
            backtracks=-1 if most is None else most,
            # its own clock counts whole CPU seconds; 0 is none
            seconds=0 if remaining == math.inf else max(1, math.floor(remaining)),
            **{f"table{i}": table for i, table in enumerate(scaled.tables)},  # type: ignore[arg-type]
        )
        errors = folder / "errors.txt"
        with errors.open("wb") as stream:
            # a session of its own: Ctrl-C is for us, and we end it
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "berthage_toulbar2.child", name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                start_new_session=True,
            )
            try:
                while child.poll() is None:
                    reason = context.stop_reason()
                    if reason is not None:
                        return Found(limit=reason)
                    time.sleep(POLL)
            finally:
                child.kill()
                child.wait()
        return _read(folder, child.returncode, errors.read_text(errors="replace"), options)


def _read(folder: Path, code: int, errors: str, options: Toulbar2Options) -> Found:
    path = folder / "found.json"
    found: dict[str, Any] = (
        json.loads(path.read_text()) if path.exists() else {"error": _last(errors) or f"it ended with {code}"}
    )
    if "error" in found:
        crowded = found["error"] == "memory" or "bad_alloc" in errors
        detail = f"more than {options.memory} MiB were needed; raise the option memory" if crowded else found["error"]
        return Found(limit=Limit.MEMORY if crowded else Limit.OTHER, detail=f"toulbar2: {detail}")
    limit = Limit.ITERATIONS if found["limited"] else None
    return Found(found["labels"], not found["limited"], found["bound"], limit, nodes=found["nodes"])


def _last(errors: str) -> str:
    lines = errors.strip().splitlines()
    return lines[-1] if lines else ""
