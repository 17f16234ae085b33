"""toulbar2 for Berthage: the solver ``toulbar2``, for problems without budgets."""

from __future__ import annotations

from .options import Toulbar2Options

__all__ = ["Toulbar2Options"]
