"""The errors Berthage raises. An outcome of a search is a value; an exception means wrong use or wrong input."""

__all__ = [
    "BerthageError",
    "InvalidProblemError",
    "OptionError",
    "PluginError",
    "SolutionUnavailableError",
    "UnknownNameError",
    "UnsupportedProblemError",
]


class BerthageError(Exception):
    """Base of every error that Berthage raises on purpose."""


class InvalidProblemError(BerthageError, ValueError):
    """The data of a problem, a file or an assignment are wrong. The message names the item and the way out."""


class UnsupportedProblemError(BerthageError):
    """The data are right, but this solver or format cannot take them."""


class OptionError(BerthageError, ValueError):
    """An option or parameter is unknown, ill-typed or out of range."""


class UnknownNameError(BerthageError, LookupError):
    """No solver, format or other plugin part has this name. The message lists near misses and what to install."""


class PluginError(BerthageError):
    """A plugin broke its contract. The message names the plugin."""


class SolutionUnavailableError(BerthageError):
    """A result was asked for an assignment that it does not hold."""
