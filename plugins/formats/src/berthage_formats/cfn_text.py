"""Writing CFN files."""

from __future__ import annotations

import json
from decimal import Decimal

from berthage import LabelSet, PlacementProblem, UnsupportedProblemError
from berthage_formats.plain import plain

__all__ = ["cfn_text"]

_FORBIDDEN = '"inf"'


def cfn_text(problem: PlacementProblem) -> str:
    """The text of a CFN file: names kept, numbers in full, a top value above every possible total.

    Raises:
        UnsupportedProblemError: The problem has budgets, or costs near the limit of a float64.
    """
    source = plain(problem, "cfn")
    functions: list[tuple[list[int], list[int | float]]] = []
    if source.constant != 0:
        functions.append(([], [source.constant]))
    functions += [([v], costs) for v in range(problem.num_variables) if any(costs := source.unary(v))]
    functions += [([u, v], source.table(table, times)) for u, v, table, times in source.edges()]
    top, places = Decimal(1), 0
    for _, costs in functions:
        exact = [_decimal(cost) for cost in costs if cost != float("inf")]
        top += max((cost for cost in exact if cost > 0), default=Decimal(0))
        places = max([places, *(_places(cost) for cost in exact)])
    top *= 2  # so far above every total that rounding cannot make a cost reach it
    if float(top) == float("inf"):
        raise UnsupportedProblemError(f"the costs of {problem.name!r} add up beyond a float64; rescale them")
    variables = [f"  {json.dumps(name)}: {_domain(problem.labels(v))}" for v, name in enumerate(problem.variable_names)]
    tables = [
        f'  "f{k}": {{"scope": {json.dumps(scope)}, "costs": [{", ".join(map(_number, costs))}]}}'
        for k, (scope, costs) in enumerate(functions)
    ]
    header = f'{{"name": {json.dumps(problem.name)}, "mustbe": "<{_plain(top, places)}"}}'
    return "\n".join(
        [
            "{",
            f'"problem": {header},',
            '"variables": {',
            ",\n".join(variables),
            "},",
            '"functions": {',
            ",\n".join(tables),
            "}",
            "}",
            "",
        ]
    )


def _domain(labels: LabelSet) -> str:
    return str(labels.size) if labels.names is None else json.dumps(labels.names)


def _number(cost: int | float) -> str:
    """The format knows no exponents, so every digit is written."""
    return _FORBIDDEN if cost == float("inf") else format(_decimal(cost), "f")


def _decimal(cost: int | float) -> Decimal:
    return Decimal(cost) if isinstance(cost, int) else Decimal(repr(cost))


def _places(cost: Decimal) -> int:
    exponent = cost.as_tuple().exponent
    return -exponent if isinstance(exponent, int) and exponent < 0 else 0


def _plain(top: Decimal, places: int) -> str:
    """A decimal with the number of places that costs have: other programs take their precision from it."""
    text = format(top, "f")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(places, '0')}" if places else whole
