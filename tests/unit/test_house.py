"""The repository's own promises: its parts are named wherever they must be, and its commands exist."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from berthage.registry import PluginStatus, load_registry
from berthage.registry.unknown import BUILDS_ON, KNOWN, how_to_install

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
PARTS = [ROOT / "core", *PLUGINS, ROOT / "docs" / "example-plugin"]


def settings(path: Path) -> dict[str, object]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def sessions() -> set[str]:
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and any("nox.session" in ast.unparse(d) for d in node.decorator_list)
    }


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_a_part_is_a_typed_distribution_of_its_own(part: Path) -> None:
    project = settings(part / "pyproject.toml")["project"]
    packages = [path for path in (part / "src").iterdir() if (path / "__init__.py").is_file()]
    assert [path.name for path in packages] == [project["name"].replace("-", "_")]
    assert (packages[0] / "py.typed").is_file()
    assert "berthage" in project["entry-points"]
    assert project["requires-python"] == ">=3.11"


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_contributors_install_every_part(part: Path) -> None:
    wanted = f"-e ./{part.relative_to(ROOT).as_posix()}"
    lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    assert any(line.split("[")[0] == wanted for line in lines)


def test_core_needs_numpy_and_pluggy_only() -> None:
    needs = settings(ROOT / "core" / "pyproject.toml")["project"]["dependencies"]
    assert sorted(re.split(r"[<>=~! ]", line)[0] for line in needs) == ["numpy", "pluggy"]


def test_importing_core_imports_no_extra_and_no_solver_library() -> None:
    code = "from berthage import *; import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    imported = set(shown.stdout.split())
    assert "numpy" in imported
    assert not imported & {"click", "rich", "pytest", "hypothesis"}
    assert not imported & {"scipy", "numba", "pulp", "pyomo", "highspy", "torch"}


@pytest.mark.parametrize("part", PLUGINS, ids=lambda part: part.name)
def test_a_plugin_is_under_the_import_contracts(part: Path) -> None:
    package = next((part / "src").iterdir()).name
    linter = settings(ROOT / "pyproject.toml")["tool"]["importlinter"]
    assert package in linter["root_packages"]
    forbidden, independent = linter["contracts"][0], linter["contracts"][1]
    assert package in forbidden["forbidden_modules"]
    assert package in independent["modules"]


@pytest.mark.parametrize("part", PLUGINS, ids=lambda part: part.name)
def test_hooks_import_nothing_heavy(part: Path) -> None:
    (package,) = (part / "src").iterdir()
    tree = ast.parse((package / "hooks.py").read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and node.level == 0
            else []
        )
    }
    assert imported <= {"berthage", package.name, *sys.stdlib_module_names}


def test_installation_hints_name_what_the_plugins_offer_and_nothing_else() -> None:
    offered: dict[tuple[str, str], set[str]] = {}
    registry = load_registry()
    for part in PLUGINS:
        name = str(settings(part / "pyproject.toml")["project"]["name"])
        (plugin,) = (p for p in registry.plugins if p.distribution == name)
        assert plugin.status is PluginStatus.LOADED, plugin.error
        for kind, names in plugin.provides.items():
            offered[kind, name] = set(names)
    for info in registry.solvers:
        key = ("solver", registry.plugin_of(info).distribution)
        if key in offered:
            offered[key] |= set(info.all_names)
    assert {(kind, name): set(names) for kind, name, names in KNOWN} == offered
    for _, name, _ in KNOWN:
        project = settings(ROOT / ours(name) / "pyproject.toml")["project"]
        needs = {re.split(r"[\[<>=~! ]", line)[0] for line in project["dependencies"]} & {n for _, n, _ in KNOWN}
        assert set(BUILDS_ON.get(name, ())) == needs
        folders = re.findall(r"\./plugins/\w+", how_to_install(name))
        assert set(folders) == {f"./{ours(part)}" for part in (name, *needs)}


def ours(name: str) -> str:
    """The folder of a plugin's distribution, in the repository."""
    (part,) = (part for part in PLUGINS if settings(part / "pyproject.toml")["project"]["name"] == name)
    return part.relative_to(ROOT).as_posix()


def test_the_readme_installs_every_plugin_from_its_folder() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = (line for line in readme.splitlines() if line.startswith("$ pip install './core[cli]' "))
    folders = [word for word in line.split() if word.startswith("./plugins/")]
    assert folders
    for folder in folders:
        assert (ROOT / folder / "pyproject.toml").is_file()
    for part in PLUGINS:
        assert f"`./{part.relative_to(ROOT).as_posix()}`" in readme


def test_the_sessions_that_the_house_promises_exist() -> None:
    promised = {"demo", "lint", "types", "contracts", "tests", "slow", "docs", "wheels", "minimums", "bench"}
    assert promised <= sessions()


def test_the_readme_opens_with_two_commands_that_are_sessions() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    commands = [line[2:].split("#")[0].strip() for line in block[1].splitlines()]
    assert commands == ["pip install nox && nox -s demo", "nox -s tests"]


def test_every_session_that_a_text_names_exists() -> None:
    texts = [ROOT / "README.md", ROOT / ".ci" / "run", *(ROOT / "docs").glob("*.md")]
    named = {
        word
        for path in texts
        for found in re.findall(r"nox -s ((?:[a-z]+ ?)+)", path.read_text(encoding="utf-8"))
        for word in found.split()[:1]
    }
    assert named >= {"demo", "tests", "lint"}
    assert named <= sessions()


def test_continuous_integration_runs_the_readmes_test_command_after_the_checks() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^nox -s lint types contracts\n.*^nox -s tests\b", script, re.MULTILINE | re.DOTALL)


def test_the_demo_problem_is_what_its_generator_writes() -> None:
    folder = ROOT / "docs" / "examples"
    made = subprocess.run(
        [sys.executable, str(folder / "make_pipeline.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert made.stdout == (folder / "pipeline.json").read_text(encoding="utf-8")
