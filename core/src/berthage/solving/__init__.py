"""Solving: parameters, results, reductions, and the checks that core makes."""

from berthage.solving.chain import Reduced, Reduction
from berthage.solving.context import RunContext
from berthage.solving.params import Progress
from berthage.solving.results import Timing, TracePoint

__all__ = ["Progress", "Reduced", "Reduction", "RunContext", "Timing", "TracePoint"]
