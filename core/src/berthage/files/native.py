"""Berthage's own problem files: lossless, one file, written atomically, read without executing anything."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError, UnsupportedProblemError
from berthage.files.atomic import atomic_write
from berthage.files.container import read_container, write_container
from berthage.problem.arrays import Array, Int32Array, frozen
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.labels import LabelSet
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import Relations
from berthage.problem.tables import ClassedTable, CostTable, DenseTable
from berthage.problem.validate import validate

__all__ = ["NativeFormat"]

FORMAT_VERSION = 1
SOLUTION_VERSION = 1


class NativeFormat:
    """Reads and writes ``.berthage`` problem files, and solutions as JSON."""

    def read(self, path: str | os.PathLike[str]) -> PlacementProblem:
        """Read a problem.

        Raises:
            InvalidProblemError: When the file is damaged, or of a newer version.
        """
        header, arrays = read_container(path)
        where = os.fspath(path)
        version = header.get("format_version")
        if version != FORMAT_VERSION:
            raise InvalidProblemError(
                f"{where}: format version {version!r}; this release reads version {FORMAT_VERSION}"
            )
        try:
            return validate(_decode(header, arrays))
        except InvalidProblemError as error:
            raise InvalidProblemError(f"{where}: {error}") from None
        except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
            raise InvalidProblemError(
                f"{where}: the header does not describe a problem: {type(error).__name__} {error}"
            ) from None

    def write(self, problem: PlacementProblem, path: str | os.PathLike[str]) -> None:
        """Write a problem, atomically.

        Raises:
            UnsupportedProblemError: For lazy tables, whose oracle no file can hold.
        """
        header, arrays = _encode(problem)
        write_container(path, header, arrays)

    def read_solution(self, path: str | os.PathLike[str], problem: PlacementProblem) -> Int32Array:
        """Read an assignment: a JSON list of label indices, or an object with the key ``assignment``.

        Raises:
            InvalidProblemError: When the file is not that, or does not fit the problem.
        """
        where = os.fspath(path)
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise InvalidProblemError(f"{where}: not JSON: {error}") from None
        except (ValueError, RecursionError) as error:  # not text, a number of thousands of digits, or too deep
            raise InvalidProblemError(f"{where}: cannot be read as JSON: {error}") from None
        labels = data.get("assignment") if isinstance(data, dict) else data
        if not isinstance(labels, list):
            raise InvalidProblemError(
                f"{where}: expected a list of label indices, or an object whose 'assignment' is one"
            )
        try:
            return assignment_of(labels, problem)
        except InvalidProblemError as error:
            raise InvalidProblemError(f"{where}: {error}") from None

    def write_solution(
        self, path: str | os.PathLike[str], problem: PlacementProblem, assignment: npt.ArrayLike
    ) -> None:
        """Write an assignment as JSON, atomically, with the label names beside the indices."""
        x = problem.check_assignment(assignment)
        data = {
            "format_version": SOLUTION_VERSION,
            "problem": problem.name,
            "digest": problem.digest,
            "assignment": x.tolist(),
            "labels": {
                name: problem.label_name(v, int(label))
                for v, (name, label) in enumerate(zip(problem.variable_names, x, strict=True))
            },
        }
        with atomic_write(path) as stream:
            stream.write(json.dumps(data, ensure_ascii=False, indent=1).encode())


def assignment_of(labels: Sequence[Any], problem: PlacementProblem) -> Int32Array:
    """The assignment in a list that comes from a file, int32[n].

    Args:
        labels: Whatever a JSON list may hold; only whole numbers are label indices, and true and false are none.
        problem: The problem it is for.

    Raises:
        InvalidProblemError: Naming the first variable whose label is no index, or does not exist.
    """
    limits = np.iinfo(np.int32)
    for i, label in enumerate(labels):
        if type(label) is int and limits.min <= label <= limits.max:
            continue
        variable = repr(problem.variable_names[i]) if i < problem.num_variables else f"number {i}"
        if type(label) is int:
            size = f"a number of some {label.bit_length()} bits" if label.bit_length() > 128 else str(label)
            raise InvalidProblemError(f"variable {variable}: {size} is beyond any label index")
        shown = json.dumps(label) if label is None or isinstance(label, bool | str | float) else type(label).__name__
        raise InvalidProblemError(f"variable {variable}: expected a label index (a whole number), got {shown}")
    return problem.check_assignment(np.array(labels, dtype=np.int64))


class _Writer:
    """Collects arrays under generated names, equal ones once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._seen: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def put(self, array: Array | None) -> str | None:
        if array is None:
            return None
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._seen:
            self._seen[key] = f"a{len(self.arrays)}"
            self.arrays[self._seen[key]] = array
        return self._seen[key]


_VECTORS = {
    "variable_label_set": np.int32,
    "multiplicity": np.int64,
    "unary": np.float64,
    "unary_residual": np.int64,
    "edge_u": np.int32,
    "edge_v": np.int32,
    "edge_table": np.int32,
    "edge_multiplicity": np.int64,
}


def _encode(problem: PlacementProblem) -> tuple[dict[str, Any], dict[str, Array]]:
    writer = _Writer()
    relations = problem.relations
    header: dict[str, Any] = {
        "format": "berthage-problem",
        "format_version": FORMAT_VERSION,
        "name": problem.name,
        "constant": _number(problem.constant),
        "variables": list(problem.variable_names),
        "edges": None if problem.edge_names is None else list(problem.edge_names),
        "vectors": {name: writer.put(getattr(problem, name)) for name in _VECTORS},
        "label_sets": [
            {
                "size": s.size,
                "names": None if s.names is None else list(s.names),
                "coordinates": writer.put(s.coordinates),
            }
            for s in problem.label_sets
        ],
        "tables": [_encode_table(table, writer) for table in problem.tables],
        "relations": {
            **{key: writer.put(getattr(relations, key)) for key in ("kind", "u", "v", "data")},
            "arrays": [writer.put(array) for array in relations.arrays],
            "names": list(relations.names),
        },
        "linear_budgets": [_encode_budget(b, writer, ("lower", "upper", "price")) for b in problem.linear_budgets],
        "interval_budgets": [_encode_budget(b, writer, ("limit", "price")) for b in problem.interval_budgets],
    }
    return header, writer.arrays


