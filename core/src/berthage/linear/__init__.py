"""Placement problems as linear programs in arrays, for authors of LP and MILP solvers.

`linear_program` writes a problem down; `LinearProgram.decode` reads a solution back; `dual_bound` turns row
duals into a bound that holds whatever the solver's tolerances; `cost_levels` deals with costs of very
different size.
"""

from berthage.linear.build import linear_program
from berthage.linear.dual import dual_bound
from berthage.linear.engines import EngineThread, silent_output
from berthage.linear.intervals import maximal_instants
from berthage.linear.levels import cost_levels, objective_factor
from berthage.linear.program import Decoded, LinearProgram
from berthage.linear.ragged import segment_argmax

__all__ = [
    "Decoded",
    "EngineThread",
    "LinearProgram",
    "cost_levels",
    "dual_bound",
    "linear_program",
    "maximal_instants",
    "objective_factor",
    "segment_argmax",
    "silent_output",
]
