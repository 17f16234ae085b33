"""IOPDDL: the JSON of the ASPLOS 2025 contest on intra-operator parallelism for distributed deep learning.

``{"problem": {"name", "nodes": {"intervals", "costs", "usages"}, "edges": {"nodes", "costs"},
"usage_limit"}}``. Node i chooses one of its strategies; edge costs are row-major; 10^18 says infeasible; a
node is live over the half-open interval ``[lo, hi)`` and the usages of what is live stay within
``usage_limit`` at every instant. A solution is a JSON list with one strategy index a node.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, PlacementProblem, ProblemBuilder
from berthage_formats.iopddl_text import FORBIDDEN, document
from berthage_formats.jsonio import flat_numbers, load_json, member, type_error
from berthage_formats.options import IopddlOptions, make_options
from berthage_formats.streams import StrPath, bare_name, read_bytes, write_bytes
from berthage_formats.tables import CellCount, TablePool

__all__ = ["IopddlFormat"]

Array = npt.NDArray[Any]


class IopddlFormat:
    """Reads and writes IOPDDL problems and solutions."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read a problem; nodes are called ``n0``, ``n1``, …, the limit ``usage``.

        Args:
            path: The file, perhaps compressed.
            options: See :class:`~berthage_formats.options.IopddlOptions`.

        Raises:
            InvalidProblemError: The file is damaged; the message gives the JSON path and what was expected.
        """
        limits = make_options(IopddlOptions, options)
        source = str(path)
        data = load_json(read_bytes(path, limits.max_bytes), source)
        return _Reader(data, source, bare_name(path), limits).problem()

    def write(self, problem: PlacementProblem, path: StrPath, **options: Any) -> None:
        """Write a problem: multiplicities multiplied in, relations written as infeasible costs.

        Raises:
            UnsupportedProblemError: It has linear or soft budgets, more than one interval budget, a variable
                that is live more than once, or a finite cost that the format takes for infeasible.
        """
        make_options(IopddlOptions, options)
        write_bytes(path, (json.dumps(document(problem), separators=(",", ":")) + "\n").encode())

    def read_solution(self, path: StrPath, problem: PlacementProblem) -> npt.NDArray[np.int32]:
        """Read a solution, int32[n]: a JSON list with one strategy index a node."""
        source = str(path)
        values = load_json(read_bytes(path, IopddlOptions().max_bytes), source)
        if not isinstance(values, list):
            raise type_error(source, "the top level", "a list of strategy indices", values)
        if len(values) != problem.num_variables:
            raise InvalidProblemError(
                f"{source}: expected {problem.num_variables} strategy indices, one a variable, found {len(values)}"
            )
        flat, _ = flat_numbers([values], source, "solution", whole=True)
        bad = np.flatnonzero((flat < 0) | (flat >= problem.num_labels))
        if bad.size:
            i = int(bad[0])
            raise InvalidProblemError(
                f"{source}: [{i}]: expected an index from 0 to {problem.num_labels[i] - 1} "
                f"(variable {problem.variable_names[i]!r}), found {flat[i]}"
            )
        return flat.astype(np.int32)

    def write_solution(self, path: StrPath, problem: PlacementProblem, assignment: npt.ArrayLike) -> None:
        """Write a solution as a JSON list."""
        labels = np.asarray(assignment).tolist()
        if len(labels) != problem.num_variables:
            raise InvalidProblemError(f"expected {problem.num_variables} labels, one a variable, got {len(labels)}")
        write_bytes(path, (json.dumps(labels) + "\n").encode())


class _Reader:
    """Turns a parsed document into a problem."""

    def __init__(self, data: Any, source: str, default_name: str, limits: IopddlOptions) -> None:
        self._source = source
        self._problem = member(data, "problem", dict, source, "")
        self._nodes = member(self._problem, "nodes", dict, source, "problem")
        name = self._problem.get("name", default_name)
        if not isinstance(name, str):
            raise type_error(source, "problem.name", "a string", name)
        self._builder = ProblemBuilder(name)
        self._count = CellCount(limits.max_cells, source)

    def problem(self) -> PlacementProblem:
        """Read all parts in turn."""
        sizes = self._variables()
        self._edges(sizes)
        self._usage(sizes)
        return self._builder.build()

    def _variables(self) -> Array:
        where = "problem.nodes.costs"
        rows = member(self._nodes, "costs", list, self._source, "problem.nodes")
        flat, sizes = flat_numbers(rows, self._source, where, clip=True)
        if len(rows) and sizes.min() < 1:
            raise InvalidProblemError(
                f"{self._source}: {where}[{int(sizes.argmin())}]: expected at least one strategy, found none"
            )
        self._count.add(len(flat), "the node costs")
        names = [f"n{i}" for i in range(len(rows))]
        self._builder.add_variables(names, sizes, _merged(flat))
        return sizes

    def _edges(self, sizes: Array) -> None:
        if "edges" not in self._problem:
            return
        edges = member(self._problem, "edges", dict, self._source, "problem")
        ends = self._pairs(edges, "nodes", "problem.edges", "a pair of node indices")
        bad = np.flatnonzero(((ends < 0) | (ends >= len(sizes))).any(axis=1))
        if bad.size:
            raise type_error(
                self._source,
                f"problem.edges.nodes[{bad[0]}]",
                f"node indices from 0 to {len(sizes) - 1}",
                ends[bad[0]].tolist(),
            )
        rows = member(edges, "costs", list, self._source, "problem.edges")
        if len(rows) != len(ends):
            raise InvalidProblemError(
                f"{self._source}: problem.edges.costs: expected {len(ends)} lists, one for each of "
                f"edges.nodes, found {len(rows)}"
            )
        flat, lengths = flat_numbers(rows, self._source, "problem.edges.costs", clip=True)
        u, v = ends[:, 0], ends[:, 1]
        wrong = np.flatnonzero(lengths != sizes[u] * sizes[v])
        if wrong.size:
            e = int(wrong[0])
            raise InvalidProblemError(
                f"{self._source}: problem.edges.costs[{e}]: expected {sizes[u[e]]} x {sizes[v[e]]} costs "
                f"(strategies of nodes {u[e]} and {v[e]}), found {lengths[e]}"
            )
        self._builder.add_edges(u, v, self._tables(flat, lengths, sizes[u], sizes[v]))

    def _tables(self, flat: Array, lengths: Array, rows: Array, cols: Array) -> Array:
        """Index of each edge's table among the distinct ones."""
        pool = TablePool(self._count)
        out = np.empty(len(lengths), dtype=np.int64)
        stops = np.cumsum(lengths)
        shapes = zip(rows.tolist(), cols.tolist(), (stops - lengths).tolist(), stops.tolist(), strict=True)
        for e, (height, width, start, stop) in enumerate(shapes):
            cells = flat[start:stop]
            key, index = pool.known(height, width, cells)
            if index is None:
                values, residual = _split(cells.reshape(height, width))
                index = pool.store(key, values, residual, f"problem.edges.costs[{e}]")
            out[e] = index
        index_of = np.array([self._builder.add_table(table) for table in pool.tables], dtype=np.int64)
        return index_of[out] if len(out) else out

    def _usage(self, sizes: Array) -> None:
        limit = self._problem.get("usage_limit")
        if limit is None:
            return
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise type_error(self._source, "problem.usage_limit", "a number", limit)
        if isinstance(limit, float) and limit.is_integer():
            limit = int(limit)
        spans = self._pairs(self._nodes, "intervals", "problem.nodes", "a pair [start, end] of whole numbers")
        self._expect_rows(len(spans), len(sizes), "problem.nodes.intervals")
        inverted = np.flatnonzero(spans[:, 1] < spans[:, 0])
        if inverted.size:
            i = int(inverted[0])
            raise type_error(
                self._source,
                f"problem.nodes.intervals[{i}]",
                "an interval whose end is not before its start",
                spans[i].tolist(),
            )
        rows = member(self._nodes, "usages", list, self._source, "problem.nodes")
        self._expect_rows(len(rows), len(sizes), "problem.nodes.usages")
        flat, lengths = flat_numbers(rows, self._source, "problem.nodes.usages")
        wrong = np.flatnonzero(lengths != sizes)
        if wrong.size:
            i = int(wrong[0])
            raise InvalidProblemError(
                f"{self._source}: problem.nodes.usages[{i}]: expected {sizes[i]} usages, one a "
                f"strategy, found {lengths[i]}"
            )
        stops = np.cumsum(lengths)
        bad = np.flatnonzero(~(flat >= 0) | ~np.isfinite(flat))
        if bad.size:
            i = int(np.searchsorted(stops, bad[0], side="right"))
            raise type_error(
                self._source,
                f"problem.nodes.usages[{i}]",
                "usages that are not negative",
                flat[bad[0]].item(),
            )
        used = np.maximum.reduceat(flat, stops - lengths) if len(sizes) else np.zeros(0)
        live = np.flatnonzero((spans[:, 1] > spans[:, 0]) & (used > 0))
        budget = [
            (i, int(spans[i, 0]), int(spans[i, 1]), flat[stops[i] - lengths[i] : stops[i]]) for i in live.tolist()
        ]
        self._builder.add_interval_budget("usage", budget, limit=limit)

    def _expect_rows(self, found: int, expected: int, where: str) -> None:
        if found != expected:
            raise InvalidProblemError(
                f"{self._source}: {where}: expected {expected} entries, one a node, found {found}"
            )

    def _pairs(self, value: dict[str, Any], key: str, where: str, expected: str) -> npt.NDArray[np.int64]:
        """A JSON list of pairs of whole numbers, int64[k, 2]."""
        rows = member(value, key, list, self._source, where)
        flat, lengths = flat_numbers(rows, self._source, f"{where}.{key}", whole=True)
        wrong = np.flatnonzero(lengths != 2)
        if wrong.size:
            raise InvalidProblemError(
                f"{self._source}: {where}.{key}[{wrong[0]}]: expected {expected}, found {lengths[wrong[0]]} numbers"
            )
        return flat.reshape(-1, 2)


def _split(cells: Array) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64] | None]:
    """File costs as float64 with inf for infeasible, and the int64 residual that makes large ones exact."""
    forbidden = cells >= FORBIDDEN
    values = cells.astype(np.float64)
    residual = None
    if cells.dtype.kind == "i":
        rest = np.where(forbidden, 0, cells - np.where(forbidden, 0, values).astype(np.int64))
        residual = rest if rest.any() else None
    values[forbidden] = np.inf
    return values, residual


def _merged(cells: Array) -> Array:
    """File costs as the builder takes them: floats, or Python integers where floats would round."""
    values, residual = _split(cells)
    if residual is None:
        return values
    return np.array([cost if cost < FORBIDDEN else np.inf for cost in cells.tolist()], dtype=object)
