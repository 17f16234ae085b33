"""The command line as a process of its own: start-up, Ctrl-C, missing extras, plugins from disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")

BERTHAGE = [sys.executable, "-m", "berthage.cli.main"]


def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BERTHAGE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def stranger(tmp_path: Path) -> dict[str, str]:
    """Two installed distributions on the path: one with a solver that runs until stopped, one broken."""
    site = tmp_path / "site"
    for name, hooks in {"patient": "patient_hooks", "broken": "broken_hooks"}.items():
        info = site / f"stranger_{name}-0.1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: stranger-{name}\nVersion: 0.1\n")
        (info / "entry_points.txt").write_text(f"[berthage]\n{name} = {hooks}\n")
    (site / "broken_hooks.py").write_text("import a_library_that_is_not_here\n")
    (site / "patient_hooks.py").write_text(
        textwrap.dedent(
            """
            from berthage import SolverInfo, hookimpl
            from berthage.registry import FormatInfo

            @hookimpl
            def berthage_solvers():
                return [SolverInfo("patient", "Runs until stopped.", "patient_solver:Patient")]

            @hookimpl
            def berthage_formats():
                return [FormatInfo("two", "", "patient_solver:Two", extensions=(".two",))]
            """
        )
    )
    (site / "patient_solver.py").write_text(
        textwrap.dedent(
            """
            import sys, time
            from berthage import Limit, ProblemBuilder, Reason, SolverOutcome, Termination

            class Patient:
                def solve(self, problem, params, options, context):
                    context.incumbent([1, 0])
                    context.bound(1.0)
                    told = False
                    while (reason := context.stop_reason()) is None:
                        if not told:
                            sys.stderr.write("started\\n")
                            sys.stderr.flush()
                            told = True
                        time.sleep(0.01)
                    return SolverOutcome(Termination(Reason.FEASIBLE, reason))

            class Two:
                def read(self, path):
                    builder = ProblemBuilder("two")
                    builder.add_variable("a", 2, [3, 1])
                    builder.add_variable("b", 2, [1, 2])
                    return builder.build()
            """
        )
    )
    (tmp_path / "p.two").write_text("")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path}


def test_listing_solvers_is_quick() -> None:
    run("solvers")  # byte code is compiled once
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("solvers").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.5  # CPU seconds: others may be busy on this machine


@pytest.mark.parametrize("arguments", [["solvers"], ["solvers", "--json"], ["plugins", "--json"], ["--help"]])
def test_listing_imports_no_heavy_library(arguments: list[str]) -> None:
    code = textwrap.dedent(
        f"""
        import sys
        from berthage.cli.main import main
        sys.argv = ["berthage", *{arguments!r}]
        try:
            main()
        finally:
            heavy = {{"torch", "pyomo", "pulp", "scipy", "numba", "highspy", "pandas", "rich.table"}}
            found = sorted(heavy & set(sys.modules))
            sys.stderr.write(f"heavy: {{found}}")
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.endswith("heavy: []"), done.stderr
    assert done.stdout


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from berthage.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"needs {missing}, which is not installed; run: pip install click rich" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plugin_that_cannot_be_imported_is_listed_and_hurts_nobody(stranger: dict[str, str]) -> None:
    done = run("plugins", "--json", env=stranger)
    assert done.returncode == 0, done.stderr
    rows: dict[str, Any] = {row["name"]: row for row in json.loads(done.stdout)["plugins"]}
    assert rows["broken"]["status"] == "broken"
    assert rows["broken"]["distribution"] == "stranger-broken"
    assert rows["broken"]["error"] == "ModuleNotFoundError: No module named 'a_library_that_is_not_here'"
    assert rows["patient"]["provides"] == {"solver": ["patient"], "format": ["two"]}
    assert "patient" in run("solvers", env=stranger).stdout


def test_plugins_can_be_restricted_and_traced(stranger: dict[str, str]) -> None:
    done = run("solvers", env={**stranger, "BERTHAGE_PLUGINS": "patient", "BERTHAGE_TRACE_PLUGINS": "1"})
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["patient"]
    assert "berthage: plugin 'patient' (stranger-patient 0.1) loaded in" in done.stderr
    assert "broken" not in done.stderr


def test_a_time_limit_ends_the_search_with_the_best_found(stranger: dict[str, str], tmp_path: Path) -> None:
    # Presolve would solve this problem before the solver that the limit is to stop.
    limits = ["--time-limit", "0.3", "--no-presolve"]
    done = run("solve", tmp_path / "p.two", "--solver", "patient", *limits, env=stranger)
    assert done.returncode == 0, done.stderr
    assert "status     feasible (stopped: time)" in done.stdout
    assert "objective  2\n" in done.stdout


def test_ctrl_c_prints_and_writes_the_best_found(stranger: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    process = subprocess.Popen(
        [
            *BERTHAGE,
            "solve",
            str(tmp_path / "p.two"),
            "--solver",
            "patient",
            "--no-presolve",
            "--json",
            str(out),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **stranger},
    )
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, stderr
    assert "status     feasible (stopped: interrupted)" in stdout
    assert "objective  2\n" in stdout
    assert "Traceback" not in stderr
    document = json.loads(out.read_text())
    assert document["termination"]["limit"] == "interrupted"
    assert document["assignment"] == [1, 0]
    assert document["bound"] >= 1


def test_the_live_line_shows_on_a_terminal(stranger: dict[str, str], tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    limits = ["--time-limit", "1.5", "--no-presolve"]
    command = [*BERTHAGE, "solve", str(tmp_path / "p.two"), "--solver", "patient", *limits]
    env = {**os.environ, **stranger, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=follower, env=env) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
    os.close(leader)
    assert process.returncode == 0
    assert b"patient  objective 2  bound " in shown
    assert b"Traceback" not in shown


def test_a_closed_pipe_is_no_traceback() -> None:
    process = subprocess.Popen(
        [*BERTHAGE, "solvers", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)


class TestPublishedFiles:
    """The contest's own example and plans, where they are at hand."""

    @pytest.fixture
    def iopddl(self, shared_data: Path) -> Path:
        pytest.importorskip("berthage_formats")
        return shared_data / "iopddl"

    @pytest.mark.parametrize("name", ["B", "G"])
    def test_stored_plans_cost_what_the_reference_says(self, iopddl: Path, name: str) -> None:
        reference = json.loads((iopddl / "reference.json").read_text())[name]
        done = run("check", iopddl / f"asplos-2025-iopddl-{name}.json.gz", iopddl / f"plan-{name}.json.gz", "--json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert document["objective"] == reference["plan_cost"]
        assert document["budgets"][0]["used"] == reference["plan_peak"]
        assert document["budgets"][0]["limit"] == reference["limit"]

    def test_the_example_survives_conversion(self, iopddl: Path, tmp_path: Path) -> None:
        own = tmp_path / "example.berthage"
        assert run("convert", iopddl / "example.json", own).returncode == 0
        (tmp_path / "plan").write_text("[0, 0, 2, 1, 0]")
        done = run("check", own, tmp_path / "plan")
        assert done.returncode == 0, done.stderr
        assert "cost       445\n" in done.stdout
