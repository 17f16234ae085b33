"""Numbers separated by white space, parsed in bulk, with the line of whatever is wrong."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError

__all__ = ["EXACT_FLOAT", "Tokens"]

EXACT_FLOAT = 2.0**53
_SPACE = np.zeros(256, dtype=bool)
_SPACE[list(b" \t\n\v\f\r")] = True
_SHOWN = 40
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Tokens:
    """The white-space separated words of a file.

    Args:
        data: The file's bytes.
        source: How errors call the file.
    """

    def __init__(self, data: bytes, source: str) -> None:
        self.source = source
        self._data = data
        blank = _SPACE[np.frombuffer(data, dtype=np.uint8)]
        edge = np.diff(blank.astype(np.int8), prepend=np.int8(1), append=np.int8(1))
        self._start: npt.NDArray[np.int64] = np.flatnonzero(edge < 0)
        self._stop: npt.NDArray[np.int64] = np.flatnonzero(edge > 0)

    def __len__(self) -> int:
        """Number of words."""
        return len(self._start)

    def text(self, index: int) -> str:
        """The word at `index`; the empty string past the end."""
        if index >= len(self):
            return ""
        return self._data[self._start[index] : self._stop[index]].decode("utf-8", errors="backslashreplace")

    def line(self, index: int) -> int:
        """Line of the word at `index`, counted from 1; past the end, the last line."""
        end = int(self._start[index]) if index < len(self) else len(self._data)
        return self._data.count(b"\n", 0, end) + 1

    def error(self, index: int, expected: str) -> InvalidProblemError:
        """The error that word `index` is not what was expected."""
        if index >= len(self):
            found = "the file ends"
        else:
            word = self.text(index)
            found = f"found {word if len(word) <= _SHOWN else word[:_SHOWN] + '…'!r}"
        return InvalidProblemError(f"{self.source}: line {self.line(index)}: expected {expected}, {found}")

    def integer(self, index: int, expected: str, low: int | None = None, high: int | None = None) -> int:
        """The whole number at `index`, between `low` and `high` inclusive.

        Raises:
            InvalidProblemError: It is missing, no whole number or out of range.
        """
        try:
            number = int(self.text(index))
        except ValueError:
            raise self.error(index, expected) from None
        if (low is not None and number < low) or (high is not None and number > high):
            raise self.error(index, expected)
        return number

    def floats(self, start: int, stop: int, expected: str) -> npt.NDArray[np.float64]:
        """Words `start` to `stop` as float64."""
        return self._parse(start, stop, np.float64, float, expected)

    def leading_integers(self, start: int) -> npt.NDArray[np.int64]:
        """All words from `start` up to the first that is no whole number, as int64 (saturating)."""
        values, clean = self._bulk(start, len(self), np.int64)
        if clean and len(values) == len(self) - start:
            return values
        first_word = next((i for i in range(start, len(self)) if not _INTEGER.fullmatch(self.text(i))), len(self))
        return self._bulk(start, first_word, np.int64)[0]

    def residuals(self, start: int, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
        """What to add to ``int(values)`` where the words from `start` on are integers a float64 cannot hold.

        Returns:
            int64 of the same length, or None when the floats are exact.
        """
        large = np.flatnonzero((np.abs(values) >= EXACT_FLOAT) & np.isfinite(values))
        if not large.size:
            return None
        out = np.zeros(len(values), dtype=np.int64)
        for i in large.tolist():
            word = self.text(start + i)
            if not _INTEGER.fullmatch(word):
                continue
            try:
                out[i] = int(word) - int(values[i])
            except (ValueError, OverflowError):
                raise self.error(start + i, "a number within 2^115 in magnitude") from None
        return out if out.any() else None

    def _parse(self, start: int, stop: int, dtype: type, scalar: Any, expected: str) -> npt.NDArray[Any]:
        if stop > len(self):
            raise self.error(len(self), expected)
        values, clean = self._bulk(start, stop, dtype)
        if clean and len(values) == stop - start:
            return values
        for index in range(start, stop):
            try:
                scalar(self.text(index))
            except ValueError:
                raise self.error(index, expected) from None
            if "_" in self.text(index):  # Python takes 1_000, the file formats do not
                raise self.error(index, expected)
        raise self.error(start, expected)

    def _bulk(self, start: int, stop: int, dtype: type) -> tuple[npt.NDArray[Any], bool]:
        """Parse words with numpy; the flag says whether it went through to the end."""
        if stop <= start:
            return np.zeros(0, dtype=dtype), True
        text = self._data[self._start[start] : self._stop[stop - 1]]
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy's way to say that it stopped early
            try:
                return np.fromstring(text, dtype=dtype, sep=" "), True
            except (DeprecationWarning, ValueError):
                return np.zeros(0, dtype=dtype), False
