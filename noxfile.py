"""Everything that is run again and again: ``nox -s demo``, ``nox -s tests``; ``nox -l`` lists the rest.

All sessions but ``wheels`` and ``minimums`` share one environment, made on first use in ``.nox/shared``
from ``requirements-dev.txt`` and made anew when the requirements change. Words after ``--`` go on to the
tool.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tomllib
import venv
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
SHARED = ROOT / ".nox" / "shared"
CORE = ROOT / "core"
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
EXAMPLE = ROOT / "docs" / "example-plugin"
PARTS = [CORE, *PLUGINS, EXAMPLE]
DEMO = Path("docs", "examples", "pipeline.json")
# Tests of one file share what they made (traced models, above all), so a file stays together. More than four at a
# time would need more memory than small machines have.
SPREAD = ["-n", "auto", "--maxprocesses", "4", "--dist", "loadfile"]

nox.needs_version = ">=2024.4"
nox.options.sessions = ["lint", "types", "contracts", "tests"]
nox.options.error_on_missing_interpreters = True


def folder_of_scripts(environment: Path) -> Path:
    """Where an environment keeps its programs."""
    return environment / ("Scripts" if os.name == "nt" else "bin")


def make_environment(session: nox.Session, folder: Path, *requirements: str) -> Path:
    """Make a fresh virtual environment, install ``requirements`` and return its folder of scripts.

    The parts are built by flit_core, installed first, so that pip does not fetch it again for every part.
    """
    venv.create(folder, clear=True, with_pip=True)
    scripts = folder_of_scripts(folder)
    pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    session.run(*pip, "-c", "constraints.txt", "flit_core", external=True)
    session.run(*pip, "--no-build-isolation", *requirements, external=True)
    return scripts


def fingerprint(*parts: bytes | str) -> str:
    """A digest of what an environment was made from."""
    digest = hashlib.sha256()
    for part in (sys.version, *parts):
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def shared_environment(session: nox.Session) -> Path:
    """The environment that the sessions share; nothing is installed when it is up to date."""
    sources = [ROOT / "requirements-dev.txt", ROOT / "constraints.txt"]
    sources += [part / "pyproject.toml" for part in PARTS]
    wanted = fingerprint(str(ROOT), *(path.read_bytes() for path in sources))
    stamp = SHARED / "made-from.txt"
    if not stamp.is_file() or stamp.read_text() != wanted:
        session.log("setting up .nox/shared from requirements-dev.txt (once; a minute or two)")
        make_environment(session, SHARED, "-r", "requirements-dev.txt")
        stamp.write_text(wanted)
    return folder_of_scripts(SHARED)


def run(session: nox.Session, program: str, *arguments: str, **settings: object) -> None:
    """Run a program of the shared environment in the repository root."""
    session.chdir(ROOT)
    scripts = shared_environment(session)
    environment = {
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(SHARED),
    }
    session.run(str(scripts / program), *arguments, external=True, env=environment, **settings)


@nox.session(venv_backend="none")
def demo(session: nox.Session) -> None:
    """Compare two solvers on the bundled problem, then search a plan for a PyTorch model and print it."""
    run(session, "berthage", "compare", str(DEMO), "--solvers", "ilp,trws", *session.posargs)
    run(session, "berthage", "search", "--model", "llama3-1b", "--mesh", "dp=8,tp=8")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Check style and likely bugs (ruff)."""
    run(session, "ruff", "check", *(session.posargs or ["."]))


@nox.session(venv_backend="none")
def types(session: nox.Session) -> None:
    """Check the types of every package (mypy, strict)."""
    packages = [str(path.relative_to(ROOT)) for part in PARTS for path in sorted(part.glob("src/*"))]
    run(session, "mypy", *packages, *session.posargs)


