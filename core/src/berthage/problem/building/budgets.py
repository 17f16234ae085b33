"""The budgets of a problem under construction."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import EXACT_FLOAT, Array, Int64Array, frozen, plain_number, split_exact
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.building.relations import RelationBuilder
from berthage.problem.building.variables import Variable


class BudgetBuilder(RelationBuilder):
    """Collects linear and interval budgets."""

    def __init__(self, name: str = "problem") -> None:
        super().__init__(name)
        self._linear: list[LinearBudget] = []
        self._interval: list[IntervalBudget] = []

    def add_budget(
        self,
        name: str,
        weights: Mapping[Variable, npt.ArrayLike],
        *,
        lower: int | float = -np.inf,
        upper: int | float = np.inf,
        price: int | float | None = None,
    ) -> str:
        """Add ``lower ≤ Σ weights[v][x_v] ≤ upper`` and return its name.

        Args:
            name: Name of the constraint.
            weights: Per variable one finite weight a label; variables left out weigh nothing.
            lower: Least sum; -inf for none.
            upper: Greatest sum; inf for none.
            price: Cost per unit outside the bounds; None for a hard budget.
        """
        rows = [(self.variable(v), w) for v, w in weights.items()]
        if len({v for v, _ in rows}) != len(rows):
            raise InvalidProblemError(f"budget {name!r} names a variable twice")
        lower = plain_number(lower, f"budget {name!r}: the lower limit")
        upper = plain_number(upper, f"budget {name!r}: the upper limit")
        if lower > upper:
            raise InvalidProblemError(f"budget {name!r}: lower {lower!r} must not exceed upper {upper!r}")
        if lower == np.inf or upper == -np.inf:
            raise InvalidProblemError(f"budget {name!r}: bounds {lower!r} to {upper!r} allow nothing")
        ptr, flat = self._weights(name, rows)
        variables = frozen(np.array([v for v, _ in rows], dtype=np.int32), np.int32)
        price = self._price(name, price)
        self._claim(name, True)
        self._linear.append(LinearBudget(name, variables, ptr, flat, lower, upper, price))
        return name

    def add_interval_budget(
        self,
        name: str,
        rows: Iterable[tuple[Variable, int, int, npt.ArrayLike]],
        *,
        limit: int | float,
        price: int | float | None = None,
    ) -> str:
        """Add a limit on what is live at any instant and return its name.

        Args:
            name: Name of the constraint.
            rows: ``(variable, start, stop, weights)``: live over the half-open interval, one weight ≥ 0 a label.
            limit: Greatest total use at any instant.
            price: Cost per unit of peak overuse; None for a hard budget.
        """
        listed = [(self.variable(v), start, stop, w) for v, start, stop, w in rows]
        for v, start, stop, _ in listed:
            if not -(2**63) <= start < 2**63 or not -(2**63) <= stop < 2**63:
                raise InvalidProblemError(
                    f"budget {name!r}: variable {self._names[v]!r} is live over [{start}, {stop}), beyond int64"
                )
            if stop < start:
                raise InvalidProblemError(
                    f"budget {name!r}: variable {self._names[v]!r} is live over [{start}, {stop}), "
                    "which ends before it starts"
                )
        ptr, flat = self._weights(name, [(v, w) for v, _, _, w in listed])
        if flat.size and flat.min() < 0:
            raise InvalidProblemError(f"budget {name!r}: what is live uses ≥ 0, got a weight of {flat.min()}")
        limit = plain_number(limit, f"budget {name!r}: the limit")
        if not math.isfinite(limit):
            raise InvalidProblemError(
                f"budget {name!r}: the limit must be finite, got {limit!r}; leave the budget out instead"
            )
        price = self._price(name, price)
        columns = [np.array([row[i] for row in listed], dtype=np.int64) for i in range(3)]
        self._claim(name, True)
        self._interval.append(
            IntervalBudget(
                name,
                frozen(columns[0], np.int32),
                frozen(columns[1], np.int64),
                frozen(columns[2], np.int64),
                ptr,
                flat,
                limit,
                price,
            )
        )
        return name

    def _price(self, name: str, price: int | float | None) -> int | float | None:
        if price is None:
            return None
        price = plain_number(price, f"budget {name!r}: the price per unit")
        if not math.isfinite(price) or price < 0:
            raise InvalidProblemError(f"budget {name!r}: the price per unit must be finite and ≥ 0, got {price!r}")
        return price

    def _weights(self, name: str, rows: list[tuple[int, npt.ArrayLike]]) -> tuple[Int64Array, Array]:
        parts: list[Array] = []
        for v, raw in rows:
            array = _weights_of(raw, f"budget {name!r}: the weights of {self._names[v]!r}")
            if array.shape != (self._labels(v).size,):
                raise InvalidProblemError(
                    f"budget {name!r}: variable {self._names[v]!r} has {self._labels(v).size} labels "
                    f"but {array.shape} weights"
                )
            parts.append(array)
        flat = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        wide = [
            part for part in parts if part.dtype.kind == "i" and (np.abs(part.astype(np.float64)) >= EXACT_FLOAT).any()
        ]
        wide = [part for part in wide if any(int(float(w)) != w for w in part.tolist())]
        if flat.dtype.kind == "f" and wide:
            raise InvalidProblemError(
                f"budget {name!r} mixes fractions with whole weights beyond 2^53, which no float holds; "
                "use a larger unit"
            )
        ptr = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=ptr[1:])
        return frozen(ptr, np.int64), frozen(flat, np.int64 if flat.dtype.kind == "i" else np.float64)


def _weights_of(raw: npt.ArrayLike, what: str) -> Array:
    """Weights as int64 where they are whole numbers, else float64.

    Raises:
        InvalidProblemError: For what is not finite, or whole and beyond int64.
    """
    if isinstance(raw, np.ndarray) and raw.dtype == np.int64:
        return raw
    values, residual = split_exact(raw, what)
    if not np.isfinite(values).all():
        raise InvalidProblemError(f"{what} must be finite; forbid the label instead")
    if not _whole(values):
        return values
    if not values.size or np.abs(values).max() < EXACT_FLOAT:
        return values.astype(np.int64)
    extra = [0] * values.size if residual is None else residual.ravel().tolist()
    exact = [int(value) + r for value, r in zip(values.ravel().tolist(), extra, strict=True)]
    if not all(-(2**63) <= number < 2**63 for number in exact):
        raise InvalidProblemError(f"{what} are beyond int64; use a larger unit")
    return np.array(exact, dtype=np.int64).reshape(values.shape)


def _whole(values: Array) -> bool:
    return values.dtype.kind == "i" or bool((values == np.floor(values)).all())
