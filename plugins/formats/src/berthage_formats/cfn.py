"""CFN: the JSON of cost function networks, table functions of at most two variables.

``{"problem": {"name", "mustbe": "<top"}, "variables": {name: values or size}, "functions": {name: {"scope",
"costs", "defaultcost"?}}}``. Dense costs are row-major; with a default cost they are tuples of values
followed by a cost. A string in place of costs names another function with the same table. Costs of ``top``
or above are forbidden.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, LabelSet, PlacementProblem, ProblemBuilder, UnsupportedProblemError
from berthage_formats.cfn_text import cfn_text
from berthage_formats.jsonio import load_json, member, shown, type_error
from berthage_formats.options import ReadLimits, make_options
from berthage_formats.streams import StrPath, bare_name, read_bytes, write_bytes
from berthage_formats.tables import CellCount, TablePool
from berthage_formats.tokens import EXACT_FLOAT

__all__ = ["CfnFormat"]

Array = npt.NDArray[Any]
_Content = tuple[int | float, Array, Array]  # default cost; flat indices and their costs
_WHOLE = re.compile(r"[+-]?[0-9]+")


class CfnFormat:
    """Reads CFN files (the strictly JSON form) and writes them."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read a problem with the file's names of variables and values.

        The top value forbids single costs; the format's rule that a *total* must stay below it is left to
        ``SolveParams.cutoff``.

        Args:
            path: The file, perhaps compressed.
            options: See :class:`~berthage_formats.options.ReadLimits`.

        Raises:
            InvalidProblemError: The file is damaged; the message gives the JSON path and what was expected.
            UnsupportedProblemError: It maximises, or a function is global or joins more than two variables.
        """
        limits = make_options(ReadLimits, options)
        source = str(path)
        data = load_json(read_bytes(path, limits.max_bytes), source, unique_keys=True)
        return _Network(data, source, bare_name(path), limits.max_cells).read()

    def write(self, problem: PlacementProblem, path: StrPath, **options: Any) -> None:
        """Write a problem with its names; multiplicities are multiplied in, relations written as costs.

        Raises:
            UnsupportedProblemError: It has budgets.
        """
        make_options(ReadLimits, options)
        write_bytes(path, cfn_text(problem).encode())


class _Network:
    """Turns a parsed document into a problem."""

    def __init__(self, data: Any, source: str, default_name: str, max_cells: int) -> None:
        self._source = source
        self._data = data
        header = member(data, "problem", dict, source, "")
        self._top = self._top_of(header)
        self._builder = ProblemBuilder(str(header.get("name", default_name)))
        self._count = CellCount(max_cells, source)
        self._pool = TablePool(self._count)
        self._labels: list[LabelSet] = []
        self._index: dict[str, int] = {}
        self._edges: list[tuple[int, int, int]] = []

    def _top_of(self, header: dict[str, Any]) -> float:
        text = header.get("mustbe")
        if text is None:
            return float("inf")
        if not isinstance(text, str) or text[:1] not in ("<", ">"):
            raise type_error(self._source, "problem.mustbe", "'<' or '>' and a number, as a string", text)
        if text[0] == ">":
            raise UnsupportedProblemError(
                f"{self._source}: problem.mustbe: maximisation is not supported; negate the costs and use '<'"
            )
        try:
            top = float(text[1:])
        except ValueError:
            top = float("nan")
        if not np.isfinite(top):
            raise type_error(self._source, "problem.mustbe", "'<' and a number", text)
        return top

    def read(self) -> PlacementProblem:
        """Read variables and functions."""
        self._variables()
        functions = self._named("functions")
        for name, value in functions.items():
            self._function(name, value, functions)
        if self._edges:
            index = np.array([self._builder.add_table(table) for table in self._pool.tables], dtype=np.int64)
            u, v, table = np.array(self._edges, dtype=np.int64).T
            self._builder.add_edges(u, v, index[table])
        return self._builder.build()

    def _named(self, key: str) -> dict[str, Any]:
        """A part of the file that is an object, or a list whose entries go by their number."""
        value = self._data.get(key)
        if isinstance(value, list):
            return {str(i): item for i, item in enumerate(value)}
        part: dict[str, Any] = member(self._data, key, dict, self._source, "")
        return part

    def _variables(self) -> None:
        plain: dict[int, LabelSet] = {}
        for name, values in self._named("variables").items():
            where = f"variables.{name}"
            if isinstance(values, int) and not isinstance(values, bool):
                if values < 0:
                    raise UnsupportedProblemError(
                        f"{self._source}: {where}: interval domains ({values}) are not supported"
                    )
                if values == 0:
                    raise type_error(self._source, where, "at least one value", values)
                self._count.add(values, where)
                labels = plain.setdefault(values, LabelSet(values))
            elif isinstance(values, list) and values and all(isinstance(x, str | int) for x in values):
                self._count.add(len(values), where)
                try:
                    labels = LabelSet.of([str(x) for x in values])
                except InvalidProblemError as error:
                    raise InvalidProblemError(f"{self._source}: {where}: {error}") from None
            else:
                raise type_error(self._source, where, "a list of value names or a number of values", values)
            self._index[name] = self._builder.add_variable(name, labels)
            self._labels.append(labels)

    def _function(self, name: str, value: Any, functions: dict[str, Any]) -> None:
        where = f"functions.{name}"
        scope = self._scope(value, where)
        shape = tuple(self._labels[v].size for v in scope)
        content = self._content(name, value, scope, functions)
        if len(shape) == 2:
            # Looked up before it is written out: many functions over few tables stay cheap.
            key, index = self._pool.known(*shape, *map(_hashable, content))
            if index is None:
                self._count.check(shape[0] * shape[1], where)
                index = self._pool.store(key, self._filled(shape, content), None, where)
            self._edges.append((scope[0], scope[1], index))
        elif len(shape) == 1:
            self._builder.add_unary(scope[0], self._filled(shape, content))
        else:
            constant = self._filled((1,), content).tolist()[0]
            if constant == float("inf"):
                raise InvalidProblemError(f"{self._source}: {where}: has no variables and forbids everything")
            self._builder.add_constant(int(constant) if float(constant).is_integer() else constant)

    def _filled(self, shape: tuple[int, ...], content: _Content) -> Array:
        default, flat, costs = content
        large = isinstance(default, int) and abs(default) >= EXACT_FLOAT
        out = np.full(shape, default, dtype=object if large else costs.dtype)
        out.reshape(-1)[flat] = costs
        out[out >= self._top] = np.inf
        return out

    def _scope(self, value: Any, where: str) -> list[int]:
        names = member(value, "scope", list, self._source, where)
        if "type" in value or "params" in value:
            raise UnsupportedProblemError(
                f"{self._source}: {where}: the global function {shown(value.get('type'))} is not "
                "supported, only tables are"
            )
        if len(names) > 2:
            raise UnsupportedProblemError(
                f"{self._source}: {where}: joins {len(names)} variables; only functions of at most two are supported"
            )
        return [self._variable(item, f"{where}.scope[{i}]") for i, item in enumerate(names)]

    def _variable(self, item: Any, where: str) -> int:
        if isinstance(item, str) and item in self._index:
            return self._index[item]
        if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < len(self._labels):
            return item
        raise type_error(self._source, where, "the name or index of a variable", item)

    def _content(self, name: str, value: dict[str, Any], scope: list[int], functions: dict[str, Any]) -> _Content:
        """Default cost, indices and costs of a function, or of the function that it shares."""
        shape = tuple(self._labels[v].size for v in scope)
        seen = {name}
        where = f"functions.{name}"
        while isinstance(value.get("costs"), str):
            other = value["costs"]
            if other in seen or other not in functions:
                raise type_error(
                    self._source,
                    f"{where}.costs",
                    "a list, or the name of another function that has one",
                    other,
                )
            seen.add(other)
            value, where = functions[other], f"functions.{other}"
            scope = self._scope(value, where)
            if tuple(self._labels[v].size for v in scope) != shape:
                raise InvalidProblemError(
                    f"{self._source}: {where}: shared by {name!r}, whose variables have other sizes"
                )
        listed = member(value, "costs", list, self._source, where)
        if "defaultcost" in value:
            default = self._cost(value["defaultcost"], f"{where}.defaultcost")
            return self._tuples(listed, scope, default, f"{where}.costs")
        size = 1
        for v in scope:
            size *= self._labels[v].size
        if len(listed) != size:
            raise InvalidProblemError(f"{self._source}: {where}.costs: expected {size} costs, found {len(listed)}")
        return 0, np.arange(size), self._costs(listed, f"{where}.costs")

    def _tuples(self, listed: list[Any], scope: list[int], default: float, where: str) -> _Content:
        width = len(scope) + 1
        if len(listed) % width:
            raise InvalidProblemError(
                f"{self._source}: {where}: expected groups of {width} (values, then a cost), found "
                f"{len(listed)} entries"
            )
        flat = np.zeros(len(listed) // width, dtype=np.int64)
        for axis, v in enumerate(scope):
            labels = self._labels[v]
            index = {label: i for i, label in enumerate(labels.names or ())}
            column = listed[axis::width]
            for row, item in enumerate(column):
                i = index.get(item, -1) if isinstance(item, str) else item
                if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i < labels.size:
                    raise type_error(self._source, f"{where}[{row * width + axis}]", "a value of the variable", item)
                flat[row] = flat[row] * labels.size + i
        return default, flat, self._costs(listed[len(scope) :: width], where)

    def _costs(self, listed: list[Any], where: str) -> Array:
        """Costs as float64, or as Python numbers where a float64 cannot hold a whole one."""
        if set(map(type, listed)) <= {int, float}:
            costs = np.array(listed, dtype=object if set(map(type, listed)) == {int} else np.float64)
            try:
                floats: Array = costs.astype(np.float64)
            except OverflowError:
                floats = np.full(1, np.inf)
            if not (np.abs(floats) >= EXACT_FLOAT).any():
                return floats
        exact = [self._cost(item, where) for item in listed]
        large = any(isinstance(cost, int) and abs(cost) >= EXACT_FLOAT for cost in exact)
        return np.array(exact, dtype=object if large else np.float64)

    def _cost(self, item: Any, where: str) -> int | float:
        """A cost: a number, a number in quotes, or ``inf``."""
        try:
            if isinstance(item, str):
                item = int(item) if _WHOLE.fullmatch(item) else float(item)
            if isinstance(item, int | float) and not isinstance(item, bool):
                rounded = float(item)
                if not np.isnan(rounded) and rounded != float("-inf"):
                    return item
        except (ValueError, OverflowError):
            pass
        raise type_error(self._source, where, "a cost", item)


def _hashable(part: float | Array) -> Array:
    """Numbers as an array whose bytes say what they are."""
    array = np.asarray(part)
    return np.frombuffer(repr(array.tolist()).encode(), dtype=np.uint8) if array.dtype == object else array
