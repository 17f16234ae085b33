"""Least value of a function of a few bounded numbers, without derivatives and in numpy alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["minimise"]

Floats = npt.NDArray[np.float64]
_FLAT = 1e-7  # the simplex is done when its values differ by less


def minimise(
    loss: Callable[[Floats], float], start: Floats, bounds: tuple[Floats, Floats], evaluations: int
) -> tuple[Floats, float]:
    """Nelder and Mead's simplex, with the coefficients that Gao and Han adapt to the dimension.

    Points are clipped to the bounds. When the simplex has settled it is opened once more around the best point, until
    that gains nothing.

    Args:
        loss: To be minimised.
        start: Where the search begins, within the bounds.
        bounds: Least and greatest of every number.
        evaluations: After how many calls of ``loss`` it ends.

    Returns:
        The best point and its value.
    """
    best, value, left = start, loss(start), evaluations - 1
    while left > len(start):
        found, now, used = _settle(loss, best, value, bounds, left)
        left -= used
        if now >= value - _FLAT:
            return (found, now) if now < value else (best, value)
        best, value = found, now
    return best, value


def _settle(
    loss: Callable[[Floats], float], start: Floats, value: float, bounds: tuple[Floats, Floats], evaluations: int
) -> tuple[Floats, float, int]:
    low, high = bounds
    n = len(start)
    spread = np.where(start != 0, 0.1 * start, 0.05 * (high - low))
    points = np.concatenate([start[None], np.clip(start + np.diag(spread), low, high)])
    for row, step in enumerate(spread, start=1):  # a point on its upper bound opens the simplex downwards
        if points[row, row - 1] == start[row - 1]:
            points[row, row - 1] = np.clip(start[row - 1] - step, low[row - 1], high[row - 1])
    values = np.array([value, *(loss(point) for point in points[1:])])
    used = n
    expand, contract, shrink = 1 + 2 / n, 0.75 - 1 / (2 * n), 1 - 1 / n
    while used < evaluations:
        order = np.argsort(values, kind="stable")
        points, values = points[order], values[order]
        if values[-1] - values[0] < _FLAT:
            break
        middle = points[:-1].mean(axis=0)
        ahead = np.clip(2 * middle - points[-1], low, high)
        there = loss(ahead)
        used += 1
        if there < values[0]:
            further = np.clip(middle + expand * (ahead - middle), low, high)
            beyond = loss(further)
            used += 1
            points[-1], values[-1] = (further, beyond) if beyond < there else (ahead, there)
        elif there < values[-2]:
            points[-1], values[-1] = ahead, there
        else:
            side = ahead if there < values[-1] else points[-1]
            near = middle + contract * (side - middle)
            at = loss(near)
            used += 1
            if at < min(there, values[-1]):
                points[-1], values[-1] = near, at
            else:
                points[1:] = points[0] + shrink * (points[1:] - points[0])
                values[1:] = [loss(point) for point in points[1:]]
                used += n
    best = int(np.argmin(values))
    return points[best], float(values[best]), used
