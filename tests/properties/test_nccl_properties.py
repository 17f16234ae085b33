"""What every price obeys: on a dense grid, and on whatever Hypothesis thinks of."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from berthage_nccl import CostModel, DimFabric, Mesh, cost_model, fabric
from berthage_nccl.collectives import FabricPrices
from berthage_nccl.physics import floor_per_byte
from berthage_nccl.profile import COLLECTIVES

PROFILES = ("nccl-h100", "nccl-h200", "nccl-a100", "nccl-b200")
NETWORKS = ("ib", "efa", "tcpxo", "roce")
SIZES = np.unique(np.concatenate([np.arange(0, 64), np.round(2.0 ** np.arange(0, 36, 0.125))]))
FABRICS = sorted(
    {DimFabric.uniform(n, k) for n in (1, 2, 3, 4, 8, 16, 64, 512) for k in (1, 2, 3, 4, 5, 6, 7, 8)}
    | {
        f
        for text in ("3,8", "6", "12", "2,2,8", "4,6", "5,7", "20", "9,5", "3,3,3", "100")
        for f in fabric(Mesh.parse(text), cost_model("nccl-h100").profile)
    },
    key=lambda f: (f.ranks, f.nodes, f.ranks_per_node),
)
MODELS = {name: cost_model(name) for name in PROFILES}


def check_collectives(prices: FabricPrices, sizes: npt.NDArray[np.float64]) -> None:
    """All laws of one fabric, for increasing sizes."""
    us = {kind: prices.us(kind, sizes) for kind in COLLECTIVES}
    here = prices.fabric
    if here.ranks == 1:
        assert not any(value.any() for value in us.values())
        return
    for kind, value in us.items():
        assert np.isfinite(value).all()
        assert (value >= floor_per_byte(kind, here, prices.profile) * sizes).all(), (kind, here)
        assert (np.diff(value) >= 0).all(), (kind, here)
        assert (value[sizes > 0] > 0).all()
    assert (us["reduce-scatter"] <= us["all-reduce"]).all(), here
    assert (us["all-gather"] <= us["all-reduce"]).all(), here
    assert (us["all-reduce"] <= 1.1 * (us["reduce-scatter"] + us["all-gather"])).all(), here
    large = sizes >= 2**20
    whole = prices.us("all-gather", here.ranks * sizes[large])
    assert (us["all-to-all"][large] < whole).all(), here


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", PROFILES)
def test_the_laws_of_collectives_on_a_dense_grid(name: str, network: str) -> None:
    profile = MODELS[name].profile.with_network(network)
    for here in FABRICS:
        check_collectives(FabricPrices(here, profile), SIZES)


def test_the_floor_is_bytes_over_the_slowest_link() -> None:
    # Written down independently of the code: H100, 450 GB/s NVLink and 50 GB/s a NIC.
    model = MODELS["nccl-h100"]
    size = 2.0**30
    for n, k in itertools.product((2, 4, 8, 64), (1, 2, 4, 8)):
        here = DimFabric.uniform(n, k)
        cut = size * (n - 1) / n / (k * 50e3)
        assert float(model.collective("all-gather", size, here)) >= cut
        assert float(model.collective("reduce-scatter", size, here)) >= cut
        assert float(model.collective("all-reduce", size, here)) >= 2 * cut
        assert float(model.collective("all-to-all", size, here)) >= size * (n - 1) / n / 50e3
    for k in range(2, 9):
        assert float(model.collective("all-gather", size, DimFabric.uniform(1, k))) >= size * (k - 1) / k / 450e3


@given(
    name=st.sampled_from(PROFILES),
    network=st.sampled_from(NETWORKS),
    shape=st.tuples(st.integers(1, 600), st.integers(1, 8), st.integers(0, 7)),
    sizes=st.lists(st.integers(0, 2**40), min_size=2, max_size=30),
)
def test_the_laws_of_collectives(name: str, network: str, shape: tuple[int, int, int], sizes: list[int]) -> None:
    nodes, least, more = shape
    ranks = nodes * least + (min(more, nodes * (8 - least)) if nodes > 1 else 0)
    prices = FabricPrices(DimFabric(ranks, nodes, least), MODELS[name].profile.with_network(network))
    check_collectives(prices, np.array(sorted(set(sizes)), dtype=np.float64))


def states(codes: list[int], dims: int) -> npt.NDArray[np.int8]:
    return np.array(list(itertools.product(codes, repeat=dims)), dtype=np.int8)


def check_triangle(prices: npt.NDArray[np.float64]) -> None:
    """Exactly: no detour is cheaper, staying costs nothing."""
    assert np.isfinite(prices).all()
    assert not prices.diagonal().any()
    for middle in range(len(prices)):
        assert (prices <= prices[:, middle : middle + 1] + prices[middle]).all()


@pytest.mark.parametrize("mesh", ["a=2,b=2", "a=2,b=2,c=2", "dp=8,tp=8", "a=3,b=8", "a=2,b=1,c=4", "a=12"])
@pytest.mark.parametrize("shape", [(1024, 1024), (8192, 4096), (7, 5), (50257, 64), (1, 4096)])
def test_the_triangle_inequality(mesh: str, shape: tuple[int, int]) -> None:
    parsed = Mesh.parse(mesh)
    placed = states([0, 1, 8, 9], len(parsed.sizes))
    check_triangle(MODELS["nccl-h100"].redistribute(parsed, shape, 2, placed, placed))


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    shape=st.lists(st.integers(1, 5000), min_size=1, max_size=2),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    name=st.sampled_from(PROFILES),
)
def test_the_triangle_inequality_anywhere(sizes: list[int], shape: list[int], itemsize: int, name: str) -> None:
    mesh = Mesh(tuple(f"d{i}" for i in range(len(sizes))), tuple(sizes))
    placed = states([0, 1, 2, *(8 + d for d in range(len(shape)))], len(sizes))
    if len(placed) <= 216:
        check_triangle(CostModel(MODELS[name].profile).redistribute(mesh, tuple(shape), itemsize, placed, placed))


@pytest.mark.parametrize("mesh", ["a=2", "a=8", "a=16", "a=2,b=8", "a=8,b=8"])
def test_order_between_redistributions(mesh: str) -> None:
    """The laws of collectives hold for moves with their re-shuffles too, whichever tensor dimension is cut."""
    parsed = Mesh.parse(mesh)
    dims = len(parsed.sizes)
    rest = (0,) * (dims - 1)
    for power in range(28):
        shape = (max(2**power // 2048, 16), 2048)
        placed = np.array([[code, *rest] for code in (0, 1, 8, 9)], dtype=np.int8)
        whole, partial, first, second = range(4)
        us = MODELS["nccl-h100"].redistribute(parsed, shape, 2, placed, placed)
        for cut in (first, second):
            assert us[partial, cut] <= us[partial, whole]
            assert us[cut, whole] <= us[partial, whole]
        assert us[partial, whole] <= 1.1 * (us[partial, first] + us[first, whole])
        # With several mesh dimensions a gather may borrow the others' NICs, and then cost less than one all-to-all.
        if dims == 1 and shape[0] * shape[1] * 2 / parsed.sizes[0] >= 2**20:
            assert us[first, second] < us[first, whole]
            assert us[second, first] < us[second, whole]


def test_names_and_order_of_equal_dimensions_do_not_matter() -> None:
    model = MODELS["nccl-h100"]
    placed = states([0, 1, 8, 9], 2)
    here = {name: DimFabric(2, 1, 2) for name in ("a", "b", "x", "y")}
    equal = CostModel(model.profile, here)
    one = equal.redistribute(Mesh.parse("a=2,b=2"), (512, 512), 2, placed, placed)
    other = equal.redistribute(Mesh.parse("x=2,y=2"), (512, 512), 2, placed, placed)
    assert (one == other).all()
    # Swapping two equal dimensions permutes the prices, unless both cut one tensor dimension (whose order matters).
    swapped = equal.redistribute(Mesh.parse("a=2,b=2"), (512, 512), 2, placed[:, ::-1], placed[:, ::-1])
    plain = [i for i, (a, b) in enumerate(placed.tolist()) if a != b or a < 8]
    for i, j in itertools.product(plain, plain):
        assert one[i, j] == swapped[i, j]


@pytest.mark.parametrize("mesh", ["a=8", "a=8,b=8"])
def test_a_larger_tensor_never_costs_less(mesh: str) -> None:
    parsed = Mesh.parse(mesh)
    placed = states([0, 1, 8, 9], len(parsed.sizes))
    before = np.zeros((len(placed), len(placed)))
    for rows in (64, 128, 1024, 4096, 65536, 2**20):
        now = MODELS["nccl-h100"].redistribute(parsed, (rows, 512), 2, placed, placed)
        assert (now >= before).all()
        before = now
