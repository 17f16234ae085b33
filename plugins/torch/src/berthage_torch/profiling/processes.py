"""One search in a process of its own, ended after its wall limit. Imports no torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from .rows import Row

__all__ = ["run_once"]

_TAIL = 4000  # characters of what a process said that are kept when it failed


def run_once(row: Row, *, detailed: bool = False) -> dict[str, Any]:
    """Run a row's search in a new process.

    Args:
        row: What to search.
        detailed: See `measure`.

    Returns:
        What `measure` tells, or ``error``: its ``kind`` is ``error``, ``killed``, ``timeout`` or ``no result``.
    """
    with tempfile.TemporaryDirectory(prefix="berthage-profile-") as folder:
        source, target, log = (Path(folder) / name for name in ("row.json", "out.json", "log.txt"))
        given = {name: value for name, value in row.configuration.items() if value is not None}
        source.write_text(json.dumps(given), encoding="utf-8")
        # -P: modules of the working folder are for the model, and must not hide those of the library.
        words = [sys.executable, "-P", "-m", "berthage_torch.profiling.measure", str(source), str(target)]
        began = time.perf_counter()
        with log.open("wb") as stream:
            code = _ended(words + ["--detailed-solution"] * detailed, row.wall_limit, stream)
        error: dict[str, Any] = {"kind": "no result", "message": f"the process answered {code} and wrote nothing"}
        if code is None:
            error = {"kind": "timeout", "message": f"ended after its wall limit of {row.wall_limit:g} s"}
        elif code < 0:
            error = {"kind": "killed", "message": f"ended by signal {-code} ({_signal(-code)})", "signal": -code}
        elif code == 0 and target.is_file():
            told: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
            if "error" not in told:
                return told
            error = told["error"]
        error["wall"] = time.perf_counter() - began
        error["output"] = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
        return {"error": error}


def _ended(words: list[str], limit: float, log: IO[bytes]) -> int | None:
    """The answer of a process, None when it took too long; it does not outlive this call."""
    settings: Mapping[str, Any] = {"start_new_session": True} if os.name == "posix" else {}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **settings)
    try:
        return process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own: what it started ends with it
            else:
                process.kill()
            process.wait()


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
