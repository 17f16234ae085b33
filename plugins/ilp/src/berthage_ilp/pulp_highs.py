"""HiGHS behind PuLP, in memory."""

from __future__ import annotations

import itertools
import math
from importlib import metadata
from typing import TYPE_CHECKING, Any

import highspy
import numpy as np
import pulp

from berthage_ilp import highs as engine
from berthage_ilp.backend import BackendResult, BackendSettings, BackendStatus, Monitor
from berthage_ilp.pulp_model import pulp_problem

if TYPE_CHECKING:
    from berthage.linear import LinearProgram

__all__ = ["PulpHighs"]


class _InterruptibleHiGHS(pulp.HiGHS):  # type: ignore[misc] # PuLP is not typed
    """PuLP's HiGHS solver with our options, one bulk transfer instead of a call a row, and a run that can stop."""

    def __init__(
        self, columns: list[pulp.LpVariable], offset: float, settings: BackendSettings, monitor: Monitor
    ) -> None:
        super().__init__(msg=False)
        self.columns = columns
        self.offset = offset
        self.settings = settings
        self.monitor = monitor
        self.finished = False

    def createAndConfigureSolver(self, lp: pulp.LpProblem) -> None:
        """Make the engine and set its options."""
        lp.solverModel = engine.silent_highs()
        engine.configure(lp.solverModel, self.settings)

    def buildSolverModel(self, lp: pulp.LpProblem) -> None:
        """Hand the whole PuLP model over in one call."""
        model = highspy.HighsLp()
        for j, column in enumerate(self.columns):
            column.index = j
        count = len(self.columns)
        cost = np.zeros(count)
        if lp.objective is not None:
            for column, coefficient in lp.objective.items():
                cost[column.index] = coefficient
        rows = list(lp._constraints.values())
        start = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum(np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows)), out=start[1:])
        nonzeros = int(start[-1])
        chained = itertools.chain.from_iterable
        index = np.fromiter((v.index for v in chained(row.keys() for row in rows)), dtype=np.int32, count=nonzeros)
        value = np.fromiter(chained(row.values() for row in rows), dtype=np.float64, count=nonzeros)
        model.num_col_, model.num_row_ = count, len(rows)
        model.offset_ = self.offset
        model.col_cost_ = cost
        model.col_lower_ = _array((c.lowBound for c in self.columns), count, -math.inf)
        model.col_upper_ = _array((c.upBound for c in self.columns), count, math.inf)
        model.row_lower_ = _array((r.getLb() for r in rows), len(rows), -math.inf)
        model.row_upper_ = _array((r.getUb() for r in rows), len(rows), math.inf)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.num_col_, model.a_matrix_.num_row_ = count, len(rows)
        model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = start, index, value
        whole = highspy.HighsVarType.kInteger
        model.integrality_ = [
            whole if c.cat == pulp.LpInteger else highspy.HighsVarType.kContinuous for c in self.columns
        ]
        lp.solverModel.passModel(model)
        engine.set_start(lp.solverModel, self.settings)

    def callSolver(self, lp: pulp.LpProblem) -> None:
        """Run, relaying progress."""
        self.finished = engine.run(lp.solverModel, self.monitor)

    def actualSolve(self, lp: pulp.LpProblem) -> int:
        """Build and run; the caller reads the answer from ``lp.solverModel``, before PuLP's statuses flatten it."""
        self.createAndConfigureSolver(lp)
        self.buildSolverModel(lp)
        self.callSolver(lp)
        return int(pulp.LpStatusNotSolved)


def _array(values: Any, count: int, missing: float) -> np.ndarray:
    return np.fromiter((missing if value is None else value for value in values), dtype=np.float64, count=count)


class PulpHighs:
    """A `Backend`: HiGHS through PuLP."""

    @property
    def name(self) -> str:
        """Engine and version."""
        return f"PuLP {metadata.version('pulp')} + HiGHS"

    @property
    def trusts_text(self) -> bool:
        """See `Backend.trusts_text`."""
        return False

    def solve(self, program: LinearProgram, settings: BackendSettings, monitor: Monitor) -> BackendResult:
        """See `Backend.solve`."""
        model, columns = pulp_problem(program, monitor.checkpoint)
        solver = _InterruptibleHiGHS(columns, program.offset, settings, monitor)
        model.solve(solver)
        if not solver.finished:
            status = BackendStatus.INTERRUPTED
            return BackendResult(status, None, -math.inf, "HiGHS was left behind: it did not stop in time")
        return engine.read_result(model.solverModel, is_mip=bool(program.integer.any()))
