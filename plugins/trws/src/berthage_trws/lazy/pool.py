"""Tables of which only some entries are priced; the others stand in the pool with their lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from berthage import ClassedTable, CostTable, LazyTable
from berthage_trws.tables import Floats, Ints, TablePool, pool_tables

__all__ = ["LazyPool", "inner_table", "lazy_pool"]


@dataclass(eq=False, slots=True)
class LazyPool:
    """A pool whose entries are prices where known and lower bounds elsewhere.

    Attributes:
        pool: The entries; those that are priced later are written into its ``base``.
        tables: The lazy table of each pooled one; None for tables that are known in full.
        open: ``bool[len(base)]``: entries that are bounds.
        weight: ``float64[tables]``: copies of all edges that use each table.
        outgrown: Whether a price came up that is beyond the scale that the bounds suggest.
    """

    pool: TablePool
    tables: tuple[LazyTable | None, ...]
    open: npt.NDArray[np.bool_]
    weight: Floats
    outgrown: bool = False

    def line_starts(self, cells: Ints) -> Ints:
        """The entries that begin the rows of some entries."""
        starts, slots = np.unique(self.pool.start, return_index=True)
        slot = slots[np.searchsorted(starts, cells, side="right") - 1]
        return cells - (cells - self.pool.start[slot]) % self.pool.columns[slot]

    def price(self, cells: Ints) -> Floats:
        """Price entries (distinct indices into ``base``); their prices are written there and returned."""
        prices = np.empty(len(cells))
        order = np.argsort(cells)
        starts, slots = np.unique(self.pool.start, return_index=True)
        cuts = np.searchsorted(cells[order], np.append(starts, len(self.pool.base)))
        for slot, first, last in zip(slots.tolist(), cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            if first == last:
                continue
            mine = order[first:last]
            table = self.tables[slot]
            assert table is not None  # entries of other tables are never open
            at = cells[mine] - self.pool.start[slot]
            prices[mine] = table.lookup(*np.divmod(at, self.pool.columns[slot]))
            finite = prices[mine][prices[mine] < np.inf]
            if len(finite):
                shared = self.pool.start == self.pool.start[slot]
                self.pool.high[shared] = np.maximum(self.pool.high[shared], finite.max())
                self.outgrown |= bool(np.abs(finite).max() > _LARGE)
        self.pool.base[cells] = prices
        self.open[cells] = False
        return prices


_LARGE = 1e100
"""Prices beyond would have to be scaled, which is settled before any price is known."""


def inner_table(table: CostTable) -> CostTable:
    """The table inside any classed ones."""
    while isinstance(table, ClassedTable):
        table = table.table
    return table


def lazy_pool(tables: Sequence[CostTable], weight: Floats) -> LazyPool:
    """Pool ``tables`` without pricing an entry of a lazy one, unless nothing at all is known about it."""
    inner = [inner_table(table) for table in tables]
    lazy = [table if isinstance(table, LazyTable) else None for table in inner]
    known: dict[int, tuple[Floats, npt.NDArray[np.bool_]]] = {}
    for table in lazy:
        if table is not None and id(table) not in known:
            known[id(table)] = _bounds(table)
    pool = pool_tables(tables, [None if table is None else known[id(table)][0] for table in lazy])
    unpriced = np.zeros(len(pool.base), np.bool_)
    for slot, table in enumerate(lazy):
        if table is not None:
            opened = known[id(table)][1].ravel()
            unpriced[pool.start[slot] : pool.start[slot] + len(opened)] = opened
    high = pool.high.copy()
    return LazyPool(replace(pool, high=high), tuple(lazy), unpriced, weight)


def _bounds(table: LazyTable) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Bounds of all entries, and which of them are not prices."""
    rows, columns = table.shape
    where = np.arange(rows)[:, None], np.arange(columns)[None, :]
    bounds = np.array(table.bounds(*where), dtype=np.float64)
    unknown = np.nonzero(bounds == -np.inf)
    if len(unknown[0]):
        bounds[unknown] = table.lookup(*unknown)
    return bounds, ~table.known(*where) & (bounds < np.inf)
