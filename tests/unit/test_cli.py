"""The command line on tiny problems, with plugins of the tests' own."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from inspect import signature
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")
import click
from click.testing import CliRunner, Result

from berthage import (
    Infeasibility,
    InvalidProblemError,
    Limit,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    Registry,
    SolverInfo,
    SolverOutcome,
    Termination,
    evaluate,
    hookimpl,
)
from berthage.cli.app import app
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


@pytest.fixture
def registry() -> Registry:
    return Registry({"tests": Plugin()})


@pytest.fixture
def run(registry: Registry) -> Any:
    def invoke(*arguments: object, registry: Registry = registry) -> Result:
        # click before 8.2 mixes the two streams unless told not to
        old = "mix_stderr" in signature(CliRunner).parameters
        runner = CliRunner(**({"mix_stderr": False} if old else {}))
        return runner.invoke(app, [str(a) for a in arguments], obj=registry)

    return invoke


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Least cost 1 + 2 = 3 at [1, 1]; with weights it weighs 2."""
    path = tmp_path / "a.tiny"
    path.write_text(json.dumps({"costs": [[5, 1], [4, 2]]}))
    return path


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """The same, but at most weight 1: least cost 5 at [1, 0]."""
    path = tmp_path / "tight.tiny"
    path.write_text(json.dumps({"costs": [[5, 1], [4, 2]], "limit": 1}))
    return path


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


