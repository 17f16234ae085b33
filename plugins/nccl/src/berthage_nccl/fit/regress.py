"""Least absolute relative error with non-negative coefficients, in numpy alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["nonnegative", "robust"]

Floats = npt.NDArray[np.float64]
_ROUNDS = 25
_FLAT = 0.03  # errors below are as good as none: no weight grows beyond 1 / this


def nonnegative(matrix: Floats, wanted: Floats) -> Floats:
    """``argmin |matrix x - wanted|`` over ``x >= 0`` (Lawson and Hanson's active set method)."""
    columns = matrix.shape[1]
    free = np.zeros(columns, dtype=np.bool_)
    x = np.zeros(columns)
    tolerance = 1e-12 * max(1.0, float(np.abs(matrix.T @ wanted).max()))
    for _ in range(30 * columns):
        pull = matrix.T @ (wanted - matrix @ x)
        pull[free] = -np.inf
        best = int(np.argmax(pull))
        if free.all() or pull[best] <= tolerance:
            break
        free[best] = True
        while True:
            trial = np.zeros(columns)
            trial[free] = np.linalg.lstsq(matrix[:, free], wanted, rcond=None)[0]
            bad = free & (trial <= 0)
            if not bad.any():
                break
            step = float((x[bad] / np.maximum(x[bad] - trial[bad], 1e-300)).min())
            x = x + step * (trial - x)
            free &= x > 1e-15
            x[~free] = 0.0
        x = trial
    return x


def robust(matrix: Floats, times: Floats, importance: Floats) -> Floats:
    """Coefficients at least 0 that nearly minimise ``sum importance * |log(predicted / times)|``.

    Iteratively reweighted least squares: measurements have outliers (first touches, jitter) that squares would follow.

    Args:
        matrix: ``float64[R, C]``, non-negative.
        times: ``float64[R]``, above 0.
        importance: ``float64[R]``.
    """
    scale = np.maximum(matrix.max(axis=0), 1e-300)
    scaled = matrix / scale
    weight = np.sqrt(importance) / times
    x = np.zeros(matrix.shape[1])
    for _ in range(_ROUNDS):
        x = nonnegative(scaled * weight[:, None], times * weight)
        error = np.abs(np.log(np.maximum(scaled @ x, 1e-9) / times))
        weight = np.sqrt(importance / np.maximum(error, _FLAT)) / times
    return np.asarray(x / scale, dtype=np.float64)
