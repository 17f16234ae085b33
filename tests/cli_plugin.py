"""A plugin made up for the tests of the command line: a format, solvers of every temper, and a command."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from berthage import (
    InvalidProblemError,
    Limit,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    SolverInfo,
    SolverOutcome,
    Termination,
    evaluate,
    hookimpl,
)
from berthage.registry import CommandInfo, FormatInfo


class TinyFormat:
    """Costs as JSON: ``{"costs": [[..]..], "limit": .., "constant": ..}``; label i of a variable weighs i."""

    def read(self, path: Path, scale: int = 1) -> PlacementProblem:
        try:
            data = json.loads(Path(path).read_text())
        except ValueError as error:
            raise InvalidProblemError(f"{path}: expected JSON: {error}") from error
        builder = ProblemBuilder("tiny")
        names = [builder.add_variable(f"v{i}", len(c), [x * scale for x in c]) for i, c in enumerate(data["costs"])]
        builder.add_constant(data.get("constant", 0))
        if "limit" in data:
            weights = {v: list(range(len(c))) for v, c in zip(names, data["costs"], strict=True)}
            builder.add_budget("weight", weights, upper=data["limit"])
        return builder.build()

    def write(self, problem: PlacementProblem, path: Path, scale: int = 1) -> None:
        rows = [(problem.unary_of(v) * scale).tolist() for v in range(problem.num_variables)]
        Path(path).write_text(json.dumps({"costs": rows}))

    def read_solution(self, path: Path, problem: PlacementProblem) -> list[int]:
        text = Path(path).read_text()
        if not text.startswith("TINY"):
            raise InvalidProblemError(f"{path}: expected TINY")
        return [int(word) for word in text.split()[1:]]

    def write_solution(self, path: Path, problem: PlacementProblem, assignment: Any) -> None:
        Path(path).write_text(" ".join(["TINY", *map(str, assignment)]))


@dataclass(frozen=True)
class TinyOptions:
    scale: int = field(default=1, metadata={"minimum": 1})


@dataclass(frozen=True)
class BruteOptions:
    order: str = field(default="up", metadata={"choices": ("up", "down"), "help": "Which way to go."})
    crash: bool = False


class Brute:
    """Every assignment, one after the other."""

    def solve(self, problem: PlacementProblem, params: Any, options: BruteOptions, context: Any) -> SolverOutcome:
        if options.crash:
            raise ZeroDivisionError("crashed on purpose")
        print("a banner that must not spoil JSON")
        best, least = None, math.inf if params.cutoff is None else math.nextafter(params.cutoff, math.inf)
        for choice in product(*(range(k) for k in problem.num_labels.tolist())):
            found = evaluate(problem, np.array(choice, dtype=np.int32))
            if found.feasible and found.objective < least:
                best, least = np.array(choice, dtype=np.int32), found.objective
        if best is None:
            return SolverOutcome(Termination(Reason.INFEASIBLE))
        return SolverOutcome(Termination(Reason.OPTIMAL), best, float(least), stats={"way": options.order})


class First:
    """The first label everywhere, no bound."""

    def solve(self, problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        start = params.warm_start
        x = np.zeros(problem.num_variables, dtype=np.int32) if start is None else np.asarray(start)
        return SolverOutcome(Termination(Reason.FEASIBLE, Limit.CONVERGED), x)


class Nothing:
    def solve(self, problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        return SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.TIME))


class Fractional:
    def solve(self, problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        return SolverOutcome(Termination(Reason.NOT_INTEGRAL, detail="2 variables are fractional; use ilp"), None, 1.5)


class Liar:
    """Claims a bound that is above what others find."""

    def solve(self, problem: PlacementProblem, params: Any, options: Any, context: Any) -> SolverOutcome:
        return SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.TIME), None, 1e6)


@click.command("hello")
@click.option("--name", default="you")
def hello(name: str) -> None:
    """Greet."""
    click.echo(f"hello, {name}")


class Plugin:
    @hookimpl
    def berthage_solvers(self) -> list[SolverInfo]:
        return [
            SolverInfo(
                "brute",
                "Tries all.",
                f"{__name__}:Brute",
                options=BruteOptions,
                version="1.2",
                aliases=("b",),
            ),
            SolverInfo("first", "First labels.", f"{__name__}:First"),
            SolverInfo("fractional", "A relaxation.", f"{__name__}:Fractional"),
            SolverInfo("liar", "Lies.", f"{__name__}:Liar"),
            SolverInfo("missing", "Needs more.", "a:b", requires=("no_such_lib",), install="pip install more"),
            SolverInfo("nothing", "Finds nothing.", f"{__name__}:Nothing"),
        ]

    @hookimpl
    def berthage_formats(self) -> list[FormatInfo]:
        return [
            FormatInfo("tiny", "", f"{__name__}:TinyFormat", extensions=(".tiny",), writes=True, options=TinyOptions)
        ]

    @hookimpl
    def berthage_commands(self) -> list[CommandInfo]:
        return [
            CommandInfo("hello", "Greets people.", f"{__name__}:hello"),
            CommandInfo("lazy", "Is never imported for --help.", "no_such_module_at_all:command"),
        ]


class Misspelt:
    @hookimpl
    def berthage_solverz(self) -> list[SolverInfo]:
        return []


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)