class TestSolve:
    def test_it_prints_what_was_found(self, run: Any, tiny: Path) -> None:
        done = run("solve", tiny, "--solver", "brute")
        assert done.exit_code == 0
        lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.split()[0].isalpha())
        assert lines["solver"] == "brute 1.2"
        assert lines["status"] == "optimal"
        assert (lines["objective"], lines["bound"], lines["gap"]) == ("3", "3", "0 %")

    def test_the_json_has_the_promised_keys_and_exact_integers(self, run: Any, tmp_path: Path) -> None:
        path, out = tmp_path / "big.tiny", tmp_path / "out.json"
        path.write_text(json.dumps({"costs": [[5, 1], [4, 2]], "constant": 10**20 + 1}))
        done = run("solve", path, "--solver", "b", "--json", out, "--seed", 7)
        assert done.exit_code == 0
        document = strict(out.read_text())
        assert document["format_version"] == 1
        assert document["solver"] == {"name": "brute", "version": "1.2"}
        assert document["termination"] == {"reason": "optimal", "limit": None, "detail": ""}
        assert document["objective"] == 10**20 + 4
        assert isinstance(document["objective"], int)
        assert document["bound"] == pytest.approx(1e20)
        assert document["gap"] <= 1e-9
        assert document["assignment"] == [1, 1]
        assert set(document["timings"]["total"]) == {"cpu", "wall"}
        assert document["stats"]["problem"]["variables"] == 2
        assert document["stats"]["solver"] == {"way": "up"}
        assert document["infeasibility"] is None
        assert document["seed"] == 7

    def test_what_is_not_known_is_null(self, run: Any, tiny: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        assert run("solve", tiny, "--solver", "first", "--json", out).exit_code == 0
        document = strict(out.read_text())
        assert document["termination"]["limit"] == "converged"
        assert (document["objective"], document["bound"], document["gap"]) == (9, None, None)

    def test_json_to_standard_output_is_only_json(self, run: Any, tiny: Path) -> None:
        done = run("solve", tiny, "--solver", "first", "--json", "-")
        assert strict(done.stdout)["objective"] == 9
        assert "objective  9" in done.stderr

    @pytest.mark.parametrize(
        ("solver", "code", "words"),
        [
            ("first", 0, "feasible (stopped: converged)"),
            ("nothing", 4, "no solution found (stopped: time)"),
            ("fractional", 1, "not integral: 2 variables are fractional; use ilp"),
        ],
    )
    def test_exit_codes_tell_how_it_ended(self, run: Any, tiny: Path, solver: str, code: int, words: str) -> None:
        done = run("solve", tiny, "--solver", solver)
        assert done.exit_code == code
        assert words in done.stdout

    def test_infeasible_is_told_with_the_reason(self, run: Any, tmp_path: Path) -> None:
        path, out = tmp_path / "a.tiny", tmp_path / "out.json"
        path.write_text(json.dumps({"costs": [[1, 2]], "limit": -1}))
        done = run("solve", path, "--solver", "brute", "--json", out, "--solution", tmp_path / "none")
        assert done.exit_code == 3
        assert "weight" in done.stdout
        document = strict(out.read_text())
        assert document["assignment"] is None
        assert document["infeasibility"]["constraints"] == ["weight"]
        assert not (tmp_path / "none").exists()

    def test_options_reach_the_solver_and_wrong_ones_are_bad_usage(self, run: Any, tiny: Path) -> None:
        out = strict(run("solve", tiny, "--solver", "brute", "--option", "order=down", "--json", "-").stdout)
        assert out["stats"]["solver"] == {"way": "down"}
        for option, answer in [
            ("ordr=up", "did you mean 'order'"),
            ("order=sideways", "one of up, down"),
            ("order", "'order' is not KEY=VALUE"),
        ]:
            done = run("solve", tiny, "--solver", "brute", "--option", option)
            assert done.exit_code == 2
            assert answer in done.stderr

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--gap", "-1"),
            ("--time-limit", "-1"),
            ("--threads", "0"),
            ("--seed", "x"),
            ("--cutoff", "x"),
            ("--cutoff", "nan"),
            ("--no-presolve", "--reductions", "x"),
            ("--reductions", "no-such"),
            ("--option", "order=up", "--option", "order=up"),
            ("--format", "no-such"),
            ("--format-option", "nope=1"),
            ("--drop-constraint", "no-such"),
            ("--solver", "brutte"),
        ],
    )
    def test_bad_usage_is_a_message_and_exit_code_2(self, run: Any, tiny: Path, arguments: tuple[str, ...]) -> None:
        done = run("solve", tiny, "--solver", "brute", *arguments)
        assert done.exit_code == 2
        assert "Error: " in done.stderr
        assert "Traceback" not in done.output

    def test_a_solver_that_fails_or_cannot_run_is_an_error_not_a_traceback(self, run: Any, tiny: Path) -> None:
        crashed = run("solve", tiny, "--solver", "brute", "--option", "crash=yes")
        assert crashed.exit_code == 1
        assert "'brute' failed: ZeroDivisionError: crashed on purpose" in crashed.stderr
        missing = run("solve", tiny, "--solver", "missing")
        assert missing.exit_code == 1
        assert "no_such_lib is not installed: pip install more" in missing.stderr
        assert "Traceback" not in crashed.output + missing.output

    def test_a_cutoff_excludes_what_costs_more(self, run: Any, tiny: Path) -> None:
        assert run("solve", tiny, "--solver", "brute", "--cutoff", "3").exit_code == 0
        assert run("solve", tiny, "--solver", "brute", "--cutoff", "2").exit_code == 3

    def test_dropping_budgets_tells_whether_they_hold_all_the_same(self, run: Any, tight: Path) -> None:
        assert "objective  5\n" in run("solve", tight, "--solver", "brute").stdout
        for argument in (("--drop-budgets",), ("--drop-constraint", "weight")):
            done = run("solve", tight, "--solver", "brute", *argument)
            assert "objective  3\n" in done.stdout
            assert "violated: weight" in done.stdout

    def test_format_options_reach_the_format(self, run: Any, tiny: Path) -> None:
        done = run("solve", tiny, "--solver", "brute", "--format", "tiny", "--format-option", "scale=10")
        assert "objective  30\n" in done.stdout
        assert run("solve", tiny, "--solver", "brute", "--format-option", "scale=0").exit_code == 2

    def test_a_warm_start_is_read(self, run: Any, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "start").write_text("[1, 0]")
        document = strict(
            run("solve", tiny, "--solver", "first", "--json", "-", "--warm-start", tmp_path / "start").stdout
        )
        assert document["assignment"] == [1, 0]
        (tmp_path / "start").write_text("[1, 7]")
        assert run("solve", tiny, "--solver", "first", "--warm-start", tmp_path / "start").exit_code == 2

    def test_a_broken_file_is_bad_input(self, run: Any, tmp_path: Path) -> None:
        (tmp_path / "x.tiny").write_text("{")
        done = run("solve", tmp_path / "x.tiny", "--solver", "brute")
        assert done.exit_code == 2
        assert "expected JSON" in done.stderr
        assert run("solve", tmp_path / "absent.tiny", "--solver", "brute").exit_code == 2
        (tmp_path / "x.unknown").write_text("")
        assert "name the format" in run("solve", tmp_path / "x.unknown", "--solver", "brute").stderr

    @pytest.mark.parametrize("option", ["--json", "--solution"])
    def test_an_output_that_cannot_be_written_is_told_before_the_solve(
        self, run: Any, tiny: Path, tmp_path: Path, option: str
    ) -> None:
        (tmp_path / "file").write_text("")
        (tmp_path / "astray").symlink_to(tmp_path / "gone" / "out")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        for path, told in [
            (tmp_path / "loop", str(tmp_path)),
            (tmp_path / ("x" * 300), str(tmp_path)),
            (tmp_path / "no" / "out", str(tmp_path / "no")),
            (tmp_path / "file" / "out", str(tmp_path / "file")),
            (tmp_path / "astray", str(tmp_path / "gone")),
            (Path(os.devnull), "not a regular file"),
            (tmp_path, "directory"),
        ]:
            # The solver would end with exit code 1 and its own message, had it been started.
            done = run("solve", tiny, "--solver", "brute", "--option", "crash=yes", option, path)
            assert done.exit_code == 2, (path, done.output)
            assert told in " ".join(done.stderr.split()), path
            assert "crashed on purpose" not in done.output
            assert "Traceback" not in done.output

    def test_a_folder_without_permission_is_told_before_the_solve(
        self, run: Any, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "closed"
        folder.mkdir()
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder and real(path, mode))
        done = run("solve", tiny, "--solver", "brute", "--option", "crash=yes", "--solution", folder / "out")
        assert done.exit_code == 2
        assert f"no permission to write in '{folder}'" in done.stderr

    def test_outputs_may_replace_files_and_what_links_point_to(self, run: Any, tiny: Path, tmp_path: Path) -> None:
        (tmp_path / "old").write_text("old")
        (tmp_path / "link").symlink_to(tmp_path / "old")
        assert run("solve", tiny, "--solver", "brute", "--json", tmp_path / "link").exit_code == 0
        assert (tmp_path / "link").is_symlink()
        assert strict((tmp_path / "old").read_text())["objective"] == 3


