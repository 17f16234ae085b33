"""JSON with the place of whatever is wrong, and lists of numbers turned into arrays in bulk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError

__all__ = ["flat_numbers", "load_json", "member", "shown", "type_error"]

_SHOWN = 40
_INT64_MAX = 2**63 - 1
_KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number", float: "a number"}


def shown(value: object) -> str:
    """A value as an error message quotes it: short."""
    text = json.dumps(value) if isinstance(value, str | int | float | bool | None) else _KINDS.get(type(value), "")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def load_json(data: bytes, source: str, *, unique_keys: bool = False) -> Any:
    """Parse JSON.

    Args:
        data: UTF-8 text.
        source: How errors call the file.
        unique_keys: Refuse an object that has a key twice (costs time on large files).

    Raises:
        InvalidProblemError: Naming line and column of what is no JSON.
    """

    def constant(word: str) -> NoReturn:
        raise InvalidProblemError(
            f'{source}: {word} is no JSON number; write 10^18 (iopddl) or "inf" (cfn) for forbidden'
        )

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) != len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidProblemError(
                f"{source}: the name {shown(twice)} occurs twice in one object; names must differ"
            )
        return out

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidProblemError(f"{source}: byte {error.start}: expected UTF-8 text: {error.reason}") from None
    try:
        return json.loads(text, parse_constant=constant, object_pairs_hook=pairs if unique_keys else None)
    except json.JSONDecodeError as error:
        raise InvalidProblemError(
            f"{source}: line {error.lineno}, column {error.colno}: expected JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise InvalidProblemError(f"{source}: the JSON is nested too deeply; expected a few levels") from None
    except InvalidProblemError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidProblemError(f"{source}: {error}") from None


def type_error(source: str, where: str, expected: str, found: object) -> InvalidProblemError:
    """The error that a JSON value is not of the expected kind."""
    return InvalidProblemError(f"{source}: {where}: expected {expected}, found {shown(found)}")


def member(value: Any, key: str, kind: type, source: str, where: str) -> Any:
    """Member `key` of the JSON object `value`, of type `kind`.

    Raises:
        InvalidProblemError: `value` is no object, has no such member, or it is of another type.
    """
    if not isinstance(value, dict):
        raise type_error(source, where or "the top level", "an object", value)
    path = f"{where}.{key}" if where else key
    if key not in value:
        raise InvalidProblemError(f"{source}: {path}: expected {_KINDS[kind]}, but it is missing")
    if not isinstance(value[key], kind) or isinstance(value[key], bool):
        raise type_error(source, path, _KINDS[kind], value[key])
    return value[key]


def flat_numbers(
    rows: list[Any], source: str, where: str, *, whole: bool = False, clip: bool = False
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Concatenate a JSON list of lists of numbers.

    Args:
        rows: The lists.
        source: How errors call the file.
        where: JSON path of `rows` for errors.
        whole: Refuse numbers with a fraction.
        clip: Cut numbers above int64 down to its greatest value rather than refuse them.

    Returns:
        The numbers, int64 when all are whole, else float64; and the length of each list, int64.

    Raises:
        InvalidProblemError: Naming the list and the entry that is no number.
    """
    if set(map(type, rows)) - {list}:
        index = next(i for i, row in enumerate(rows) if type(row) is not list)
        raise type_error(source, f"{where}[{index}]", "a list of numbers", rows[index])
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    allowed = {int} if whole else {int, float}
    kinds = set(map(type, chain.from_iterable(rows)))
    if kinds - allowed:
        i, j = next((i, j) for i, row in enumerate(rows) for j, item in enumerate(row) if type(item) not in allowed)
        raise type_error(source, f"{where}[{i}][{j}]", "a whole number" if whole else "a number", rows[i][j])
    total = int(lengths.sum())
    numbers: Iterable[Any] = chain.from_iterable(rows)
    try:
        if float in kinds:
            return np.fromiter(numbers, dtype=np.float64, count=total), lengths
        try:
            return np.fromiter(numbers, dtype=np.int64, count=total), lengths
        except OverflowError:
            if not clip:
                raise
            numbers = (min(item, _INT64_MAX) for item in chain.from_iterable(rows))
            return np.fromiter(numbers, dtype=np.int64, count=total), lengths
    except OverflowError:
        i, j = next((i, j) for i, row in enumerate(rows) for j, item in enumerate(row) if abs(item) > _INT64_MAX)
        raise type_error(source, f"{where}[{i}][{j}]", "a number that fits 64 bits", rows[i][j]) from None
