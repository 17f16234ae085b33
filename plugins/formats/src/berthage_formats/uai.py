"""UAI: the models of the UAI inference contests, ``MARKOV`` or ``BAYES``, at most two variables a factor.

The tables hold potentials in the contests (cost = -ln potential); other collections store costs in the same
layout. Nothing in a file says which, hence the option ``values``. A ``.evid`` file fixes observed variables.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, PlacementProblem, ProblemBuilder, UnsupportedProblemError
from berthage_formats.options import UaiOptions, make_options
from berthage_formats.plain import number_text, plain
from berthage_formats.streams import COMPRESSED_SUFFIXES, StrPath, bare_name, read_bytes, write_bytes
from berthage_formats.tables import CellCount, TablePool
from berthage_formats.tokens import Tokens

__all__ = ["UaiFormat"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_PREAMBLES = ("MARKOV", "BAYES")
_TASKS = ("MAP", "MPE")


class UaiFormat:
    """Reads and writes UAI models; reads and writes MAP solutions."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read a model; variables are called ``x0``, ``x1``, …; evidence becomes relations ``evidence x3``.

        Args:
            path: The file, perhaps compressed.
            options: See :class:`~berthage_formats.options.UaiOptions`.

        Raises:
            InvalidProblemError: The file is damaged; the message gives the line and what was expected.
            UnsupportedProblemError: A factor has more than two variables.
        """
        chosen = make_options(UaiOptions, options)
        tokens = Tokens(read_bytes(path, chosen.max_bytes), str(path))
        builder = ProblemBuilder(bare_name(path))
        cards = _Model(tokens, builder, chosen).read()
        evidence = _evidence_path(path, chosen.evidence)
        if evidence is not None:
            for variable, label in _read_evidence(evidence, cards, chosen.max_bytes):
                builder.fix(variable, label, name=f"evidence x{variable}")
        return builder.build()

    def write(self, problem: PlacementProblem, path: StrPath, **options: Any) -> None:
        """Write a model: multiplicities multiplied in, relations as infinite costs (potentials of zero).

        With ``values="cost"`` the numbers read back exactly; potentials are rounded by the logarithm.

        Raises:
            UnsupportedProblemError: The problem has budgets, or a cost so large that its potential is zero.
        """
        chosen = make_options(UaiOptions, options)
        write_bytes(path, _text(problem, chosen.values == "potential").encode())

    def read_solution(self, path: StrPath, problem: PlacementProblem) -> npt.NDArray[np.int32]:
        """Read a MAP answer, int32[n]: ``MAP`` or ``MPE``, perhaps a 1 (one answer), n, n labels."""
        tokens = Tokens(read_bytes(path, UaiOptions().max_bytes), str(path))
        start = 1 if tokens.text(0) in _TASKS else 0
        n = problem.num_variables
        if len(tokens) == start + n + 2:
            tokens.integer(start, "the number of answers, 1", 1, 1)
            start += 1
        tokens.integer(start, f"the number of variables, {n}", n, n)
        labels = [
            tokens.integer(start + 1 + v, f"a label from 0 to {size - 1} of {problem.variable_names[v]!r}", 0, size - 1)
            for v, size in enumerate(problem.num_labels.tolist())
        ]
        if len(tokens) > start + 1 + n:
            raise tokens.error(start + 1 + n, "the end of the file")
        return np.array(labels, dtype=np.int32)

    def write_solution(self, path: StrPath, problem: PlacementProblem, assignment: npt.ArrayLike) -> None:
        """Write a MAP answer."""
        labels = np.asarray(assignment).tolist()
        if len(labels) != problem.num_variables:
            raise InvalidProblemError(f"expected {problem.num_variables} labels, one a variable, got {len(labels)}")
        write_bytes(path, f"MAP\n{' '.join(map(str, [len(labels), *labels]))}\n".encode())


class _Model:
    """Turns the words of a model into calls of a builder."""

    def __init__(self, tokens: Tokens, builder: ProblemBuilder, options: UaiOptions) -> None:
        self._tokens = tokens
        self._builder = builder
        self._options = options
        self._count = CellCount(options.max_cells, tokens.source)

    def read(self) -> list[int]:
        """Read everything; the number of labels of each variable comes back."""
        tokens = self._tokens
        if tokens.text(0).upper() not in _PREAMBLES:
            raise tokens.error(0, "MARKOV or BAYES")
        n = tokens.integer(1, "the number of variables", 0)
        cards = [tokens.integer(2 + v, f"the number of labels of variable {v}", 1) for v in range(n)]
        self._count.add(sum(cards), "the number of labels")
        self._builder.add_variables([f"x{v}" for v in range(n)], cards)
        scopes, position = self._scopes(2 + n, n)
        self._factors(scopes, cards, position)
        return cards

    def _scopes(self, position: int, n: int) -> tuple[list[tuple[int, ...]], int]:
        tokens = self._tokens
        count = tokens.integer(position, "the number of factors", 0)
        position += 1
        scopes: list[tuple[int, ...]] = []
        for k in range(count):
            arity = tokens.integer(position, f"the number of variables of factor {k}", 0)
            if arity > 2:
                raise UnsupportedProblemError(
                    f"{tokens.source}: line {tokens.line(position)}: factor {k} joins {arity} variables; "
                    "only factors of at most two variables are supported"
                )
            scope = range(position + 1, position + 1 + arity)
            scopes.append(tuple(tokens.integer(i, f"a variable of factor {k}, 0 to {n - 1}", 0, n - 1) for i in scope))
            position += 1 + arity
        return scopes, position

    def _factors(self, scopes: list[tuple[int, ...]], cards: list[int], position: int) -> None:
        tokens = self._tokens
        sizes = [int(np.prod([cards[v] for v in scope], dtype=object)) for scope in scopes]
        start = position
        starts = []
        for k, size in enumerate(sizes):
            tokens.integer(start, f"{size}, the size of the table of factor {k}", size, size)
            if start + 1 + size > len(tokens):
                raise tokens.error(len(tokens), f"{size} values of factor {k}")
            starts.append(start + 1 - position)
            start += 1 + size
        if start < len(tokens):
            raise tokens.error(start, "the end of the file after the last table")
        values = tokens.floats(position, start, "a number")
        residual = tokens.residuals(position, values) if self._options.values == "cost" else None
        is_size = np.zeros(len(values), dtype=bool)
        is_size[np.array(starts, dtype=np.int64) - 1] = True
        costs = self._costs(values, position, is_size)
        pool = TablePool(self._count)
        edges: list[tuple[int, int, int]] = []
        for k, (scope, first, size) in enumerate(zip(scopes, starts, sizes, strict=True)):
            part = costs[first : first + size]
            rest = None if residual is None else residual[first : first + size]
            if len(scope) == 2:
                shape = (cards[scope[0]], cards[scope[1]])
                table = pool.add(part.reshape(shape), None if rest is None else rest.reshape(shape), f"factor {k}")
                edges.append((*scope, table))
            elif len(scope) == 1:
                self._builder.add_unary(scope[0], _exact(part, rest))
            elif np.isinf(part[0]):
                raise InvalidProblemError(f"{tokens.source}: factor {k} has no variables and forbids everything")
            else:
                self._builder.add_constant(_exact(part, rest).tolist()[0])
        self._add_edges(pool, edges)

    def _add_edges(self, pool: TablePool, edges: list[tuple[int, int, int]]) -> None:
        if not edges:
            return
        index = np.array([self._builder.add_table(table) for table in pool.tables], dtype=np.int64)
        u, v, table = np.array(edges, dtype=np.int64).T
        self._builder.add_edges(u, v, index[table])

    def _costs(self, values: FloatArray, position: int, is_size: npt.NDArray[np.bool_]) -> FloatArray:
        """Costs of the words from `position` on; the words that say a table's size are passed over."""
        self._refuse(np.isnan(values), position, "a number, not NaN")
        if self._options.values == "cost":
            self._refuse(values == -np.inf, position, "a cost above -inf")
            for i in np.flatnonzero(np.isinf(values)).tolist():
                if "inf" not in self._tokens.text(position + i).lower():
                    raise self._tokens.error(position + i, "a cost within the range of a float64, or inf")
            return values + 0.0  # -0 becomes 0
        self._refuse(
            (values < 0) & ~is_size,
            position,
            "a potential of at least 0 (if the file holds costs, say values=cost)",
        )
        self._refuse(np.isinf(values), position, "a finite potential (if the file holds costs, say values=cost)")
        zero = values == 0
        costs: FloatArray = -np.log(np.where(zero, 1.0, values)) + 0.0
        costs[zero] = self._options.zero_cost
        return costs

    def _refuse(self, bad: npt.NDArray[np.bool_], position: int, expected: str) -> None:
        if bad.any():
            raise self._tokens.error(position + int(np.argmax(bad)), expected)


