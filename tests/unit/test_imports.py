"""`import berthage` is light, and so is listing what is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch", "pyomo", "pulp", "scipy", "numba", "highspy", "click", "rich", "hypothesis", "pytest", "sphinx"
)  # fmt: skip


def _imported_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(' '.join(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import berthage",
        "from berthage import *",
        "from berthage import load_registry; registry = load_registry(); registry.solvers; registry.formats",
        "import berthage; b = berthage.ProblemBuilder(); b.add_variable('x', 2); berthage.evaluate(b.build(), [0])",
    ],
    ids=["import", "star", "listing", "evaluating"],
)
def test_nothing_heavy_is_imported(statement: str) -> None:
    imported = _imported_by(statement)
    assert "berthage" in imported
    assert not imported & set(HEAVY)


def test_listing_everything_imports_no_numpy() -> None:
    kinds = ["solvers", "formats", "reductions", "cost_models", "seeders", "front_ends", "commands", "plugins"]
    listing = "; ".join(f"registry.{kind}" for kind in kinds)
    assert "numpy" not in _imported_by(f"from berthage import load_registry; registry = load_registry(); {listing}")


def test_every_public_name_exists_and_is_documented() -> None:
    import berthage

    assert len(set(berthage.__all__)) == len(berthage.__all__)
    for name in berthage.__all__:
        assert getattr(berthage, name).__doc__, f"berthage.{name} has no docstring"
