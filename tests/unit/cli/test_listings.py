"""What is installed: solvers, plugins and the commands that plugins bring."""

from __future__ import annotations

from typing import Any

from cli_plugin import Misspelt, Plugin, strict

from berthage import Registry


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