def _exact(costs: FloatArray, residual: IntArray | None) -> Any:
    """Costs for the builder: floats, or Python numbers that keep large integers exact."""
    whole = residual is not None and residual.any()
    if residual is not None and whole:
        pairs = zip(costs.tolist(), residual.tolist(), strict=True)
        return np.array([int(c) + r if float(c).is_integer() else c for c, r in pairs], dtype=object)
    if len(costs) == 1 and np.isfinite(costs[0]) and costs[0].is_integer():
        return np.array([int(costs[0])])
    return costs


def _evidence_path(path: StrPath, option: str | None) -> Path | None:
    """Path of the evidence to apply, or None."""
    if option is None:
        return None
    if option != "auto":
        return Path(option)
    plain_path = Path(path)
    while plain_path.suffix in COMPRESSED_SUFFIXES:
        plain_path = plain_path.with_suffix("")
    beside = plain_path.with_name(plain_path.name + ".evid")
    return beside if beside.exists() else None


def _read_evidence(path: Path, cards: list[int], max_bytes: int) -> list[tuple[int, int]]:
    """Observed variables and their labels: ``[1] k var label var label …``."""
    tokens = Tokens(read_bytes(path, max_bytes), str(path))
    if not len(tokens):
        return []
    start = 0
    if len(tokens) % 2 == 0:  # the number of samples comes first
        samples = tokens.integer(0, "the number of samples", 0)
        if samples != 1:
            raise UnsupportedProblemError(f"{path}: holds {samples} samples of evidence; give a file with one")
        start = 1
    count = tokens.integer(start, "the number of observed variables", 0)
    if len(tokens) != start + 1 + 2 * count:
        raise tokens.error(min(start + 1 + 2 * count, len(tokens)), f"{count} pairs of variable and label")
    out: dict[int, int] = {}
    for position in range(start + 1, len(tokens), 2):
        v = tokens.integer(position, f"a variable from 0 to {len(cards) - 1}", 0, len(cards) - 1)
        label = tokens.integer(position + 1, f"a label of variable {v} from 0 to {cards[v] - 1}", 0, cards[v] - 1)
        if out.setdefault(v, label) != label:
            raise tokens.error(position + 1, f"label {out[v]} of variable {v}, as observed before")
    return list(out.items())


