"""The solver classes that the descriptions in `hooks` name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berthage import OptionError, PlacementProblem, SolveContext, SolveParams, SolverOutcome
from berthage_ilp.driver import Driver
from berthage_ilp.options import PulpOptions, PyomoOptions

if TYPE_CHECKING:
    from berthage_ilp.backend import Backend

__all__ = ["PulpSolver", "PyomoSolver"]


class PulpSolver:
    """``ilp-pulp``: the local-polytope integer program through PuLP."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: PulpOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve to proved optimality, or as far as the limits allow.

        Raises:
            OptionError: When the wanted engine is not there.
        """
        options = options or PulpOptions()
        backend: Backend
        if options.backend == "cbc":
            from berthage_ilp.pulp_cbc import PulpCbc

            try:
                backend = PulpCbc()
            except FileNotFoundError as error:
                raise OptionError(str(error)) from error
        else:
            from berthage_ilp.pulp_highs import PulpHighs

            backend = PulpHighs()
        return Driver(problem, params, context, backend, options.fixing).run()


class PyomoSolver:
    """``ilp-pyomo``: the same program through Pyomo."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: PyomoOptions | None, context: SolveContext
    ) -> SolverOutcome:
        """Solve to proved optimality, or as far as the limits allow."""
        from berthage_ilp.pyomo_highs import PyomoHighs

        options = options or PyomoOptions()
        return Driver(problem, params, context, PyomoHighs(), options.fixing).run()
