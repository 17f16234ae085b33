"""The errors of the front end."""

from __future__ import annotations

from berthage import BerthageError

__all__ = ["ApplyError", "TraceError"]


class TraceError(BerthageError):
    """The model cannot be traced. The message names the operation and the module, and says the way out.

    Attributes:
        op: The operation that could not be traced, "" unknown.
        path: The module that ran it, "" unknown or the model itself.
    """

    def __init__(self, message: str, *, op: str = "", path: str = "") -> None:
        super().__init__(message)
        self.op = op
        self.path = path


class ApplyError(BerthageError):
    """A plan cannot be applied, or a module that was made from it cannot be called this way; the message says why."""
