"""CBC behind PuLP, through a text file, on its own process that can be stopped."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pulp

from berthage_ilp.backend import BackendResult, BackendSettings, BackendStatus, Monitor
from berthage_ilp.pulp_model import pulp_problem

if TYPE_CHECKING:
    from berthage.linear import LinearProgram

__all__ = ["PulpCbc", "cbc_path"]

_POLL_SECONDS = 0.02
_GRACE_SECONDS = 0.6
_BOUND = re.compile(r"^Lower bound:\s+(\S+)", re.MULTILINE)
_RESULT = re.compile(r"^Result - (.*)$", re.MULTILINE)
_NODES = re.compile(r"^Enumerated nodes:\s+(\d+)", re.MULTILINE)
# CBC prints its lower bound with three decimals.
_PRINTED_ROUNDING = 1e-3
# PuLP writes coefficients with 13 significant digits: none is off by more than half a unit of the last.
_WRITTEN_ROUNDING = 5e-13


def cbc_path() -> str | None:
    """The CBC program: the one PuLP brings, or one on the search path; None when there is neither."""
    bundled = getattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", None)
    for candidate in (bundled, "cbc"):
        if candidate:
            found = pulp.COIN_CMD(path=str(candidate)).available()
            if found:
                return str(found) if isinstance(found, str) else str(candidate)
    return None


class _StoppableCbc(pulp.COIN_CMD):  # type: ignore[misc] # PuLP is not typed
    """PuLP's CBC solver in a folder of its own, polled while it runs."""

    def __init__(self, path: str, settings: BackendSettings, ratio: float, monitor: Monitor) -> None:
        super().__init__(path=path, msg=False)
        self.settings = settings
        self.ratio = ratio
        self.monitor = monitor
        self.log = ""
        self.stopped: BackendStatus | None = None
        self.exit_code = 0
        self.values: dict[str, float] | None = None
        self.first_line = ""

    def arguments(self, program: Path, solution: Path, start: Path | None) -> list[str]:
        """The command line."""
        settings = self.settings
        words = [str(self.path), str(program), "-ratio", repr(self.ratio), "-allow", "0"]
        words += ["-timeMode", "elapsed", "-integerTolerance", "1e-9"]
        # Never 0: CBC takes that as "seed me by the clock".
        seed = str(settings.seed % (2**31 - 2) + 1)
        words += ["-randomSeed", seed, "-randomCbcSeed", seed]
        if start is not None:
            words += ["-mips", str(start)]
        if math.isfinite(settings.time_limit):
            words += ["-sec", repr(max(0.0, settings.time_limit))]
        if settings.node_limit is not None:
            words += ["-maxNodes", str(settings.node_limit)]
        return [*words, "-solve", "-printingOptions", "all", "-solution", str(solution)]

    def actualSolve(self, lp: pulp.LpProblem) -> int:
        """Write, run, read back."""
        with tempfile.TemporaryDirectory(prefix="berthage-cbc-") as folder:
            program, solution, log = (Path(folder) / name for name in ("program.mps", "solution.txt", "log.txt"))
            vs, names, rows, _ = lp.writeMPS(str(program), rename=1)
            start = None
            if self.settings.start is not None:
                start = Path(folder) / "start.mst"
                self.writesol(str(start), lp, vs, names, rows)
            with log.open("w") as sink:
                self._run(self.arguments(program, solution, start), sink.fileno())
            self.log = log.read_text(errors="replace")
            if solution.exists() and solution.stat().st_size:
                with solution.open() as text:
                    self.first_line = text.readline().strip()
                self.values = self.readsol_MPS(str(solution), lp, vs, names, rows)[1]
        return int(pulp.LpStatusNotSolved)

    def _run(self, arguments: list[str], sink: int) -> None:
        # Its own session: a Ctrl-C at the terminal reaches only this program, which then asks CBC to stop.
        process = subprocess.Popen(
            arguments, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        try:
            deadline = math.inf
            while process.poll() is None:
                reason = self.monitor.stop_reason()
                if self.stopped is None and reason is not None:
                    timed = reason.value == "time"
                    self.stopped = BackendStatus.TIME if timed else BackendStatus.INTERRUPTED
                    if not timed:  # CBC watches its own time limit; asked by a signal it ends with its best solution
                        process.send_signal(signal.SIGINT)
                    deadline = time.monotonic() + _GRACE_SECONDS
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_SECONDS)
            else:
                self.exit_code = int(process.returncode)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


