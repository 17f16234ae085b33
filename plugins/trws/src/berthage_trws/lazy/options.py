"""Options of ``trws-lazy``."""

from __future__ import annotations

from dataclasses import dataclass, field

from berthage_trws.options import TrwsOptions

__all__ = ["TrwsLazyOptions"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrwsLazyOptions(TrwsOptions):
    """Options of the solver ``trws-lazy``: those of ``trws``, and how many labels take part.

    Attributes:
        candidates: Most labels of a variable that take part in message passing, the best by their reduced costs; None
            for all. The others stay in the bound. The limit grows by itself where it could have cost anything.
    """

    candidates: int | None = field(
        default=128, metadata={"help": "most labels a variable in message passing; none: all", "minimum": 1}
    )
