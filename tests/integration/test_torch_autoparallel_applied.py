"""`AutoParallel` from the search to a step on two ranks, and the memory that it foretells."""

from __future__ import annotations

import pytest
from torch_autoparallel_ranks import train
from torch_processes import run_ranks


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["ilp", "approx"])
def test_a_step_is_that_of_one_device_and_its_memory_as_foretold(solver: str) -> None:
    first, second = run_ranks(train, 2, solver)
    for found in (first, second):
        assert found["distance"] < 1e-5
        assert found["held"] == pytest.approx(found["predicted"], rel=0.1)
    assert first["objective"] == second["objective"]