class PulpCbc:
    """A `Backend`: CBC through PuLP."""

    def __init__(self) -> None:
        """Find CBC.

        Raises:
            FileNotFoundError: When there is no CBC program.
        """
        path = cbc_path()
        if path is None:
            raise FileNotFoundError("no CBC program: install one on the search path, or use backend=highs")
        self._path = path

    @property
    def name(self) -> str:
        """Engine and version."""
        return f"PuLP {metadata.version('pulp')} + CBC"

    @property
    def trusts_text(self) -> bool:
        """See `Backend.trusts_text`."""
        return True

    def solve(self, program: LinearProgram, settings: BackendSettings, monitor: Monitor) -> BackendResult:
        """See `Backend.solve`."""
        model, columns = pulp_problem(program, monitor.checkpoint)
        if settings.start is not None:
            for column in columns:
                column.varValue = 0.0
            for j, value in zip(settings.start[0].tolist(), settings.start[1].tolist(), strict=True):
                columns[j].varValue = value
        # CBC sees the objective without its constant part: where that is negative the relative gap would be too wide.
        ratio = settings.gap if program.offset >= 0.0 else 0.0
        solver = _StoppableCbc(self._path, settings, ratio, monitor)
        model.solve(solver)
        return _decode(solver, program, columns)


def _decode(solver: _StoppableCbc, program: LinearProgram, columns: list[pulp.LpVariable]) -> BackendResult:
    """Status from CBC's own words: PuLP's status says "Optimal" after a limit, and values stay after "infeasible"."""
    line = solver.first_line.lower()
    result = (_RESULT.findall(solver.log) or [""])[-1]
    nodes = _NODES.findall(solver.log)
    stats: dict[str, int | float | str | bool] = {"engine": "CBC", "nodes": int(nodes[-1]) if nodes else 0}
    detail = solver.first_line or result or f"CBC ended with exit status {solver.exit_code} and no answer"
    printed = [float(text) for text in _BOUND.findall(solver.log)]
    bound = printed[-1] + program.offset - _PRINTED_ROUNDING if printed else -math.inf
    values: np.ndarray | None = None
    has_solution = "no integer solution" not in line and "infeasible" not in line and line != ""
    if has_solution and solver.values is not None:
        values = np.array([solver.values[column.name] for column in columns], dtype=np.float64)
    if line.startswith("optimal") and values is not None:
        spent = float(program.cost @ values)
        # "Optimal" proves the bound of the rounded file within the gap asked for.
        bound = spent * (1.0 - solver.ratio) - written_error(spent) + program.offset
        return BackendResult(BackendStatus.OPTIMAL, values, bound, detail, stats)
    if "infeasible" in line:
        return BackendResult(BackendStatus.INFEASIBLE, None, math.inf, detail, stats)
    status = BackendStatus.ERROR
    if "time" in line or solver.stopped is BackendStatus.TIME:
        status = BackendStatus.TIME
    elif "node" in line or "iteration" in line:
        status = BackendStatus.NODES
    elif solver.stopped is not None or "ctrl-c" in line or "user" in line:
        status = BackendStatus.INTERRUPTED
    return BackendResult(status, values, bound, detail, stats)


def written_error(spent: float) -> float:
    """How far the true optimum can lie below the optimum of the program as CBC read it.

    Costs are non-negative and each is off by a known share at most, so an assignment that costs no more than ``spent``
    is off by that share of ``spent``, and one that costs more cannot be the optimum.
    """
    return 2.0 * _WRITTEN_ROUNDING * abs(spent)
