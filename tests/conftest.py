"""What every test may use: the shared problem files, and deterministic Hypothesis profiles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"

# `ci` tries the same examples every time: a red run can be repeated, and a green one means the same
# everywhere. `explore` (HYPOTHESIS_PROFILE=explore) looks further, at new examples on every run.
settings.register_profile("ci", derandomize=True, database=None, deadline=None, max_examples=60, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """The repository root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real problem files beside the checkout; tests that need it skip where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real problem files (../shared/data, beside the checkout) are not here")
    return SHARED_DATA
