"""Solution files: what `solve` writes, the formats' own, and plain lists of label indices."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any, Final

from berthage.cli.documents import write_text
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage.errors import InvalidProblemError
from berthage.files.native import assignment_of
from berthage.problem import PlacementProblem
from berthage.problem.arrays import Int32Array

_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"


def read_solution(path: Path, problem: PlacementProblem, file_format: Any) -> Int32Array:
    """The assignment in a solution file, label indices in the problem's variable order.

    Args:
        path: A JSON document with an ``assignment`` (as ``solve`` writes it), a file in the problem
            format's own way, or a list of label indices (JSON, or separated by blanks); .gz and .xz are
            looked through.
        problem: The problem it is for.
        file_format: The object of the problem file's format, asked when the file is not ours.

    Raises:
        InvalidProblemError: The file is none of these or does not fit the problem.
    """
    try:
        found = _from_json(_text(path))
        if found is None and hasattr(file_format, "read_solution"):
            return problem.check_assignment(file_format.read_solution(path, problem))
        found = found if found is not None else _from_words(_text(path))
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InvalidProblemError(f"{path}: {error}") from error
    if found is None:
        raise InvalidProblemError(f"{path}: expected a JSON document with an 'assignment', or a list of label indices")
    try:
        return assignment_of(found, problem)
    except InvalidProblemError as error:
        raise InvalidProblemError(f"{path}: {error}") from error


def write_solution(path: Path, problem: PlacementProblem, file_format: Any, assignment: Int32Array) -> None:
    """Write an assignment in the format's own way if it has one, else as a JSON document of ours."""
    if hasattr(file_format, "write_solution"):
        file_format.write_solution(path, problem, assignment)
        return
    document = {"format_version": FORMAT_VERSION, "problem": problem.name, "assignment": assignment}
    write_text(path, to_json(document))


def _text(path: Path) -> str:
    data = path.read_bytes()
    if data.startswith(_GZIP):
        data = gzip.decompress(data)
    elif data.startswith(_XZ):
        data = lzma.decompress(data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidProblemError(f"{path}: not a text file: {error}") from error


def _from_json(text: str) -> list[Any] | None:
    """The assignment of a JSON document of ours, or a JSON list; None when it is something else."""
    try:
        document = json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    if isinstance(document, dict) and "assignment" in document:
        if document["assignment"] is None:
            raise InvalidProblemError("the file holds the result of a solve that found no assignment")
        document = document["assignment"]
    return _whole(document)


def _from_words(text: str) -> list[Any] | None:
    """Label indices separated by blanks."""
    try:
        return [int(word) for word in text.split()]
    except ValueError:
        return None


def _whole(found: Any) -> list[Any] | None:
    if isinstance(found, list) and all(type(item) is int for item in found):
        return found
    return None
