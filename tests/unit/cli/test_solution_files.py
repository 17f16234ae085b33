"""Solutions as files: written by ``solve``, read by ``check``, and what is no solution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_plugin import strict

from berthage import InvalidProblemError, ProblemBuilder
from berthage.files.native import NativeFormat


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