def test_every_output_of_every_command_of_ours_is_checked_at_once(registry: Registry) -> None:
    """Paths that need not exist yet are outputs: all of them are of the kind that looks before the work starts."""
    from berthage.cli.common import OutputFile

    outputs = []
    for info in registry.commands:
        if not info.target.startswith("berthage."):
            continue
        command = registry.load_command(info.name)
        assert isinstance(command, click.Command)
        for parameter in command.params:
            if isinstance(parameter.type, click.Path) and not parameter.type.exists:
                outputs.append((info.name, parameter.name))
                assert isinstance(parameter.type, OutputFile), outputs[-1]
    assert sorted(outputs) == [("convert", "target"), ("solve", "json_path"), ("solve", "solution_path")]


class TestSolutionFiles:
    def test_a_solution_is_written_in_the_formats_own_way_and_checked(
        self, run: Any, tiny: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "solution"
        assert run("solve", tiny, "--solver", "brute", "--solution", out).exit_code == 0
        assert out.read_text() == "TINY 1 1"
        done = run("check", tiny, out)
        assert done.exit_code == 0
        assert "cost       3\n" in done.stdout

    @pytest.mark.parametrize("text", ["[1, 1]", '{"assignment": [1, 1]}', "TINY 1 1"])
    def test_other_ways_are_read_too(self, run: Any, tiny: Path, tmp_path: Path, text: str) -> None:
        (tmp_path / "s").write_text(text)
        done = run("check", tiny, tmp_path / "s")
        assert done.exit_code == 0, done.output
        assert "cost       3\n" in done.stdout

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[1]",
            b"[1, 2]",
            b"[1, 1.0]",
            b"[true, 1]",
            b"[1, 1000000000000000000000000000000]",
            b"1 9223372036854775808",
            b"{}",
            b'{"assignment": null}',
            b"\xff\xfe",
            b"\x1f\x8b!",
        ],
    )
    def test_what_is_no_solution_is_bad_input(self, run: Any, tiny: Path, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "s").write_bytes(content)
        done = run("check", tiny, tmp_path / "s")
        assert done.exit_code == 2, done.output
        assert "Error: " in done.stderr
        assert "Traceback" not in done.output

    @pytest.mark.parametrize("text", ["[1, 99999999999999999999]", '{"assignment": [1, -3000000000]}'])
    def test_a_number_beyond_all_labels_is_named_with_its_variable(
        self, run: Any, tiny: Path, tmp_path: Path, text: str
    ) -> None:
        (tmp_path / "s").write_text(text)
        for arguments in (("check", tiny, tmp_path / "s"), ("solve", tiny, "--warm-start", tmp_path / "s")):
            done = run(*arguments, *(() if arguments[0] == "check" else ("--solver", "first")))
            assert done.exit_code == 2
            assert "variable 'v1'" in done.stderr
            assert "beyond any label index" in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[true, 0]", "variable 'v0': expected a label index (a whole number), got true"),
        ('{"assignment": [0, false]}', "variable 'v1': expected a label index (a whole number), got false"),
        ("[0, 1.0]", "variable 'v1': expected a label index (a whole number), got 1.0"),
        ("[null, 1]", "variable 'v0': expected a label index (a whole number), got null"),
        ("[0, [1]]", "variable 'v1': expected a label index (a whole number), got list"),
        ("[0, 99999999999999999999]", "variable 'v1': 99999999999999999999 is beyond any label index"),
        ("[-3000000000, 0]", "variable 'v0': -3000000000 is beyond any label index"),
        (f"[0, {10**1000}]", "variable 'v1': a number of some 3322 bits is beyond any label index"),
        (f"[0, {'9' * 5000}]", "cannot be read as JSON"),
        ("[0, 1, true]", "variable number 2: expected a label index"),
        ("[0, 2]", "variable 'v1' has 2 labels (0 to 1); the assignment gives it 2"),
        ("[0]", "one label index a variable: 2, got shape (1,)"),
        ("[0,", "not JSON"),
        ('"01"', "expected a list of label indices"),
    ],
)
def test_the_native_format_says_what_is_wrong_with_a_solution(tmp_path: Path, text: str, told: str) -> None:
    from berthage.files.native import NativeFormat

    builder = ProblemBuilder()
    for name in ("v0", "v1"):
        builder.add_variable(name, 2, [0, 1])
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(InvalidProblemError) as caught:
        NativeFormat().read_solution(tmp_path / "s.json", builder.build())
    assert told in str(caught.value)


