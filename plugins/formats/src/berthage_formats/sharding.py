"""Recorded searches for tensor placements: ``NAME.npz`` with the numbers, ``NAME.json`` with the names.

A variable is a graph node, a label one of its strategies; costs are microseconds. Relations between nodes
become ties (or allowed pairs), what the user ruled out becomes a relation, the memory bound a linear budget.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, LabelSet, PlacementProblem, ProblemBuilder
from berthage_formats.jsonio import load_json, member, type_error
from berthage_formats.npz import Arrays
from berthage_formats.options import ShardingOptions, make_options
from berthage_formats.placements import coordinates
from berthage_formats.streams import StrPath, read_bytes
from berthage_formats.tables import CellCount, TablePool

__all__ = ["ShardingFormat"]

Array = npt.NDArray[Any]
_SLACK = 1e-6
"""Tolerance on the memory bound of the program that recorded the data, for sums that floats round."""


class ShardingFormat:
    """Reads recorded sharding searches."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read an instance, given by its ``.npz`` or its ``.json``.

        Args:
            path: Either of the two files.
            options: See :class:`~berthage_formats.options.ShardingOptions`.

        Raises:
            InvalidProblemError: A file is missing or damaged; the message names the array or JSON path.
        """
        chosen = make_options(ShardingOptions, options)
        base = Path(path)
        base = base.with_suffix("") if base.suffix in (".npz", ".json") else base
        names_path = base.with_name(base.name + ".json")
        names = load_json(read_bytes(names_path, chosen.max_bytes), str(names_path))
        arrays = Arrays(base.with_name(base.name + ".npz"), chosen.max_bytes)
        return _Instance(arrays, names, str(names_path), base.name, chosen).read()


class _Instance:
    """Turns the arrays and names of an instance into a problem."""

    def __init__(self, arrays: Arrays, names: Any, names_source: str, name: str, options: ShardingOptions) -> None:
        self._arrays = arrays
        self._names = names
        self._names_source = names_source
        self._options = options
        title = names.get("name", name) if isinstance(names, dict) else name
        self._builder = ProblemBuilder(str(title))
        self._count = CellCount(options.max_cells, arrays.source)
        self._sizes: Array = arrays.get("n_choices", "i")
        self._ptr: Array = self._starts("choice_ptr", self._sizes, "n_choices")
        self._mult: Array = arrays.get("mult", "i", len(self._sizes))
        self._variables: list[str] = []

    def read(self) -> PlacementProblem:
        """Read all parts in turn."""
        self._read_variables()
        self._read_edges()
        self._read_user_choices()
        self._read_relations()
        if self._options.memory:
            self._read_memory()
        return self._builder.build()

    def _fail(self, where: str, expected: str) -> InvalidProblemError:
        return InvalidProblemError(f"{self._arrays.source}: {where}: expected {expected}")

    def _starts(self, name: str, sizes: Array, of: str) -> Array:
        """Where each of `sizes` starts in a flat array; checked to be their running sum."""
        ptr = self._arrays.get(name, "i", len(sizes) + 1)
        limit = self._options.max_cells
        if len(sizes) and (sizes.min() < 1 or sizes.max() > limit):
            raise self._fail(of, f"sizes from 1 to {limit} (the option max_cells)")
        expected = np.concatenate([[0], np.cumsum(sizes)])
        if not np.array_equal(ptr, expected):
            raise self._fail(name, f"the running sum of {of}")
        return expected

    def _index(self, name: str, limit: int, length: int | None = None) -> Array:
        """An array of indices below `limit`."""
        index = self._arrays.get(name, "i", length)
        bad = np.flatnonzero((index < 0) | (index >= limit))
        if bad.size:
            raise self._fail(f"{name}[{bad[0]}]", f"an index from 0 to {limit - 1}, found {index[bad[0]]}")
        return index

    def _read_variables(self) -> None:
        source = self._names_source
        labels = member(self._names, "labels", list, source, "")
        entries = member(self._names, "vars", list, source, "")
        mesh = self._names.get("mesh")
        for i, label in enumerate(labels):
            if not isinstance(label, str):
                raise type_error(source, f"labels[{i}]", "a string", label)
        if len(entries) != len(self._sizes):
            raise InvalidProblemError(
                f"{source}: vars: expected {len(self._sizes)} entries, one a variable, found {len(entries)}"
            )
        self._variables = [str(member(entry, "name", str, source, f"vars[{i}]")) for i, entry in enumerate(entries)]
        total = int(self._ptr[-1])
        self._count.add(total, "n_choices")
        unary = self._arrays.get("unary", "f", total)
        chosen = self._index("label_idx", len(labels), total)
        places = coordinates(labels, len(mesh)) if isinstance(mesh, list) else None
        sets: dict[bytes, LabelSet] = {}
        for v, name in enumerate(self._variables):
            start, stop = int(self._ptr[v]), int(self._ptr[v + 1])
            index = chosen[start:stop]
            key = index.tobytes()
            if key not in sets:
                words = _distinct([labels[i] for i in index.tolist()])
                sets[key] = LabelSet.of(words, None if places is None else places[index])
            self._builder.add_variable(name, sets[key], unary[start:stop], multiplicity=int(self._mult[v]))

    def _read_edges(self) -> None:
        n = len(self._sizes)
        src = self._index("edge_src", n)
        dst = self._index("edge_dst", n, len(src))
        rows = self._arrays.get("mat_rows", "i")
        cols = self._arrays.get("mat_cols", "i", len(rows))
        mat = self._index("edge_mat", len(rows), len(src))
        limit = self._options.max_cells
        if len(rows) and (min(rows.min(), cols.min()) < 1 or max(rows.max(), cols.max()) > min(limit, 2**31)):
            raise self._fail("mat_rows, mat_cols", f"sizes from 1 to {limit} (the option max_cells)")
        ptr = self._starts("mat_ptr", rows * cols, "mat_rows x mat_cols")
        cost = self._arrays.get("mat_cost", "f", int(ptr[-1]))
        wrong = np.flatnonzero((rows[mat] != self._sizes[src]) | (cols[mat] != self._sizes[dst]))
        if wrong.size:
            e = int(wrong[0])
            raise self._fail(
                f"edge_mat[{e}]",
                f"a table of {self._sizes[src[e]]} x {self._sizes[dst[e]]}, the labels of its ends",
            )
        weight = self._mult[dst]
        if self._options.edges == "true":
            src, dst, mat, weight = self._reattached(src, dst, mat, weight)
        pool = TablePool(self._count)
        index = np.array(
            [
                self._builder.add_table(
                    pool.tables[pool.add(cost[ptr[m] : ptr[m + 1]].reshape(rows[m], cols[m]), None, f"table {m}")]
                )
                for m in range(len(rows))
            ],
            dtype=np.int64,
        )
        self._builder.add_edges(src, dst, index[mat], weight)

    def _reattached(self, src: Array, dst: Array, mat: Array, weight: Array) -> tuple[Array, Array, Array, Array]:
        """Edges with every real one charged: copies left out go from their real producer."""
        edge = self._index("unc_edge", len(src))
        producer = self._index("unc_src", len(self._sizes), len(edge))
        count = self._arrays.get("unc_count", "i", len(edge))
        weight = weight.copy()
        np.subtract.at(weight, edge, count)
        wrong = np.flatnonzero((count < 1) | (weight[edge] < 0) | (self._sizes[producer] != self._sizes[src[edge]]))
        if wrong.size:
            raise self._fail(
                f"unc_count[{wrong[0]}]",
                "a producer like the edge's own, and no more copies than the edge has",
            )
        keep = np.flatnonzero(weight > 0)
        return (
            np.concatenate([src[keep], producer]),
            np.concatenate([dst[keep], dst[edge]]),
            np.concatenate([mat[keep], mat[edge]]),
            np.concatenate([weight[keep], count]),
        )

    def _read_user_choices(self) -> None:
        allowed = self._arrays.get("user_ok", "b", int(self._ptr[-1]))
        for v, name in enumerate(self._variables):
            mask = allowed[self._ptr[v] : self._ptr[v + 1]]
            if not mask.all():
                self._builder.allow(v, np.flatnonzero(mask).tolist(), name=f"user choice of {name}")

    def _read_relations(self) -> None:
        n = len(self._sizes)
        first = self._index("hard_a", n)
        second = self._index("hard_b", n, len(first))
        kinds = member(self._names, "hard_kinds", list, self._names_source, "")
        kind = self._index("hard_kind", len(kinds), len(first))
        ptr = self._starts("hard_ptr", self._sizes[first] * self._sizes[second], "the relations' sizes")
        flat = self._arrays.get("hard_ok", "b", int(ptr[-1]))
        for h, (a, b) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            allowed = flat[ptr[h] : ptr[h + 1]].reshape(self._sizes[a], self._sizes[b])
            name = f"{kinds[kind[h]]} {h}: {self._variables[a]} ~ {self._variables[b]}"
            if a == b:
                self._builder.allow(a, np.flatnonzero(np.diagonal(allowed)).tolist(), name=name)
            elif allowed.sum(axis=1).max() <= 1 and allowed.sum(axis=0).max() <= 1:
                self._builder.tie(a, b, np.where(allowed.any(axis=1), allowed.argmax(axis=1), -1), name=name)
            else:
                self._builder.allow_pairs(a, b, allowed, name=name)

    def _read_memory(self) -> None:
        variable = self._index("mem_var", len(self._sizes))
        choice = self._arrays.get("mem_choice", "i", len(variable))
        coef = self._arrays.get("mem_coef", "f", len(variable))
        low, high = self._arrays.get("mem_bounds", "f", 2).tolist()
        bad = np.flatnonzero((choice < 0) | (choice >= self._sizes[variable]) | ~np.isfinite(coef))
        if bad.size:
            raise self._fail(f"mem_choice[{bad[0]}]", "a choice of its variable and a finite coefficient")
        flat = np.zeros(int(self._ptr[-1]))
        np.add.at(flat, self._ptr[variable] + choice, coef)
        weights: dict[int | str, npt.ArrayLike] = {
            v: flat[self._ptr[v] : self._ptr[v + 1]] for v in np.unique(variable).tolist()
        }
        scaled = coef * 2.0**30
        if not (scaled == np.floor(scaled)).all():  # sums of binary fractions are exact, others are not
            low, high = low - _SLACK, high + _SLACK
        self._builder.add_budget("memory", weights, lower=low, upper=high)


def _distinct(labels: list[str]) -> list[str]:
    """Labels made distinct: a second ``RR->RR`` becomes ``RR->RR #2``."""
    if len(set(labels)) == len(labels):
        return labels
    seen: dict[str, int] = {}
    out = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        out.append(label if seen[label] == 1 else f"{label} #{seen[label]}")
    return out
