"""NCCL's choice of algorithm and protocol, and explanations of prices."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from berthage_nccl import CostModel, DimFabric, cost_model, load_profile
from berthage_nccl.profile import COLLECTIVES, Profile
from berthage_nccl.rules import ALGORITHMS, choose, times

H100 = load_profile("nccl-h100")


def with_collnet() -> Profile:
    return dataclasses.replace(H100, node=dataclasses.replace(H100.node, collnet=True))


@pytest.mark.parametrize(
    ("collective", "size", "fabric", "algorithm"),
    [
        ("all-reduce", 2**30, DimFabric(8, 1, 8), "NVLS"),
        ("all-reduce", 2**30, DimFabric(2, 1, 2), "Ring"),
        ("all-reduce", 2**10, DimFabric(64, 64, 1), "Tree"),
        ("all-reduce", 2**30, DimFabric(16, 2, 8), "NVLSTree"),
        ("all-gather", 2**30, DimFabric(16, 2, 8), "Ring"),
        ("all-gather", 2**10, DimFabric(64, 64, 1), "PAT"),
        ("all-to-all", 2**20, DimFabric(8, 1, 8), "P2P"),
    ],
)
def test_the_algorithm(collective: str, size: int, fabric: DimFabric, algorithm: str) -> None:
    assert choose(collective, size, fabric, H100).algorithm == algorithm


def test_small_messages_use_ll_and_large_ones_simple() -> None:
    fabric = DimFabric(8, 8, 1)
    assert choose("all-gather", 2**12, fabric, H100).protocol == "LL"
    assert choose("all-gather", 2**30, fabric, H100).protocol == "Simple"


def test_what_is_not_offered() -> None:
    size = np.array([2.0**20])

    def offered(collective: str, fabric: DimFabric, profile: Profile) -> set[str]:
        table = times(collective, size, fabric, profile)[..., 0]
        return {name for name, row in zip(ALGORITHMS, table, strict=True) if np.isfinite(row).any()}

    assert offered("all-gather", DimFabric(16, 2, 8), H100) == {"Ring"}
    assert offered("all-gather", DimFabric(16, 2, 8), with_collnet()) == {"Ring", "NVLS"}
    assert offered("all-gather", DimFabric(8, 1, 8), H100) == {"Ring", "NVLS"}
    assert offered("all-gather", DimFabric(4, 4, 1), H100) == {"Ring", "PAT"}
    assert offered("all-reduce", DimFabric(8, 1, 8), H100) == {"Ring", "Tree", "NVLS"}
    assert offered("all-reduce", DimFabric(16, 2, 8), H100) == {"Ring", "Tree", "NVLSTree"}
    assert offered("all-reduce", DimFabric(32, 4, 8), with_collnet()) >= {"CollNetDirect", "CollNetChain"}
    assert offered("all-reduce", DimFabric(8, 1, 8), load_profile("nccl-a100")) == {"Ring", "Tree"}


def test_ring_latency_by_hand() -> None:
    # 2 (n - 1) = 14 hops of 0.6 us after 6.6 us for LL on one node; bandwidth min(141, 16 * 22.5 / 2) * 8 / 14.
    table = times("all-reduce", np.array([1024.0]), DimFabric(8, 1, 8), H100)
    assert table[ALGORITHMS.index("Ring"), 0, 0] == pytest.approx(6.6 + 14 * 0.6 + 1024 / (1000 * 141 * 8 / 14))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_an_explanation_adds_up(collective: str) -> None:
    model = cost_model("nccl-h100")
    for fabric in (DimFabric(8, 1, 8), DimFabric(8, 8, 1), DimFabric(12, 2, 4)):
        for size in (2.0**10, 2.0**22, 2.0**31):
            found = model.explain_collective(collective, size, fabric)
            assert found.latency_us >= 0
            assert found.bandwidth_us > 0
            assert found.latency_us + found.bandwidth_us == pytest.approx(found.total_us, rel=1e-12)
            assert found.total_us == float(model.collective(collective, size, fabric))
            assert found.source


def test_one_rank_needs_nothing() -> None:
    found = cost_model("nccl-h100").explain_collective("all-reduce", 2**20, DimFabric(1, 1, 1))
    assert (found.algorithm, found.total_us) == ("none", 0.0)


def test_two_nodes_do_not_beat_their_nics() -> None:
    us = float(cost_model("nccl-h100").collective("all-reduce", 64 * 2**20, DimFabric(2, 2, 1)))
    assert us >= 64 * 2**20 / 50e3


def test_small_messages_on_efa_take_longer() -> None:
    model = cost_model("nccl-h100")
    fabric = DimFabric(16, 2, 8)
    ib, efa = (float(model.with_network(net).collective("all-reduce", 1024.0, fabric)) for net in ("ib", "efa"))
    assert 2 < efa / ib < 4


def test_extra_latency_is_added_between_nodes_only() -> None:
    slow = tuple(dataclasses.replace(net, extra_latency_us=20.0) for net in H100.networks)
    model = CostModel(dataclasses.replace(H100, networks=slow))
    inside, outside = DimFabric(8, 1, 8), DimFabric(8, 8, 1)
    base = CostModel(H100)
    assert model.collective("all-reduce", 1e6, inside) == base.collective("all-reduce", 1e6, inside)
    gained = model.collective("all-reduce", 1e6, outside) - base.collective("all-reduce", 1e6, outside)
    assert float(gained) == pytest.approx(20.0)


def test_a_profile_without_curves_falls_back_on_the_rules() -> None:
    bare = CostModel(dataclasses.replace(H100, curves=()))
    for collective in COLLECTIVES:
        found = bare.explain_collective(collective, 2.0**26, DimFabric(8, 1, 8))
        assert "not calibrated" in found.source
        assert (
            0.3
            < found.total_us / float(cost_model("nccl-h100").collective(collective, 2.0**26, DimFabric(8, 1, 8)))
            < 3
        )
