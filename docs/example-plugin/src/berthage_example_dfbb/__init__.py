"""An example plugin for Berthage: one small, real solver. Start reading at `hooks`, then `solver`."""

__version__ = "0.1.0"
