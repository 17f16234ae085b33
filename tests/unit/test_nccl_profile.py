"""Profiles are values and files; what is wrong with one is said."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from berthage import InvalidProblemError, UnknownNameError, load_registry
from berthage_nccl import CostModel, DimFabric, cost_model, known_profiles, load_profile

NAMES = ("nccl-a100", "nccl-b200", "nccl-h100", "nccl-h200")


def test_the_shipped_profiles() -> None:
    assert known_profiles() == NAMES
    registry = load_registry()
    assert {info.name for info in registry.cost_models} >= set(NAMES)
    for name in NAMES:
        model = registry.create_cost_model(name)
        assert isinstance(model, CostModel)
        assert model.name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_fitted_number_has_a_source(name: str) -> None:
    profile = load_profile(name)
    assert all(row.source for row in (*profile.curves, *profile.gemms, *profile.networks, profile.memory))
    assert profile.device.source
    assert profile.node.source
    assert {network.family for network in profile.networks} >= {"ib", "efa", "tcpxo", "roce"}


@pytest.mark.parametrize("name", ["nccl-a100", "nccl-b200", "nccl-h200"])
def test_what_was_not_measured_on_a_device_is_marked(name: str) -> None:
    profile = load_profile(name)
    assert profile.curves
    assert all(row.extrapolated for row in (*profile.curves, *profile.gemms))


def test_a_device_has_only_its_own_dtypes() -> None:
    with pytest.raises(InvalidProblemError, match="no matrix rate for f8"):
        cost_model("nccl-a100").gemm(1, 64, 64, 64, "f8")
    assert cost_model("nccl-h100").gemm(1, 64, 64, 64, "float8_e4m3fn") > 0


@pytest.mark.parametrize("name", ["nccl-h101", "H100 PCIe", "h100"])
def test_an_unknown_device_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownNameError) as told:
        load_profile(name)
    assert all(known in str(told.value) for known in NAMES)


def test_an_unknown_network_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="efa, ib, roce, tcpxo"):
        cost_model("nccl-h100").with_network("carrier-pigeon")


def test_a_user_profile_extends_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = "mine"\nnetwork = "roce"\n'
        "[node]\ngpus = 4\n[fabrics.dp]\nranks = 8\nnodes = 2\nranks_per_node = 4\n"
    )
    profile = load_profile(path)
    assert (profile.name, profile.network, profile.node.gpus) == ("mine", "roce", 4)
    assert profile.fabrics == (("dp", DimFabric(8, 2, 4)),)
    base = load_profile("nccl-h100")
    assert profile.curves == base.curves  # the same device and links: nothing is rescaled
    assert profile.key != base.key


def test_a_profile_may_be_json(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"format": "berthage-nccl-profile", "extends": "nccl-h100", "name": "mine"}))
    assert load_profile(path).curves == load_profile("nccl-h100").curves


def test_faster_links_are_faster(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = "m"\n[node]\nnvlink_GBps = 900.0\n'
    )
    size, fabric = 2.0**30, DimFabric(8, 1, 8)
    slow, fast = (cost_model(p).collective("all-gather", size, fabric) for p in ("nccl-h100", path))
    assert 0.5 * slow < fast < 0.7 * slow
    assert all(curve.extrapolated for curve in load_profile(path).curves if curve.nodes == 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "format"),
        ('format = "berthage-nccl-profile"', "missing"),
        ('format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = "m"\nspeed = 3', "unknown speed"),
        ('format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = 3', "must be a text"),
        ('format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = "m"\n[node]\ngpus = 2.5', "must be a int"),
        ('format = "berthage-nccl-profile"\nextends = "nccl-h100"\nname = "m"\n[node]\ngpus = 0', "above 0"),
        ("= broken", "line 1"),
    ],
)
def test_a_broken_profile_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(InvalidProblemError, match=said):
        load_profile(path)


def test_the_key_covers_everything() -> None:
    model = cost_model("nccl-h100")
    changed = dataclasses.replace(model.profile, device=dataclasses.replace(model.profile.device, sms=131))
    keys = {
        model.key,
        CostModel(changed).key,
        model.with_network("efa").key,
        CostModel(model.profile, {"dp": DimFabric(8, 1, 8)}).key,
    }
    assert len(keys) == 4
    assert cost_model("nccl-h100").key == model.key


def test_a_source_can_be_preferred() -> None:
    model = cost_model("nccl-h100")
    sources = sorted(
        {c.source for c in model.profile.curves if (c.collective, c.nodes, c.ranks_per_node) == ("all-reduce", 1, 8)}
    )
    assert len(sources) == 2  # both reports are kept apart
    one, other = (float(model.with_source(s).collective("all-reduce", 2.0**30, DimFabric(8, 1, 8))) for s in sources)
    mixed = float(model.collective("all-reduce", 2.0**30, DimFabric(8, 1, 8)))
    assert min(one, other) < mixed < max(one, other)
    with pytest.raises(UnknownNameError):
        model.with_source("hearsay")


def test_compute_is_launch_then_roofline() -> None:
    model = cost_model("nccl-h100")
    peak = dict(model.profile.device.peak_tflops)["bf16"]
    big = 2.0 * 16384**3
    us = float(model.compute(big, 3 * 2 * 16384.0**2, "bf16", True))
    assert us > big / (peak * 1e6)
    assert us < 1.5 * big / (peak * 1e6)
    memory = float(model.compute(0.0, 2.0**30, "bf16", False))
    assert 2.0**30 / 3.35e6 < memory < 1.3 * 2.0**30 / 3.35e6
    both = model.compute(np.array([big, 0.0]), np.array([0.0, 2.0**30]), "bf16", np.array([True, False]))
    assert both[1] == memory
    with pytest.raises(InvalidProblemError, match="unknown dtype"):
        model.compute(1.0, 1.0, "bf15", True)