def _text(problem: PlacementProblem, potentials: bool) -> str:
    """The text of a model file."""
    source = plain(problem, "uai")
    sizes = source.problem.num_labels.tolist()
    scopes: list[str] = []
    bodies: list[str] = []

    def factor(scope: tuple[int, ...], costs: list[int | float]) -> None:
        scopes.append(" ".join(map(str, (len(scope), *scope))))
        numbers = [_potential(cost, problem.name) for cost in costs] if potentials else costs
        bodies.append(f"{len(costs)}\n{' '.join(map(number_text, numbers))}")

    if source.constant != 0:
        factor((), [source.constant])
    for v in range(len(sizes)):
        factor((v,), source.unary(v))
    for u, v, table, multiplicity in source.edges():
        factor((u, v), source.table(table, multiplicity))
    head = ["MARKOV", str(len(sizes)), " ".join(map(str, sizes)), str(len(scopes))]
    return "\n".join([*head, *scopes, "", *bodies, ""])


def _potential(cost: int | float, name: str) -> float:
    if cost == float("inf"):
        return 0.0
    try:
        with np.errstate(under="ignore", over="raise"):
            value = float(np.exp(-np.float64(cost)))
    except (FloatingPointError, OverflowError):
        value = float("inf")
    if value == 0.0 or value == float("inf"):
        raise UnsupportedProblemError(
            f"the cost {cost} of {name!r} has no potential exp(-cost) in float64; write values=cost, or rescale"
        )
    return value
