"""Exact reductions for Berthage: smaller equivalent problems, with a way back for assignments and bounds."""

__all__: list[str] = []
