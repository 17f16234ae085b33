"""A matrix of searches: a TOML file of rows, of which lists make several. Imports no torch."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from berthage import InvalidProblemError, UnknownNameError

from .rows import FIELDS, TABLES, Row, row_of

__all__ = ["read_matrix", "rows_named"]


def read_matrix(path: str | os.PathLike[str]) -> tuple[Row, ...]:
    """The rows of a matrix file, in order.

    The file has ``[defaults]`` and any number of ``[[row]]``. A row says what differs from the defaults; tables
    (``sizes``, ``options``, ``inputs``, ``outputs``, ``pins``) are merged. A list in the place of a value, or of one in
    ``sizes`` and ``options``, stands for one row each; several lists for every combination. Names of such rows end with
    what differs.

    Raises:
        InvalidProblemError: The file is no matrix; the message names the row.
    """
    where = os.fspath(path)
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidProblemError(f"{where}: {error}") from None
    try:
        return _rows(document)
    except InvalidProblemError as error:
        raise InvalidProblemError(f"{where}: {error}") from None


def rows_named(rows: tuple[Row, ...], wanted: Iterable[str]) -> tuple[Row, ...]:
    """The rows with these names or patterns; all when none is given.

    Raises:
        UnknownNameError: A name that is none's.
    """
    names = [row.name for row in rows]
    taken: set[str] = set()
    for pattern in wanted:
        hits = fnmatch.filter(names, pattern)
        if not hits:
            near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.4) or names[:8]
            raise UnknownNameError(f"no row is named {pattern!r}; there are {', '.join(near)}")
        taken.update(hits)
    return tuple(row for row in rows if row.name in taken or not taken)


def _rows(document: Mapping[str, Any]) -> tuple[Row, ...]:
    unknown = sorted(set(document) - {"defaults", "row"})
    if unknown:
        raise InvalidProblemError(f"there is no {unknown[0]!r}; a matrix has [defaults] and [[row]]")
    defaults, given = document.get("defaults", {}), document.get("row", [])
    if not isinstance(defaults, dict) or not isinstance(given, list) or not all(isinstance(r, dict) for r in given):
        raise InvalidProblemError("a matrix has one table [defaults] and rows [[row]]")
    if not given:
        raise InvalidProblemError("it has no [[row]]")
    if "name" in defaults:
        raise InvalidProblemError("[defaults] has a 'name'; each row has its own")
    found = [row for each in given for row in _expanded(_merged(defaults, each))]
    seen: set[str] = set()
    for row in found:
        if row.name.casefold() in seen:  # some file systems take no notice of case
            raise InvalidProblemError(f"two rows are named {row.name!r}; give them a name each")
        seen.add(row.name.casefold())
    return tuple(found)


def _merged(defaults: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **row}
    for name in TABLES & defaults.keys() & row.keys():
        if isinstance(defaults[name], dict) and isinstance(row[name], dict):
            merged[name] = {**defaults[name], **row[name]}
    return merged


def _expanded(given: Mapping[str, Any]) -> Iterator[Row]:
    """Every combination of what lists give to choose from."""
    for name in given:
        if name not in FIELDS:
            raise InvalidProblemError(f"there is no {name!r}; a row has {', '.join(FIELDS)}")
    places = [(name, "") for name, value in given.items() if isinstance(value, list)]
    places += [
        (name, key)
        for name in ("sizes", "options")
        if isinstance(given.get(name), dict)
        for key, value in given[name].items()
        if isinstance(value, list)
    ]
    choices = [given[name][key] if key else given[name] for name, key in places]
    for (name, key), values in zip(places, choices, strict=True):
        if not values or (name == "name"):
            raise InvalidProblemError(f"{f'{name}.{key}' if key else name} cannot be the list {values!r}")
    for chosen in itertools.product(*choices):
        row = {name: dict(value) if isinstance(value, dict) else value for name, value in given.items()}
        for (name, key), value in zip(places, chosen, strict=True):
            if key:
                row[name][key] = value
            else:
                row[name] = value
        differing = {key or name for name, key in places}
        parts = [_word(key or name, value) for (name, key), value in zip(places, chosen, strict=True)]
        row["name"] = "-".join([_base(given, row, differing), *parts])
        yield row_of(row)


def _base(given: Mapping[str, Any], row: Mapping[str, Any], differing: set[str]) -> str:
    """The name a row gives itself, or one made of what it is about."""
    if "name" in given:
        return str(given["name"])
    about = [str(row.get(name, "")) for name in ("model", "mesh", "solver") if name not in differing]
    return "-".join(_safe(text) for text in about if text) or "row"


def _word(name: str, value: Any) -> str:
    """How a value that differs is told in a name."""
    return _safe(value) if isinstance(value, str) else _safe(f"{name.replace('_', '-')}-{value}")


def _safe(text: str) -> str:
    """``dp=8,tp=8`` as ``dp8-tp8``: what a file may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text.replace("=", "")).strip("-.")