class TestCheck:
    def test_a_violation_is_named_and_the_exit_code_is_1(self, run: Any, tight: Path, tmp_path: Path) -> None:
        (tmp_path / "s").write_text("TINY 1 1")
        done = run("check", tight, tmp_path / "s")
        assert done.exit_code == 1
        assert "valid      no\n" in done.stdout
        assert "budget     weight: 2 of 1\n" in done.stdout
        assert "violation  budget weight: uses 2, over its limit 1" in done.stdout
        assert run("check", tight, tmp_path / "s", "--drop-budgets").exit_code == 0

    def test_json(self, run: Any, tight: Path, tmp_path: Path) -> None:
        (tmp_path / "s").write_text("TINY 1 1")
        done = run("check", tight, tmp_path / "s", "--json")
        document = strict(done.stdout)
        assert done.exit_code == 1
        assert (document["feasible"], document["objective"]) == (False, 3)
        assert [v["name"] for v in document["violations"]] == ["weight"]
        assert document["budgets"][0]["used"] == 2


class TestCompare:
    def test_a_row_a_solver(self, run: Any, tiny: Path) -> None:
        done = run("compare", tiny, "--solvers", "brute, first,nothing")
        assert done.exit_code == 0
        rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
        assert rows["solver"] == [
            "solver",
            "termination",
            "objective",
            "bound",
            "gap",
            "cpu",
            "s",
            "wall",
            "s",
            "of",
            "it",
            "compiling",
        ]
        assert rows["brute"][1:6] == ["optimal", "3", "3", "0", "%"]
        assert rows["first"][1:6] == ["feasible", "(converged)", "9", "-", "-"]
        assert rows["nothing"][1:5] == ["no", "solution", "found", "(time)"]

    def test_a_solver_that_errors_is_a_row_and_the_others_still_run(self, run: Any, tiny: Path) -> None:
        done = run("compare", tiny, "--solvers", "missing,unheard-of,brute")
        assert done.exit_code == 1
        assert "no_such_lib is not installed" in done.stdout
        assert "no solver is named 'unheard-of'" in done.stdout
        assert "optimal" in done.stdout

    def test_claims_that_cannot_both_be_true_are_told(self, run: Any, tiny: Path) -> None:
        done = run("compare", tiny, "--solvers", "liar,brute")
        assert done.exit_code == 1
        assert "disagreement: the bound 1000000 of liar is above the objective 3 of brute" in done.stdout

    def test_json(self, run: Any, tiny: Path) -> None:
        done = run("compare", tiny, "--solvers", "brute,missing", "--json")
        document = strict(done.stdout)
        good, bad = document["results"]
        assert (good["objective"], good["error"]) == (3, None)
        assert bad["solver"]["name"] == "missing"
        assert "no_such_lib" in bad["error"]

    def test_no_solver_is_bad_usage(self, run: Any, tiny: Path) -> None:
        assert run("compare", tiny, "--solvers", " ,").exit_code == 2


