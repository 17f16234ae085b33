"""Coordinates of strategies from their labels: one small integer per mesh dimension."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["coordinates"]

_TOKEN = re.compile(r"->|[,()]|-|R|S\d+|P(?:\[\w+\])?|<[^<>]*>")
_BETWEEN = frozenset({"->", ",", "(", ")", "-"})  # "-" is an operand that is no tensor


def coordinates(labels: Sequence[str], dimensions: int) -> npt.NDArray[np.int32] | None:
    """Coordinates of labels such as ``S0R,RS1->S0S1``.

    Mesh dimension d of a strategy is the list of what every operand does there (``S0``, ``R`` and ``S0`` for
    d = 0 of the example). Equal lists get equal numbers, so two strategies differ in exactly the dimensions
    in which their coordinates differ.

    Args:
        labels: K labels.
        dimensions: D, the number of mesh dimensions.

    Returns:
        int32[K, D], or None when a label does not read as a strategy on D dimensions.
    """
    if dimensions < 1:
        return None
    number: dict[tuple[str, ...], int] = {}
    rows = []
    for label in labels:
        words = _TOKEN.findall(label)
        operands: list[list[str]] = [[]]
        for word in words:
            if word in _BETWEEN:
                operands.append([])
            else:
                operands[-1].append(word)
        named = [operand for operand in operands if operand]  # a source has no inputs: "->RS0"
        if "".join(words) != label or not named or any(len(operand) != dimensions for operand in named):
            return None
        rows.append([number.setdefault(tuple(op[d] for op in named), len(number)) for d in range(dimensions)])
    return np.array(rows, dtype=np.int32).reshape(len(labels), dimensions)
