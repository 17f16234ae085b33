"""WCSP: weighted constraint satisfaction problems, functions in extension of at most two variables.

``name n max_domain functions top``, the domain sizes, then per function: arity, scope, default cost, number
of tuples, and the tuples with their costs. Costs are integers; ``top`` and above is forbidden. A negative
arity marks a function that later ones share by giving minus its number in place of a number of tuples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, PlacementProblem, ProblemBuilder, UnsupportedProblemError
from berthage_formats.options import ReadLimits, make_options
from berthage_formats.plain import plain
from berthage_formats.streams import StrPath, bare_name, read_bytes, write_bytes
from berthage_formats.tables import CellCount, TablePool
from berthage_formats.tokens import Tokens

__all__ = ["WcspFormat", "split_costs"]

IntArray = npt.NDArray[np.int64]
_Content = tuple[int, IntArray]  # default cost; one row a tuple, its cost last
_MAX_TOP = 2**62
_HEADER = 5


class WcspFormat:
    """Reads and writes WCSP files."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read a problem; variables are called ``x0``, ``x1`` and so on.

        The top value forbids single costs; the format's rule that a *total* must stay below it is left to
        ``SolveParams.cutoff``.

        Args:
            path: The file, perhaps compressed.
            options: See :class:`~berthage_formats.options.ReadLimits`.

        Raises:
            InvalidProblemError: The file is damaged; the message gives the line and what was expected.
            UnsupportedProblemError: A function has more than two variables or is a global constraint.
        """
        limits = make_options(ReadLimits, options)
        tokens = Tokens(read_bytes(path, limits.max_bytes), str(path))
        return _Network(tokens, limits.max_cells, bare_name(path)).read()

    def write(self, problem: PlacementProblem, path: StrPath, **options: Any) -> None:
        """Write a problem with whole costs that are not negative; multiplicities are multiplied in.

        Raises:
            UnsupportedProblemError: It has budgets, costs with a fraction or below zero, or totals beyond
                2^62.
        """
        make_options(ReadLimits, options)
        write_bytes(path, _text(problem).encode())


class _Network:
    """Turns the words of a file into a problem."""

    def __init__(self, tokens: Tokens, max_cells: int, default_name: str) -> None:
        self._tokens = tokens
        self._builder = ProblemBuilder(tokens.text(0) or default_name)
        self._count = CellCount(max_cells, tokens.source)
        self._pool = TablePool(self._count)
        self._numbers: IntArray = tokens.leading_integers(1)
        self._top = 0
        self._sizes: list[int] = []
        self._edges: list[tuple[int, int, int]] = []
        self._shared: list[tuple[tuple[int, ...], _Content]] = []

    def read(self) -> PlacementProblem:
        """Read header, domains and functions."""
        tokens = self._tokens
        n = tokens.integer(1, "the number of variables", 0)
        tokens.integer(2, "the greatest domain size", 0)
        functions = tokens.integer(3, "the number of functions", 0)
        self._top = tokens.integer(4, f"the top value, 1 to {_MAX_TOP}", 1, _MAX_TOP)
        self._sizes = [self._size(v) for v in range(n)]
        self._count.add(sum(self._sizes), "the number of labels")
        self._builder.add_variables([f"x{v}" for v in range(n)], self._sizes)
        position = _HEADER + n
        for k in range(functions):
            position = self._function(k, position)
        if position < len(tokens):
            raise tokens.error(position, f"the end of the file after {functions} functions")
        if self._edges:
            index = np.array([self._builder.add_table(table) for table in self._pool.tables], dtype=np.int64)
            u, v, table = np.array(self._edges, dtype=np.int64).T
            self._builder.add_edges(u, v, index[table])
        return self._builder.build()

    def _size(self, v: int) -> int:
        size = self._tokens.integer(_HEADER + v, f"the domain size of variable {v}")
        if size < 0:
            raise UnsupportedProblemError(
                f"{self._tokens.source}: line {self._tokens.line(_HEADER + v)}: variable {v} has an "
                "interval domain "
                f"({size}); only listed domains are supported"
            )
        if size == 0:
            raise self._tokens.error(_HEADER + v, f"a domain of at least one value for variable {v}")
        return size

    def _function(self, k: int, position: int) -> int:
        """Read function k; the position after it comes back."""
        tokens, n = self._tokens, len(self._sizes)
        arity = tokens.integer(position, f"the number of variables of function {k}")
        shared, arity = arity < 0, abs(arity)
        if arity > 2:
            keyword = tokens.text(position + arity + 2) if tokens.text(position + arity + 1) == "-1" else ""
            kind = f" ({keyword})" if keyword and not keyword.lstrip("+-").isdigit() else ""
            raise UnsupportedProblemError(
                f"{tokens.source}: line {tokens.line(position)}: function {k}{kind} joins {arity} variables; "
                "only functions of at most two variables are supported"
            )
        scope = tuple(
            tokens.integer(position + 1 + i, f"a variable of function {k}, 0 to {n - 1}", 0, n - 1)
            for i in range(arity)
        )
        position += 1 + arity
        default = tokens.integer(position, f"the default cost of function {k}")
        word = tokens.text(position + 1)
        if default == -1 and word and not word.lstrip("+-").isdigit():
            raise UnsupportedProblemError(
                f"{tokens.source}: line {tokens.line(position + 1)}: function {k} is the global "
                f"constraint {word!r}; "
                "only functions given by their tuples are supported"
            )
        tuples = tokens.integer(position + 1, f"the number of tuples of function {k}")
        position += 2
        shape = tuple(self._sizes[v] for v in scope)
        if tuples < 0:
            content = self._reused(k, -tuples, shape, position - 1)
        else:
            content = self._listed(k, shape, default, position, position + tuples * (arity + 1))
            position += tuples * (arity + 1)
        if shared:
            self._shared.append((shape, content))
        self._place(k, scope, shape, content)
        return position

    def _reused(self, k: int, number: int, shape: tuple[int, ...], position: int) -> _Content:
        if number > len(self._shared) or self._shared[number - 1][0] != shape:
            raise self._tokens.error(
                position, f"minus the number of an earlier shared function of shape {shape} for function {k}"
            )
        return self._shared[number - 1][1]

    def _listed(self, k: int, shape: tuple[int, ...], default: int, start: int, stop: int) -> _Content:
        """Default cost and tuples of a function, checked."""
        tokens = self._tokens
        if stop - 1 > len(self._numbers):
            raise tokens.error(
                min(1 + len(self._numbers), len(tokens)), f"a whole number in the tuples of function {k}"
            )
        if default <= -_MAX_TOP:
            raise tokens.error(start - 2, f"a default cost above -{_MAX_TOP} for function {k}")
        block = self._numbers[start - 1 : stop - 1].reshape(-1, len(shape) + 1)
        for axis, size in enumerate(shape):
            wrong = np.flatnonzero((block[:, axis] < 0) | (block[:, axis] >= size))
            if wrong.size:
                raise tokens.error(start + int(wrong[0]) * (len(shape) + 1) + axis, f"a value from 0 to {size - 1}")
        return min(default, self._top), block

    def _place(self, k: int, scope: tuple[int, ...], shape: tuple[int, ...], content: _Content) -> None:
        default, block = content
        if len(shape) == 2:
            # Looked up before it is written out: many functions over few tables stay cheap.
            key, index = self._pool.known(*shape, np.array(default), block)
            if index is None:
                self._count.check(shape[0] * shape[1], f"function {k}")
                values, residual = split_costs(_filled(shape, default, block), self._top)
                index = self._pool.store(key, values, residual, f"function {k}")
            self._edges.append((scope[0], scope[1], index))
            return
        costs = _filled(shape, default, block)
        values, residual = split_costs(costs, self._top)
        if len(shape) == 1:
            merged: Any = values
            if residual is not None:
                merged = np.array([c if c < self._top else np.inf for c in costs.tolist()], dtype=object)
            self._builder.add_unary(scope[0], merged)
        elif costs >= self._top:
            raise InvalidProblemError(f"{self._tokens.source}: function {k} has no variables and forbids everything")
        else:
            self._builder.add_constant(int(costs))


def _filled(shape: tuple[int, ...], default: int, block: IntArray) -> IntArray:
    """All costs of a function; of a tuple given twice, the last cost counts."""
    costs = np.full(shape, default, dtype=np.int64)
    if len(block):
        costs[tuple(block[:, axis] for axis in range(len(shape)))] = block[-1, -1] if not shape else block[:, -1]
    return costs


def split_costs(costs: IntArray, top: int) -> tuple[npt.NDArray[np.float64], IntArray | None]:
    """int64 costs as float64 with inf from `top` on, and the residual that makes large ones exact.

    Args:
        costs: Costs of any shape.
        top: Least forbidden cost, at most 2^62.
    """
    forbidden = costs >= top
    values = costs.astype(np.float64)
    rest = np.where(forbidden, 0, costs - np.where(forbidden, 0.0, values).astype(np.int64))
    values[forbidden] = np.inf
    return values, (rest if rest.any() else None)


def _text(problem: PlacementProblem) -> str:
    """The text of a file."""
    source = plain(problem, "wcsp")
    sizes = source.problem.num_labels.tolist()
    functions: list[tuple[tuple[int, ...], list[int | float]]] = []
    if source.constant != 0:
        functions.append(((), [source.constant]))
    functions += [((v,), costs) for v in range(len(sizes)) if any(costs := source.unary(v))]
    functions += [((u, v), source.table(table, times)) for u, v, table, times in source.edges()]
    top = 1
    for _, costs in functions:
        finite = [cost for cost in costs if cost != float("inf")]
        bad = next((cost for cost in finite if cost < 0 or not isinstance(cost, int)), None)
        if bad is not None:
            raise UnsupportedProblemError(
                f"wcsp takes whole costs that are not negative, and {problem.name!r} has {bad}; write "
                "uai or scale and shift"
            )
        top += int(max(finite, default=0))
    if top > _MAX_TOP:
        raise UnsupportedProblemError(
            f"the costs of {problem.name!r} add up to {top}, beyond wcsp's 2^62; rescale them"
        )
    name = "_".join(problem.name.split()) or "problem"
    lines = [f"{name} {len(sizes)} {max(sizes, default=0)} {len(functions)} {top}", " ".join(map(str, sizes))]
    for scope, costs in functions:
        lines += _function_lines(scope, costs, sizes, top)
    return "\n".join([*lines, ""])


def _function_lines(scope: tuple[int, ...], costs: list[int | float], sizes: list[int], top: int) -> list[str]:
    """Lines of one function; the most common cost is the default."""
    whole = [top if cost == float("inf") else int(cost) for cost in costs]
    values, counts = np.unique(np.array(whole, dtype=np.int64), return_counts=True)
    default = int(values[np.argmax(counts)])
    shape = tuple(sizes[v] for v in scope)
    tuples = [
        " ".join(map(str, (*np.unravel_index(i, shape), cost))) if shape else ""
        for i, cost in enumerate(whole)
        if cost != default
    ]
    return [" ".join(map(str, (len(scope), *scope, default, len(tuples)))), *tuples]