class TestInspectAndConvert:
    def test_inspect(self, run: Any, tight: Path) -> None:
        done = run("inspect", tight)
        assert done.exit_code == 0
        assert "tiny: 2 variables, 0 edges, 1 budget" in done.stdout
        assert "linear budget weight: at most 1 over 2 variables" in done.stdout
        document = strict(run("inspect", tight, "--json").stdout)
        assert document["stats"]["labels"] == 4
        assert document["constraints"] == ["weight"]
        assert document["budgets"][0]["lower"] is None

    def test_convert(self, run: Any, tight: Path, tmp_path: Path) -> None:
        done = run("convert", tight, tmp_path / "out.tiny", "--format-option", "scale=2", "--to-option", "scale=5")
        assert done.exit_code == 0
        assert json.loads((tmp_path / "out.tiny").read_text()) == {"costs": [[50, 10], [40, 20]]}

    def test_convert_to_an_unknown_format(self, run: Any, tight: Path, tmp_path: Path) -> None:
        done = run("convert", tight, tmp_path / "out.tinny")
        assert done.exit_code == 2
        assert "did you mean .tiny" in done.stderr


class TestListings:
    def test_solvers(self, run: Any) -> None:
        done = run("solvers")
        lines = {line.split()[0]: line for line in done.stdout.splitlines()}
        assert done.exit_code == 0
        assert lines["brute"].split(maxsplit=2) == ["brute", "1.2", "Tries all. (also: b)"]
        assert "[unavailable: no_such_lib is not installed: pip install more]" in lines["missing"]

    def test_a_named_solver_is_listed_with_its_options(self, run: Any) -> None:
        done = run("solvers", "b")
        assert "--option order=up" in done.stdout
        assert "up | down" in done.stdout
        assert "Which way to go." in done.stdout
        assert run("solvers", "brutte").exit_code == 2

    def test_solvers_as_json(self, run: Any) -> None:
        rows = {row["name"]: row for row in strict(run("solvers", "--json").stdout)["solvers"]}
        assert rows["brute"]["available"] is True
        assert rows["brute"]["plugin"] == "tests"
        assert rows["brute"]["options"][0]["default"] == "up"
        assert rows["missing"]["available"] is False
        assert rows["missing"]["install"] == "pip install more"

    def test_broken_plugins_are_listed_with_the_reason(self, run: Any) -> None:
        registry = Registry({"tests": Plugin(), "typo": Misspelt(), "again": Plugin()})
        done = run("plugins", registry=registry)
        assert done.exit_code == 0
        assert "'berthage_solverz' (did you mean 'berthage_solvers'?)" in done.stdout
        assert "conflict: solver name 'brute' is claimed by 'tests' and by 'again'" in done.stdout
        document = strict(run("plugins", "--json", registry=registry).stdout)
        status = {row["name"]: row["status"] for row in document["plugins"]}
        assert status == {"berthage": "loaded", "tests": "loaded", "typo": "broken", "again": "loaded"}
        claimed = {"kind": "solver", "name": "brute", "plugins": ["'tests'", "'again'"], "used": None}
        assert claimed in document["conflicts"]
        assert "unavailable plugins: typo" in run("solvers", registry=registry).stderr

    def test_no_solvers_at_all(self, run: Any) -> None:
        done = run("solvers", registry=Registry())
        assert done.exit_code == 0
        assert "pip install ./plugins/ilp ./plugins/lp ./plugins/trws ./plugins/exact ./plugins/toulbar2" in done.stdout


