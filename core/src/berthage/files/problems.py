"""Reading and writing problems in any registered format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from berthage.errors import InvalidProblemError, UnsupportedProblemError
from berthage.problem.model import PlacementProblem
from berthage.registry import FormatInfo, Registry, build_options, load_registry

__all__ = ["read_problem", "write_problem"]


def read_problem(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    registry: Registry | None = None,
    **options: Any,
) -> PlacementProblem:
    """Read a problem file.

    Args:
        path: The file.
        format: Name of its format; found from the file's name (and content) when left out.
        registry: Where formats are looked up; read from what is installed when left out.
        **options: Options of the format.

    Raises:
        InvalidProblemError: When the file does not exist or is broken; the message names the place.
        UnsupportedProblemError: When the file is sound but holds what Berthage cannot express.
        UnknownNameError: When no format fits.
    """
    registry = registry or load_registry()
    info = registry.format(format) if format else registry.format_for(path)
    if not Path(path).is_file():
        raise InvalidProblemError(f"there is no file {os.fspath(path)!r}")
    if not info.reads:
        raise UnsupportedProblemError(f"format {info.name!r} can be written but not read")
    problem = registry.create_format(info.name).read(path, **_options(info, options))
    if not isinstance(problem, PlacementProblem):
        raise InvalidProblemError(f"format {info.name!r} read {type(problem).__name__} instead of a problem")
    return problem


def write_problem(
    problem: PlacementProblem,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    registry: Registry | None = None,
    **options: Any,
) -> None:
    """Write a problem file, atomically.

    Args:
        problem: What to write.
        path: Where.
        format: Name of the format; found from the file's name when left out.
        registry: Where formats are looked up; read from what is installed when left out.
        **options: Options of the format.

    Raises:
        UnsupportedProblemError: When the format cannot express the problem or cannot be written.
    """
    registry = registry or load_registry()
    info = registry.format(format) if format else registry.format_for(path, writing=True)
    if not info.writes:
        raise UnsupportedProblemError(f"format {info.name!r} can be read but not written")
    registry.create_format(info.name).write(problem, path, **_options(info, options))


def _options(info: FormatInfo, given: Mapping[str, Any]) -> dict[str, Any]:
    checked = build_options(info, given)
    return {} if checked is None else {name: getattr(checked, name) for name in checked.__dataclass_fields__}
