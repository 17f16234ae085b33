"""Nothing that a person can type is missing in the pages: hooks, solvers, formats, options, commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import berthage
from berthage import Registry, load_registry
from berthage.registry import describe_options, hookspecs
from berthage_torch.profiling.rows import FIELDS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PLUGINS = [path.name for path in (ROOT / "plugins").iterdir()]
OURS = tuple(f"{package}." for package in ("berthage", *(f"berthage_{name}" for name in PLUGINS)))


def page(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def test_every_public_name_is_in_the_reference() -> None:
    described = set(re.findall(r"auto(?:class|function|data):: (?:berthage\.)?(?:\w+\.)*(\w+)", page("api.md")))
    errors = {name for name in berthage.__all__ if name.endswith("Error")}  # by automodule
    assert set(berthage.__all__) - described - errors - {"hookimpl"} == set()
    assert "automodule:: berthage.errors" in page("api.md")


def test_every_hook_is_in_the_guide() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("berthage_")}
    assert len(hooks) > 8
    assert {name for name in hooks if f"`{name}`" not in page("writing-a-plugin.md")} == set()


def test_every_solver_and_its_options_are_described(registry: Registry) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "solvers").glob("*.md"))
    ours = [info for info in registry.solvers if info.target.startswith(OURS)]
    assert {name for info in ours for name in info.all_names if f"`{name}`" not in text} == set()
    options = {field.name for info in ours for field in describe_options(info)}
    assert {name for name in options if f"| `{name}` |" not in text} == set()


def test_every_reduction_is_described(registry: Registry) -> None:
    text = page("solvers", "reductions.md")
    ours = [info.name for info in registry.reductions if info.target.startswith(OURS)]
    assert {name for name in ours if f"| `{name}` |" not in text} == set()


def test_every_format_and_its_options_are_described(registry: Registry) -> None:
    text = page("formats.md")
    ours = [info for info in registry.formats if info.target.startswith(OURS)]
    assert {info.name for info in ours if f"| `{info.name}` |" not in text} == set()
    options = {field.name for info in ours for field in describe_options(info)}
    assert {name for name in options if f"`{name}`" not in text} == set()


def test_every_command_and_every_option_of_solve_are_described(registry: Registry) -> None:
    text = page("command-line.md")
    commands = [info.name for info in registry.commands if info.target.startswith(OURS)]
    assert {name for name in commands if f"`berthage {name} " not in text} == set()
    written = {
        option
        for parameter in registry.load_command("solve").params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert len(written) > 8
    assert {name for name in written if name not in text} - {"--presolve", "--help"} == set()


def test_every_option_of_search_is_described(registry: Registry) -> None:
    command = registry.load_command("search")
    written = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    options = {name for name in written if name.startswith("--")}
    assert len(options) > 15
    assert {name for name in options if f"`{name}" not in page("search.md")} == set()


def test_every_option_of_profile_and_every_key_of_its_rows_are_described(registry: Registry) -> None:
    options = {o for parameter in registry.load_command("profile").params for o in parameter.opts if o.startswith("--")}
    assert {name for name in options if f"`{name}" not in page("profiling.md")} == set()
    assert {name for name in FIELDS if f"`{name}`" not in page("profiling.md")} == set()


@pytest.mark.parametrize("name", ["explain", "diff", "reprice"])
def test_every_option_of_the_commands_on_plans_is_described(registry: Registry, name: str) -> None:
    options = {o for parameter in registry.load_command(name).params for o in parameter.opts if o.startswith("--")}
    assert options
    assert {option for option in options if f"`{option}" not in page("plans.md")} == set()