class TestPluginCommands:
    def test_help_lists_them_without_importing_their_modules(self, run: Any) -> None:
        done = run("--help")
        assert done.exit_code == 0
        assert "Greets people." in done.stdout
        assert "Is never imported for --help." in done.stdout

    def test_they_run_with_their_own_options(self, run: Any) -> None:
        assert run("hello", "--name", "Ada").stdout == "hello, Ada\n"
        assert "--name" in run("hello", "--help").stdout

    def test_one_that_cannot_be_imported_is_an_error(self, run: Any) -> None:
        done = run("lazy")
        assert done.exit_code == 1
        assert "no_such_module_at_all" in done.stderr

    def test_an_unknown_command_is_answered_with_near_misses(self, run: Any) -> None:
        done = run("hallo")
        assert done.exit_code == 2
        assert "did you mean 'hello'" in done.stderr
        assert "'price' comes with berthage-nccl: pip install ./plugins/nccl" in run("price").stderr


def test_an_infeasibility_is_told_in_full() -> None:
    from berthage.cli.words import infeasibility_lines

    live = tuple(f"v{i}" for i in range(20))
    lines = list(infeasibility_lines(Infeasibility("too full", ("memory",), 7, live, 13084116)))
    assert lines[1:3] == ["clash      memory", "instant    7"]
    assert lines[3].endswith("v7 and 12 more")
    assert "no solution exists below 13084116" in lines[4]


class TestLiveLine:
    def test_it_is_silent_where_nobody_watches(self) -> None:
        import io

        from rich.console import Console

        from berthage.cli.live import live_line

        out = io.StringIO()
        with live_line("x", Console(file=out)) as observer:
            assert observer is None
        assert out.getvalue() == ""

    def test_it_shows_objective_bound_gap_and_elapsed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from berthage.cli import live

        clock = iter([100.0, 100.1, 103.0, 104.2])
        monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        line = live.LiveLine("brute")
        assert line.text() == ""
        assert line.text() == "brute  3 s"
        line.observe(live.Progress("bound", 1.0, 200, 150.0, "brute", "p"))
        assert line.text() == "brute  objective 200  bound 150  gap 25 %  4 s"
