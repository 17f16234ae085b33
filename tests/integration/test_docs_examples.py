"""What the README and the pages of the site show is run: Python examples and commands."""

from __future__ import annotations

import doctest
import functools
import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from berthage import (
    InvalidProblemError,
    Limit,
    OptionError,
    PlacementProblem,
    ProblemBuilder,
    Reason,
    Registry,
    SolverInfo,
    SolverOutcome,
    Termination,
    read_problem,
    solve,
)
from berthage.cli.app import app
from berthage.registry import build_options, describe_options

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "solvers").glob("*.md")),
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path, language: str) -> list[str]:
    found = FENCE.finditer(page.read_text(encoding="utf-8"))
    return [match[2] for match in found if match[1] == language]


def commands(page: Path) -> list[str]:
    lines = (line for block in fences(page, "console") for line in block.splitlines())
    return [line[2:].split(" #")[0].strip() for line in lines if line.startswith("$ ")]


WITH_PYTHON = [page for page in PAGES if fences(page, "pycon")]
WITH_COMMANDS = [page for page in PAGES if any(line.startswith("berthage ") for line in commands(page))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the paths of the pages hold, and where what the examples write does not stay."""
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.stem)
def test_python_examples_give_what_they_show(page: Path, folder: Path) -> None:
    text = "\n".join(fences(page, "pycon"))
    example = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    result = runner.run(example, out=report.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a command in a folder that all pages share; one that several pages show runs once."""
    work = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "docs" / "examples", work / "docs" / "examples")
    scripts = sysconfig.get_path("scripts")
    program = shutil.which("berthage", path=os.pathsep.join([scripts, str(Path(sys.executable).parent)]))
    assert program is not None, "the program berthage is not installed beside this Python"

    @functools.cache
    def run(command: str) -> subprocess.CompletedProcess[str]:
        words = [program, *command.split()[1:]]
        return subprocess.run(words, cwd=work, capture_output=True, text=True, timeout=240, check=False)

    return run


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.stem)
def test_commands_run(page: Path, outcome: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    for command in commands(page):
        if command.startswith("berthage "):
            done = outcome(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_every_other_command_is_known() -> None:
    others = {c for page in PAGES for c in commands(page) if not c.startswith("berthage ")}
    known = re.compile(
        r"(pip install nox && )?nox -s [a-z]+|python -m pip install -r requirements-dev\.txt"
        r"|torchrun --nproc-per-node \d+ --no-python berthage run [a-z0-9 ,=-]+"  # tests/e2e/test_run_command.py does
        r"|\. \.nox/shared/bin/activate|pip install (?P<parts>('?\./[a-z./-]+(\[[a-z]+\])?'?( |$))+)"
    )
    matches = {command: known.fullmatch(command) for command in sorted(others)}
    assert [command for command, match in matches.items() if match is None] == []
    for match in matches.values():
        for part in re.findall(r"\./([a-z/-]+)", (match and match["parts"]) or ""):
            assert (ROOT / part / "pyproject.toml").is_file(), part


def test_the_plugin_of_the_guide_solves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = fences(ROOT / "docs" / "writing-a-plugin.md", "python")
    files = {match[1]: block for block in blocks if (match := re.match(r"# (berthage_mine/\w+\.py)\n", block))}
    assert sorted(files) == ["berthage_mine/hooks.py", "berthage_mine/solver.py"]
    (tmp_path / "berthage_mine").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry({"mine": importlib.import_module("berthage_mine.hooks")})

    builder = ProblemBuilder("apart")
    for name in "ab":
        builder.add_variable(name, 2, [1, 0])
    assert solve(builder.build(), "mine", registry=registry, presolve=False).assignment.tolist() == [1, 1]
    builder.forbid_pairs("a", "b", [(1, 1)])
    nothing = solve(builder.build(), "mine", registry=registry, presolve=False)
    assert nothing.termination.reason is Reason.NO_SOLUTION_FOUND


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The guide's examples of every kind but solvers, each a plugin."""
    blocks = fences(ROOT / "docs" / "writing-a-plugin.md", "python")
    files = {match[1]: block for block in blocks if (match := re.match(r"# berthage_kinds/(\w+)\.py\n", block))}
    (tmp_path / "berthage_kinds").mkdir()
    for name, text in files.items():
        (tmp_path / "berthage_kinds" / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "berthage_kinds"]:
        monkeypatch.delitem(sys.modules, name)
    registry = Registry({name: importlib.import_module(f"berthage_kinds.{name}") for name in files})
    assert registry.broken == ()
    return registry


def test_the_reduction_of_the_guide_reduces(kinds: Registry) -> None:
    builder = ProblemBuilder("two")
    builder.add_variable("a", 3, [1, float("inf"), 0])
    builder.add_variable("b", 2, [float("inf"), 2])
    builder.add_pairwise("a", "b", [[0, 5], [0, 0], [0, 9]])
    result = solve(builder.build(), _first_label, presolve=["finite"], registry=kinds)
    assert result.assignment.tolist() == [0, 1]
    assert dict(result.reductions) == {"finite": {"labels": 2}}


def _first_label(problem: PlacementProblem, *_: object) -> SolverOutcome:
    chosen = np.zeros(problem.num_variables, dtype=np.int32)
    return SolverOutcome(Termination(Reason.FEASIBLE, Limit.CONVERGED), chosen)


def test_the_format_of_the_guide_reads(kinds: Registry, tmp_path: Path) -> None:
    (tmp_path / "some.rows").write_text("rows\n3 1 2\n5\n")
    problem = read_problem(tmp_path / "some.rows", registry=kinds)
    assert problem.num_labels.tolist() == [3, 1]
    (tmp_path / "bad.rows").write_text("rows\n3 x\n")
    with pytest.raises(InvalidProblemError, match="line 2"):
        read_problem(tmp_path / "bad.rows", registry=kinds)


@pytest.mark.usefixtures("kinds")
def test_the_reduction_the_format_and_the_seeder_of_the_guide_pass_the_kit(tmp_path: Path) -> None:
    (tmp_path / "test_kinds.py").write_text(
        "import berthage_kinds.format, berthage_kinds.reduction, berthage_kinds.seeder\n"
        "from berthage import Registry\n"
        "from berthage.testing import format_conformance, reduction_conformance, seeder_conformance\n"
        "registry = Registry([berthage_kinds.format, berthage_kinds.reduction, berthage_kinds.seeder])\n"
        "TestFinite = reduction_conformance('finite', registry=registry, max_examples=20)\n"
        "TestRows = format_conformance('rows', registry=registry)\n"
        "TestCheapest = seeder_conformance('cheapest', registry=registry)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kinds.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b[1-9]\d* passed", done.stdout)


def test_the_other_examples_of_the_guide_do_what_they_say(
    kinds: Registry, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = kinds.create_cost_model("flat")
    placements = np.array([[0, 1], [1, 1]], dtype=np.int8)
    assert model.redistribute(None, (4,), 4, placements, placements).tolist() == [[0, 1], [1, 0]]
    done = CliRunner().invoke(app, ["hello", "Ada"], obj=kinds)
    assert done.output == "hello, Ada: 0 solvers\n"
    builder = ProblemBuilder("seen")
    builder.add_variable("a", 1, [4])
    solve(builder.build(), _first_label, presolve=False, registry=kinds)
    assert re.fullmatch(r"0\.\d s: \w+ has 4 on seen\n", capsys.readouterr().err)


def test_the_options_of_the_guide_are_accepted() -> None:
    (text,) = (b for b in fences(ROOT / "docs" / "writing-a-plugin.md", "python") if "class MyOptions" in b)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "writing-a-plugin.md", "exec"), names)
    info = SolverInfo("mine", "as in the guide", "berthage_mine.solver:MySolver", options=names["MyOptions"])
    assert [field.name for field in describe_options(info)] == ["sweeps", "order"]
    assert build_options(info, {"sweeps": "20", "order": "degree"}) == names["MyOptions"](20, "degree")
    with pytest.raises(OptionError, match="order"):
        build_options(info, {"order": "sideways"})
