"""``berthage compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cli_plugin import strict


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
