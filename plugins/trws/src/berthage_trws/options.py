"""Options of ``trws``."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TrwsOptions"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrwsOptions:
    """Options of the solver ``trws``.

    Attributes:
        dtype: Numbers in messages and packed tables. ``f32`` halves the memory traffic; the reported bound is
            computed in float64 either way.
        max_sweeps: Most sweeps (a forward and a backward pass each); ``SolveParams.iteration_limit`` lowers it.
        window: Sweeps over which the gain of the bound is judged.
        min_gain: Stop when the bound gains less than this share of itself over a window.
        rounding_every: Sweeps between two roundings.
        polish: Local search from rounded assignments: ``pairs`` moves both ends of an edge as well.
        ordering: Order of the sweeps: ``natural`` as in the problem, ``bfs`` breadth first from the first variable of
            each component.
        budget_steps: Most steps of the multipliers of budgets.
        sweeps_per_step: Sweeps after each such step.
    """

    dtype: str = field(default="f64", metadata={"help": "numbers in messages", "choices": ("f64", "f32")})
    max_sweeps: int = field(default=3000, metadata={"help": "most sweeps", "minimum": 1})
    window: int = field(default=50, metadata={"help": "sweeps over which the bound's gain is judged", "minimum": 2})
    min_gain: float = field(default=1e-9, metadata={"help": "least relative gain over a window", "minimum": 0.0})
    rounding_every: int = field(default=5, metadata={"help": "sweeps between roundings", "minimum": 1})
    polish: str = field(default="pairs", metadata={"help": "local search", "choices": ("pairs", "single", "off")})
    ordering: str = field(default="natural", metadata={"help": "order of sweeps", "choices": ("natural", "bfs")})
    budget_steps: int = field(default=400, metadata={"help": "most multiplier steps", "minimum": 0})
    sweeps_per_step: int = field(default=5, metadata={"help": "sweeps after a multiplier step", "minimum": 1})
