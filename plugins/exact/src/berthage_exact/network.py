"""From a problem, the labels still of interest and the messages of TRW-S to a network in whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from berthage import PlacementProblem
from berthage_trws import Relaxation

from .budget_rows import budget_rows
from .state import FORBIDDEN, Floats, Ints, Net

Mask = npt.NDArray[np.bool_]

ROUNDING = 2.0**-51
"""Share of the numbers in a sum of two products that is charged for rounding where they are not whole."""


@dataclass(frozen=True, eq=False, slots=True)
class Network:
    """A network with what is needed to read its numbers.

    Attributes:
        net: For the kernels.
        unary: Costs of the labels, flat.
        messages: Messages, one for each place of `State.x` after the labels that says what an edge gave.
        rates: Multipliers of the rows, as `State.x` has them.
        label: Original label of each label, flat.
        constant: Cost of every assignment in the problem's units, rounded down.
        scale: Power of two that costs were multiplied by.
        terms: Number of costs in a sum: each may be understated by ``1 / scale``.
        span: Distance from the constant to the cost that the scale was chosen for.
    """

    net: Net
    unary: Ints
    messages: Ints
    rates: Ints
    label: Ints
    constant: float
    scale: float
    terms: int
    span: float

    def span_of(self, cost: float) -> float:
        """Distance from the sum of all minima to a cost."""
        return cost - self.constant

    def cost(self, units: int) -> float:
        """A lower bound in the problem's units for one in the network's."""
        exact = Fraction(self.constant) + Fraction(int(units)) / Fraction(self.scale)
        value = float(exact)
        return value if Fraction(value) <= exact else math.nextafter(value, -math.inf)

    def units(self, cost: float) -> int:
        """The least whole number of units that is at least ``cost``; 2^58 and more is cut off there."""
        if cost == math.inf:
            return 1 << 58
        exact = (Fraction(cost) - Fraction(self.constant)) * Fraction(self.scale)
        return max(min(math.ceil(exact), 1 << 58), -(1 << 58))


def network_size(problem: PlacementProblem, keep: Mask) -> int:
    """Bytes that the tables and places of the network of the labels kept would take, roughly from above."""
    counts = np.add.reduceat(keep, problem.label_ptr[:-1]).astype(np.int64) if len(keep) else np.zeros(0, np.int64)
    a, b = counts[problem.edge_u], counts[problem.edge_v]
    key = problem.edge_table.astype(np.int64) * (int(problem.edge_multiplicity.max(initial=0)) + 1)
    _, first = np.unique(key + problem.edge_multiplicity, return_index=True)
    shared = int((a * b)[first].sum())
    # state: value, stamp, support and two words of trail, twice as long
    return 8 * shared + 64 * int((a + b).sum() + counts.sum())


def build_network(relaxed: Relaxation, keep: Mask, upper: float) -> Network:
    """The network of the labels kept.

    Costs are scaled such that the distance from the sum of all minima to ``upper`` fills the numbers: whatever costs
    more than that on its own cannot be in an assignment of interest, and is lowered to a ceiling above it.

    Args:
        relaxed: A problem without relations, with messages and prices of budgets.
        keep: ``bool[ΣK]``: labels of interest; each variable has one.
        upper: No assignment that costs more is of interest; inf when nothing is known.
    """
    problem = relaxed.problem
    n, m = problem.num_variables, problem.num_edges
    owner = np.repeat(np.arange(n), problem.num_labels)
    kept = np.flatnonzero(keep)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owner[kept], minlength=n))]).astype(np.int64)
    label = kept - problem.label_ptr[owner[kept]]
    whole = problem.is_integral and _largest(problem) < 2.0**52
    rows = budget_rows(problem, relaxed.prices, keep, ptr)
    unary = problem.unary[kept] * problem.multiplicity[owner[kept]]
    doubt = _loss(whole, unary)
    low, high = np.minimum.reduceat(unary - doubt, ptr[:-1]), np.maximum.reduceat(unary, ptr[:-1])
    tables = _Tables(problem, keep, whole)
    constant = math.fsum([float(problem.constant), *low.tolist(), *tables.low.tolist()])
    constant = constant if whole else math.nextafter(constant, -math.inf)
    if upper == math.inf:
        span = float((high - low).sum() + (tables.high - tables.low).sum()) + rows.dearest + 1.0
    else:
        span = upper - constant
    ceiling = 1 << min(48, 58 - (n + m).bit_length())
    scale = 2.0 ** math.floor(math.log2(ceiling) - 1.0 - math.log2(min(max(span, 2.0**-900), 2.0**1000)))
    costs = _quantise(unary - low[owner[kept]], 2.0 * doubt, scale, ceiling)
    u, v = problem.edge_u.astype(np.int64), problem.edge_v.astype(np.int64)
    cells, cell, stride = tables.quantised(scale, ceiling)
    turned = u > v
    first, second = np.where(turned, v, u), np.where(turned, u, v)
    sizes = np.stack([ptr[first + 1] - ptr[first], ptr[second + 1] - ptr[second]], 1).ravel()
    place = int(ptr[-1]) + np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    out_u, out_v = place[:-1:2].copy(), place[1::2].copy()
    messages = np.zeros(int(place[-1]) - int(ptr[-1]), np.int64)
    for flat, end, at in (
        (relaxed.to_u, u, np.where(turned, out_v, out_u)),
        (relaxed.to_v, v, np.where(turned, out_u, out_v)),
    ):
        _place(messages, flat, problem, keep, end, at - int(ptr[-1]), scale, ceiling)
    net = Net(
        ptr, *_adjacency(n, first, second), first, second, cell, np.where(turned, 1, stride),
        np.where(turned, stride, 1), out_u, out_v, cells, rows.entry_ptr, rows.first, rows.last, rows.weight,
        rows.weights, rows.limit, rows.group, np.where(rows.price > 0.0, rows.price * scale, rows.price),
        rows.member_ptr, rows.member, rows.member_weight, rows.bits, rows.most,
    )  # fmt: skip
    rate = np.minimum(rows.rate * scale * 2.0**rows.bits, net.most).astype(np.int64)
    return Network(net, costs, messages, rate, label, constant, scale, n + m + 1, span)


def _largest(problem: PlacementProblem) -> float:
    """The greatest finite magnitude among costs, multiplicities included."""
    found = 0.0
    finite = np.abs(problem.unary[np.isfinite(problem.unary)])
    found = max(found, float(finite.max(initial=0.0)) * float(problem.multiplicity.max(initial=1)))
    for table in problem.tables:
        values = np.abs(table.to_dense())
        found = max(found, float(values[np.isfinite(values)].max(initial=0.0)))
    return found * float(problem.edge_multiplicity.max(initial=1)) + abs(float(problem.constant))


def _loss(whole: bool, values: Floats) -> Floats:
    """What is charged for the rounding of these products; nothing where all numbers are whole."""
    share = 0.0 if whole else ROUNDING
    return share * np.abs(np.where(np.isfinite(values), values, 0.0))


def _quantise(values: Floats, loss: Floats, scale: float, ceiling: int) -> Ints:
    """``floor((values - loss) * scale)``, no more than the ceiling; `FORBIDDEN` where infinite."""
    with np.errstate(over="ignore"):
        units = np.floor(np.clip((values - loss) * scale, -float(ceiling), float(ceiling)))
    return np.where(np.isfinite(values), units, float(FORBIDDEN)).astype(np.int64)


class _Tables:
    """Each distinct (table, multiplicity, labels kept) once.

    Attributes:
        low: What is taken off all costs of each edge.
        high: Greatest finite cost of each edge.
    """

    def __init__(self, problem: PlacementProblem, keep: Mask, whole: bool) -> None:
        self._problem, self._whole = problem, whole
        ptr = problem.label_ptr.tolist()
        masks: dict[bytes, int] = {}
        kept: list[Ints] = []
        mask_of: list[int] = []
        for i in range(problem.num_variables):
            mine = keep[ptr[i] : ptr[i + 1]]
            number = masks.setdefault(mine.tobytes(), len(masks))
            if number == len(kept):
                kept.append(np.flatnonzero(mine))
            mask_of.append(number)
        mask = np.array(mask_of, np.int64)
        keys = np.stack(
            [problem.edge_table, problem.edge_multiplicity, mask[problem.edge_u], mask[problem.edge_v]], 1
        ).astype(np.int64)
        distinct, self._use = np.unique(keys, axis=0, return_inverse=True)
        self._use = self._use.reshape(-1)
        self._distinct = [(t, copies, kept[a], kept[b]) for t, copies, a, b in distinct.tolist()]
        ranges = np.array([self._range(*each) for each in self._distinct]).reshape(-1, 2)
        self._low = ranges[:, 0]
        self.low: Floats = ranges[self._use, 0]
        self.high: Floats = ranges[self._use, 1]

    def _values(self, table: int, copies: int, rows: Ints, columns: Ints) -> tuple[Floats, Floats]:
        values = self._problem.tables[table].to_dense()[np.ix_(rows, columns)] * float(copies)
        return values, _loss(self._whole, values)

    def _range(self, table: int, copies: int, rows: Ints, columns: Ints) -> tuple[float, float]:
        values, loss = self._values(table, copies, rows, columns)
        finite = np.isfinite(values)
        if not finite.any():
            return 0.0, 0.0
        return float((values - loss)[finite].min()), float(values[finite].max())

    def quantised(self, scale: float, ceiling: int) -> tuple[Ints, Ints, Ints]:
        """All tables one after the other, and where the table of each edge starts and how long its rows are."""
        parts = []
        for each, low in zip(self._distinct, self._low.tolist(), strict=True):
            values, loss = self._values(*each)
            loss = loss + (0.0 if self._whole else ROUNDING * abs(low))
            parts.append(_quantise(values - low, loss, scale, ceiling))
        starts = np.cumsum([0, *(part.size for part in parts)]).astype(np.int64)
        widths = np.array([part.shape[1] for part in parts], np.int64)
        cells = np.concatenate([part.ravel() for part in parts]) if parts else np.zeros(0, np.int64)
        return cells, starts[:-1][self._use], widths[self._use]


def _place(
    messages: Ints, flat: Floats, problem: PlacementProblem, keep: Mask, end: Ints, at: Ints, scale: float, ceiling: int
) -> None:
    """Write the messages into ``end`` of every edge, labels kept only, to ``at``."""
    counts = problem.num_labels[end].astype(np.int64)
    edge = np.repeat(np.arange(len(end)), counts)
    start = np.concatenate([[0], np.cumsum(counts)])[:-1]
    k = np.arange(len(edge)) - start[edge]
    stays = keep[problem.label_ptr[end][edge] + k]
    rank = np.cumsum(stays) - 1
    before = np.concatenate([[0], np.cumsum(stays)])[start] if len(edge) else start
    units = np.clip(np.floor(flat * scale), -float(ceiling), float(ceiling)).astype(np.int64)
    messages[(at[edge] + rank - before[edge])[stays]] = units[stays]


def _adjacency(n: int, u: Ints, v: Ints) -> tuple[Ints, Ints, Ints]:
    ends, others = np.concatenate([u, v]), np.concatenate([v, u])
    edges = np.tile(np.arange(len(u)), 2)
    rank = np.lexsort((others, ends))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).astype(np.int64)
    return ptr, edges[rank], others[rank]