def _encode_table(table: CostTable, writer: _Writer) -> dict[str, Any]:
    if isinstance(table, DenseTable):
        return {"kind": "dense", "values": writer.put(table.values), "residual": writer.put(table.residual)}
    if isinstance(table, ClassedTable):
        return {
            "kind": "classed",
            "table": _encode_table(table.table, writer),
            "row_class": writer.put(table.row_class),
            "col_class": writer.put(table.col_class),
        }
    raise UnsupportedProblemError(
        f"a {table.kind} cost table cannot be written to a file: its prices come from an oracle. "
        "Price the whole problem first: berthage.problem.priced(problem)"
    )


def _encode_budget(budget: LinearBudget | IntervalBudget, writer: _Writer, numbers: Sequence[str]) -> dict[str, Any]:
    arrays = ["variables", "ptr", "weights"]
    if isinstance(budget, IntervalBudget):
        arrays += ["start", "stop"]
    return {
        "name": budget.name,
        **{key: writer.put(getattr(budget, key)) for key in arrays},
        **{key: _number(getattr(budget, key)) for key in numbers},
    }


def _number(value: int | float | None) -> int | str | float | None:
    """A JSON value: integers as they are, infinities by name, floats by shortest repr (which is exact)."""
    if value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool)):
        return value if value is None else int(value)
    value = float(value)
    return value if math.isfinite(value) else repr(value)


def _parse(value: Any) -> int | float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidProblemError(f"expected a number, got {value!r}")
    return value


def _decode(header: dict[str, Any], arrays: dict[str, Array]) -> PlacementProblem:
    def get(name: str | None, dtype: npt.DTypeLike) -> Any:
        if name is None:
            return None
        if name not in arrays:
            raise InvalidProblemError(f"the header names an array {name!r} that is not in the file")
        if arrays[name].dtype != np.dtype(dtype):
            raise InvalidProblemError(f"array {name!r} is {arrays[name].dtype}, expected {np.dtype(dtype)}")
        return frozen(arrays[name], dtype)

    def need(name: Any, dtype: npt.DTypeLike) -> Any:
        array = get(name, dtype)
        if array is None:
            raise InvalidProblemError("the header leaves out an array that every problem has")
        return array

    def table(entry: dict[str, Any], depth: int = 0) -> CostTable:
        if entry["kind"] == "dense":
            values = need(entry["values"], np.float64)
            residual = get(entry["residual"], np.int64)
            if residual is not None and residual.shape != values.shape:
                raise InvalidProblemError("a table's residual must have the shape of its values")
            return DenseTable(values, residual)
        if entry["kind"] == "classed" and depth < 8:
            return ClassedTable(
                table(entry["table"], depth + 1), need(entry["row_class"], np.int32), need(entry["col_class"], np.int32)
            )
        raise InvalidProblemError(f"unknown kind of cost table {entry['kind']!r}")

    def texts(values: Any) -> tuple[str, ...]:
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InvalidProblemError("names must be a list of strings")
        return tuple(values)

    def budget_arrays(entry: dict[str, Any]) -> dict[str, Any]:
        weights = entry["weights"]
        dtype = np.float64 if weights in arrays and arrays[weights].dtype == np.float64 else np.int64
        return {
            "name": str(entry["name"]),
            "variables": need(entry["variables"], np.int32),
            "ptr": need(entry["ptr"], np.int64),
            "weights": need(weights, dtype),
            "price": None if entry["price"] is None else _parse(entry["price"]),
        }

    relations = header["relations"]
    vectors = {name: get(header["vectors"][name], dtype) for name, dtype in _VECTORS.items()}
    if any(array is None for name, array in vectors.items() if name != "unary_residual"):
        raise InvalidProblemError("the header leaves out an array that every problem has")
    return PlacementProblem(
        name=str(header["name"]),
        label_sets=tuple(
            LabelSet(
                int(entry["size"]),
                None if entry["names"] is None else texts(entry["names"]),
                get(entry["coordinates"], np.int32),
            )
            for entry in header["label_sets"]
        ),
        variable_names=texts(header["variables"]),
        tables=tuple(table(entry) for entry in header["tables"]),
        edge_names=None if header["edges"] is None else texts(header["edges"]),
        relations=Relations(
            need(relations["kind"], np.int8),
            need(relations["u"], np.int32),
            need(relations["v"], np.int32),
            need(relations["data"], np.int32),
            tuple(need(name, arrays[name].dtype) for name in relations["arrays"]),
            texts(relations["names"]),
        ),
        linear_budgets=tuple(
            LinearBudget(**budget_arrays(entry), lower=_parse(entry["lower"]), upper=_parse(entry["upper"]))
            for entry in header["linear_budgets"]
        ),
        interval_budgets=tuple(
            IntervalBudget(
                **budget_arrays(entry),
                start=need(entry["start"], np.int64),
                stop=need(entry["stop"], np.int64),
                limit=_parse(entry["limit"]),
            )
            for entry in header["interval_budgets"]
        ),
        constant=_parse(header["constant"]),
        **vectors,
    )
