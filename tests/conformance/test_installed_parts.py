"""What is installed is whole: every plugin loads, and every name that it offers can be used.

`nox -s wheels` also runs this file in an environment that has one wheel and core alone.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources

import pytest

from berthage import Registry, load_registry
from berthage.registry import PluginStatus


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def distributions() -> list[str]:
    """The installed distributions with an entry point of ours, core among them."""
    points = importlib.metadata.entry_points(group="berthage")
    return sorted({point.dist.name for point in points if point.dist is not None})


def test_core_is_installed() -> None:
    assert "berthage" in distributions()


@pytest.mark.parametrize("name", distributions())
def test_a_distribution_loads(registry: Registry, name: str) -> None:
    records = [record for record in registry.plugins if record.distribution == name]
    assert [record.status for record in records] == [PluginStatus.LOADED] * len(records) != []


@pytest.mark.parametrize("name", distributions())
def test_a_distribution_ships_its_types(name: str) -> None:
    assert importlib.resources.files(name.replace("-", "_")).joinpath("py.typed").is_file()


def test_no_name_is_claimed_twice(registry: Registry) -> None:
    assert registry.conflicts == ()


def test_every_solver_can_be_made(registry: Registry) -> None:
    assert [info.name for info in registry.solvers if not hasattr(registry.create_solver(info.name), "solve")] == []


def test_every_cost_model_can_be_made(registry: Registry) -> None:
    made = [registry.create_cost_model(info.name) for info in registry.cost_models]
    assert None not in made


def test_every_reduction_can_be_made(registry: Registry) -> None:
    made = [registry.create_reduction(info.name) for info in registry.reductions]
    assert all(hasattr(reduction, "reduce") for reduction in made)


def test_every_format_can_be_made_and_does_what_it_says(registry: Registry) -> None:
    assert "berthage" in [info.name for info in registry.formats]
    for info in registry.formats:
        made = registry.create_format(info.name)
        assert hasattr(made, "read") >= info.reads
        assert hasattr(made, "write") >= info.writes
