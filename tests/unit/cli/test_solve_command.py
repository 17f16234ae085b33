"""``berthage solve``: what it prints and writes, its options and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_plugin import strict


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
