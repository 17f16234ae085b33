"""Redistributions priced on demand: the same prices, and bounds that never exceed them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from berthage import InvalidProblemError, LazyTable
from berthage_nccl import Mesh, cost_model
from berthage_nccl.placements import parse

MESH = Mesh.parse("a=2,b=4,c=8")
SHAPES = ((64, 96), (7, 50, 3), (4096,))


def every(rank: int) -> np.ndarray:
    codes = [0, 1, *range(8, 8 + rank)]
    return np.array(list(itertools.product(codes, repeat=3)), np.int8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("contiguous", [True, False])
def test_bounds_never_exceed_the_prices_and_come_near_them(shape: tuple[int, ...], contiguous: bool) -> None:
    model, states = cost_model("nccl-h100"), every(len(shape))
    oracle = model.redistribution(MESH, shape, 2, states, states, contiguous)
    rows, columns = (part.ravel() for part in np.indices(oracle.shape))
    bounds = oracle.lower_bound(rows, columns)
    asked = model.runs
    prices = model.redistribute(MESH, shape, 2, states, states, contiguous).ravel()
    prices += np.where((states[:, None] != states[None]).any(axis=2), model.transition_us, 0.0).ravel()
    assert (bounds <= prices).all()
    moved = np.isfinite(prices) & (prices > 0)
    assert (bounds[moved] / prices[moved]).mean() > 0.6
    assert asked == 2 * (2 + len(shape))  # one run from and one to each landmark


def test_prices_on_demand_are_the_prices_of_the_whole_table_and_solve_their_rows_only() -> None:
    model, states = cost_model("nccl-h100"), every(2)
    oracle = model.redistribution(MESH, (64, 96), 2, states[:20], states, False)
    rows, columns = np.array([3, 3, 17, 0]), np.array([5, 60, 9, 0])
    found = oracle.price(rows, columns)
    assert model.runs == 3
    whole = cost_model("nccl-h100").redistribute(MESH, (64, 96), 2, states[:20], states, False)[rows, columns]
    assert found.tolist() == (whole + np.where(np.arange(4) < 3, 1.0, 0.0)).tolist()


def test_a_lazy_table_takes_it() -> None:
    model, states = cost_model("nccl-h100"), every(1)
    oracle = model.redistribution(MESH, (4096,), 4, states, states[:5])
    table = LazyTable(oracle)
    assert table.shape == (27, 5)
    assert table.lower_bound() == 0.0
    assert np.isfinite(table.to_dense()).any()
    again = cost_model("nccl-h100").redistribution(MESH, (4096,), 4, states, states[:5])
    other = model.redistribution(MESH, (4096,), 2, states, states[:5])
    assert oracle.key == again.key != other.key
    assert not oracle.is_integral


def test_a_placement_that_the_tensor_has_not_is_refused() -> None:
    states = parse("S(3)RR")[None]
    with pytest.raises(InvalidProblemError, match="no placement of a tensor"):
        cost_model("nccl-h100").redistribution(MESH, (4096,), 4, states, states)


def test_a_change_on_a_mesh_dimension_of_one_rank_is_a_change() -> None:
    model, mesh = cost_model("nccl-h100"), Mesh.parse("a=1,b=4")
    sources, targets = np.stack([parse("RR"), parse("S(0)R")]), parse("RR")[None]
    oracle = model.redistribution(mesh, (64, 96), 2, sources, targets)
    assert oracle.price(np.arange(2), np.zeros(2, int)).tolist() == [0.0, model.transition_us]
    assert oracle.lower_bound(np.arange(2), np.zeros(2, int)).tolist() == [0.0, model.transition_us]
