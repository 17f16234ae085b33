"""HiGHS behind Pyomo's solver interface (``pyomo.contrib.solver``)."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyomo
import pyomo.environ as pyo
from numpy.typing import NDArray
from pyomo.contrib.solver.common.results import Results
from pyomo.contrib.solver.solvers.highs import Highs
from pyomo.core.expr.numeric_expr import LinearExpression

from berthage_ilp import highs as engine
from berthage_ilp.backend import BackendResult, BackendSettings, BackendStatus, Monitor

if TYPE_CHECKING:
    from berthage.linear import LinearProgram

__all__ = ["PyomoHighs", "pyomo_model"]

_CHECK_EVERY = 512


def pyomo_model(program: LinearProgram, checkpoint: Callable[[], None]) -> tuple[Any, list[Any]]:
    """Translate a program into a Pyomo model with columns ``x[0], x[1], …`` and rows ``r[0], r[1], …``.

    Args:
        program: The program.
        checkpoint: Called now and then; may raise to give up.

    Returns:
        The model and its variables in column order.
    """
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(program.num_cols))
    columns = list(model.x.values())
    sides = zip(columns, program.lower.tolist(), program.upper.tolist(), program.integer.tolist(), strict=True)
    for j, (column, low, high, whole) in enumerate(sides):
        if j % _CHECK_EVERY == 0:
            checkpoint()
        if math.isfinite(low):
            column.setlb(low)
        if math.isfinite(high):
            column.setub(high)
        if whole:
            column.domain = pyo.Integers
    checkpoint()
    priced = np.flatnonzero(program.cost).tolist()
    model.objective = pyo.Objective(
        expr=LinearExpression(
            constant=float(program.offset),
            linear_coefs=program.cost[priced].tolist(),
            linear_vars=[columns[j] for j in priced],
        )
    )
    checkpoint()
    ptr, index, value = program.row_ptr.tolist(), program.col_index.tolist(), program.value.tolist()
    model.r = pyo.Constraint(range(len(ptr) - 1))
    for i, (low, high) in enumerate(zip(program.row_lower.tolist(), program.row_upper.tolist(), strict=True)):
        if i % _CHECK_EVERY == 0:
            checkpoint()
        span = slice(ptr[i], ptr[i + 1])
        body = LinearExpression(constant=0.0, linear_coefs=value[span], linear_vars=[columns[j] for j in index[span]])
        if low == high:
            model.r.add(i, (body, high))
        else:
            model.r.add(i, (low if math.isfinite(low) else None, body, high if math.isfinite(high) else None))
    return model, columns


class _InterruptibleHighs(Highs):  # type: ignore[misc] # Pyomo is not typed
    """Pyomo's HiGHS solver with our options and a run that can be stopped.

    Pyomo's own captures standard output while it builds and runs, and two captures at once wait for each other for
    ever: here nothing is captured, as the engine is silent from the start.
    """

    settings: BackendSettings
    monitor: Monitor
    columns: list[Any]
    order: NDArray[np.int64]
    finished: bool = False

    def set_instance(self, model: Any) -> None:
        """Fill a silent engine from a model; replaces Pyomo's, which does so under a capture of standard output."""
        self._reinit()
        self._model = model
        self._solver_model = engine.silent_highs()
        self.add_block(model)
        if self._objective is None:
            self.set_objective(None)

    def add_constraints(self, cons: list[Any]) -> None:
        """Hand rows over in pieces, so that a large model can be given up half-way."""
        for begin in range(0, len(cons), _CHECK_EVERY):
            self.monitor.checkpoint()
            super().add_constraints(cons[begin : begin + _CHECK_EVERY])

    def _solve(self) -> Results:
        """Run the engine that Pyomo filled; replaces only the step between building and reading back."""
        highs = self._solver_model
        engine.silence(highs)
        engine.configure(highs, self.settings)
        # Pyomo numbers columns in the order in which it meets them and leaves out those it never meets.
        order = np.array([self._pyomo_var_to_solver_var_map.get(id(c), -1) for c in self.columns], dtype=np.int64)
        if self.settings.start is not None:
            wanted, values = self.settings.start
            known = order[wanted] >= 0
            highs.setSolution(int(known.sum()), order[wanted][known].astype(np.int32), values[known].astype(np.float64))
        self.order = order
        self.finished = engine.run(highs, self.monitor, order)
        if not self.finished:
            return Results()
        results: Results = self._postsolve(io.StringIO())
        return results


class PyomoHighs:
    """A `Backend`: HiGHS through Pyomo."""

    @property
    def name(self) -> str:
        """Engine and version."""
        return f"Pyomo {pyomo.version.version} + HiGHS"

    @property
    def trusts_text(self) -> bool:
        """See `Backend.trusts_text`."""
        return False

    def solve(self, program: LinearProgram, settings: BackendSettings, monitor: Monitor) -> BackendResult:
        """See `Backend.solve`."""
        model, columns = pyomo_model(program, monitor.checkpoint)
        solver = _InterruptibleHighs()
        solver.settings, solver.monitor, solver.columns = settings, monitor, columns
        # Pyomo's HiGHS raises on an infeasible model by default; a status is wanted, and loading is done below.
        solver.config.raise_exception_on_nonoptimal_result = False
        solver.config.load_solutions = False
        results = solver.solve(model)
        if not solver.finished:
            return BackendResult(
                BackendStatus.INTERRUPTED, None, -math.inf, "HiGHS was left behind: it did not stop in time"
            )
        answer = engine.read_result(solver._solver_model, is_mip=bool(program.integer.any()))
        bound = answer.bound
        if answer.status is not BackendStatus.INFEASIBLE and results.objective_bound is not None:
            bound = float(results.objective_bound)
        values = None if answer.values is None else engine.reorder(answer.values, solver.order)
        return BackendResult(answer.status, values, bound, answer.detail, answer.stats)
