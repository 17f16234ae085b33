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

import pytest

from berthage import OptionError, ProblemBuilder, Reason, Registry, SolverInfo, solve
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
    known = re.compile(r"(pip install nox && )?nox -s [a-z]+|python -m pip install -r requirements-dev\.txt")
    assert [command for command in sorted(others) if not known.fullmatch(command)] == []


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


def test_the_options_of_the_guide_are_accepted() -> None:
    (text,) = (b for b in fences(ROOT / "docs" / "writing-a-plugin.md", "python") if "class MyOptions" in b)
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "writing-a-plugin.md", "exec"), names)
    info = SolverInfo("mine", "as in the guide", "berthage_mine.solver:MySolver", options=names["MyOptions"])
    assert [field.name for field in describe_options(info)] == ["sweeps", "order"]
    assert build_options(info, {"sweeps": "20", "order": "degree"}) == names["MyOptions"](20, "degree")
    with pytest.raises(OptionError, match="order"):
        build_options(info, {"order": "sideways"})
