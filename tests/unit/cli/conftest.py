"""The command line with a plugin of the tests' own, and two tiny problems for it."""

from __future__ import annotations

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from cli_plugin import Plugin
from click.testing import CliRunner, Result

from berthage import Registry
from berthage.cli.app import app


@pytest.fixture
def registry() -> Registry:
    return Registry({"tests": Plugin()})


@pytest.fixture
def run(registry: Registry) -> Any:
    def invoke(*arguments: object, registry: Registry = registry) -> Result:
        # click before 8.2 mixes the two streams unless told not to
        old = "mix_stderr" in signature(CliRunner).parameters
        runner = CliRunner(**({"mix_stderr": False} if old else {}))
        return runner.invoke(app, [str(a) for a in arguments], obj=registry)

    return invoke


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Least cost 1 + 2 = 3 at [1, 1]; with weights it weighs 2."""
    path = tmp_path / "a.tiny"
    path.write_text(json.dumps({"costs": [[5, 1], [4, 2]]}))
    return path


@pytest.fixture
def tight(tmp_path: Path) -> Path:
    """The same, but at most weight 1: least cost 5 at [1, 0]."""
    path = tmp_path / "tight.tiny"
    path.write_text(json.dumps({"costs": [[5, 1], [4, 2]], "limit": 1}))
    return path