@nox.session(venv_backend="none")
def contracts(session: nox.Session) -> None:
    """Check who may import whom (import-linter)."""
    run(session, "lint-imports", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the test suite, without what is marked slow or bench; files are spread over the cores."""
    run(session, "pytest", *SPREAD, *session.posargs)


@nox.session(venv_backend="none")
def slow(session: nox.Session) -> None:
    """Run the tests that take long."""
    run(session, "pytest", "-m", "slow", *session.posargs)


@nox.session(venv_backend="none")
def bench(session: nox.Session) -> None:
    """Measure against the named peers."""
    run(session, "pytest", "-m", "bench", "-s", *session.posargs)


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Build the site with warnings as errors, and run the examples that its pages and docstrings show."""
    options = ["-W", "--keep-going", "-q", "-d", "docs/_build/doctrees"]
    run(session, "sphinx-build", *options, "-b", "html", "docs", "docs/_build/html", *session.posargs)
    run(session, "sphinx-build", *options, "-b", "doctest", "docs", "docs/_build/doctest")
    run(session, "pytest", "tests/integration/test_docs_examples.py")


@nox.session(venv_backend="none")
def wheels(session: nox.Session) -> None:
    """Build every wheel, install each alone on core in a clean environment and put it through the kit."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(dist)]
    run(session, "python", *build, *(str(part) for part in PARTS))
    for part in PARTS:
        if session.posargs and part.name not in session.posargs:
            continue
        session.log(f"{distribution(part)}: alone on core")
        folder = ROOT / ".nox" / "wheels" / part.name
        wanted = [wheel(dist, CORE, "cli", "test"), *(wheel(dist, other) for other in builds_on(part))]
        if part != CORE:
            wanted.append(wheel(dist, part, *extras(part)))
        scripts = make_environment(session, folder, "-c", "constraints.txt", *wanted)
        copy_kit(part, folder / "work")
        # Away from the repository, so that only what the wheels contain can be imported.
        with session.chdir(folder / "work"):
            session.run(str(scripts / "berthage"), "plugins", external=True)
            session.run(str(scripts / "python"), "-m", "pytest", "-q", "tests", external=True)
        shutil.rmtree(folder)


@nox.session(venv_backend="none")
def minimums(session: nox.Session) -> None:
    """Run the quick tests with the lowest dependency versions that the parts declare (on Python 3.11)."""
    if sys.version_info[:2] != (3, 11):
        session.skip("the lowest versions are those that Python 3.11 can install")
    pins = lowest_versions(PARTS)
    session.log("lowest declared versions: " + " ".join(pins))
    folder = ROOT / ".nox" / "minimums"
    locals_ = [argument for part in PLUGINS for argument in ("-e", f"./{part.relative_to(ROOT)}")]
    scripts = make_environment(
        session, folder, "-e", "./core[cli,test]", *locals_, "-e", f"./{EXAMPLE.relative_to(ROOT)}", *pins
    )
    chosen = session.posargs or ["tests/unit", "tests/conformance"]
    session.run(str(scripts / "python"), "-m", "pytest", *chosen, external=True)


def distribution(part: Path) -> str:
    """The name of a part's distribution."""
    return str(tomllib.loads((part / "pyproject.toml").read_text())["project"]["name"])


def extras(part: Path) -> list[str]:
    """The names of a part's optional dependencies, without those of its own tests."""
    project = tomllib.loads((part / "pyproject.toml").read_text())["project"]
    return [name for name in project.get("optional-dependencies", {}) if name != "test"]


def builds_on(part: Path) -> list[Path]:
    """The other plugins that a part declares as dependencies."""
    project = tomllib.loads((part / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[\s\[<>=!~;]", line, maxsplit=1)[0] for line in project["dependencies"]}
    return [plugin for plugin in PLUGINS if distribution(plugin) in needed]


def wheel(dist: Path, part: Path, *wanted: str) -> str:
    """A requirement for the wheel of a part, as a file, so that no index can offer another."""
    (path,) = dist.glob(f"{distribution(part).replace('-', '_')}-[0-9]*.whl")
    return f"{path}[{','.join(wanted)}]" if wanted else str(path)


def copy_kit(part: Path, work: Path) -> None:
    """Copy the conformance tests of a part, and the settings that they run with."""
    tests = work / "tests"
    tests.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", work)
    shutil.copy(ROOT / "tests" / "conftest.py", tests)
    kit = ROOT / "tests" / "conformance"
    sources = [kit / "test_installed_parts.py", *kit.glob(f"test_{part.name}*.py"), *part.glob("tests/test_*.py")]
    if part == CORE:  # the kit tried on plugins made up for it, and core's own format
        sources += [ROOT / "tests" / "unit" / "test_kit.py", ROOT / "tests" / "properties" / "test_problem_identity.py"]
    for source in sources:
        shutil.copy(source, tests)


def lowest_versions(parts: list[Path]) -> list[str]:
    """The ``>=`` bounds of the parts as ``==`` pins; of two bounds for one package, the higher.

    Raises:
        ValueError: A dependency has no lower bound, so nobody could say what the lowest version is.
    """
    pins: dict[str, tuple[int, ...]] = {}
    for part in parts:
        project = tomllib.loads((part / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {}).values()
        for requirement in (*project.get("dependencies", ()), *(line for extra in extras for line in extra)):
            name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-")
            if name.startswith("berthage"):
                continue
            bound = re.search(r">=\s*([0-9][0-9.]*)", requirement)
            if bound is None:
                raise ValueError(f"{part.name}: {requirement!r} declares no lowest version")
            version = tuple(int(number) for number in bound.group(1).split("."))
            pins[name] = max(version, pins.get(name, version))
    return [f"{name}=={'.'.join(map(str, version))}" for name, version in sorted(pins.items())]
