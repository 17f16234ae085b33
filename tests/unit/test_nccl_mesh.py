"""Meshes, the fabric of their dimensions, and placement codes."""

from __future__ import annotations

import pytest

from berthage import InvalidProblemError
from berthage_nccl import DimFabric, Mesh, fabric, load_profile, placements

H100 = load_profile("nccl-h100")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dp=8,tp=8", [(8, 8, 1), (8, 1, 8)]),
        ("a=3,b=8", [(3, 3, 1), (8, 1, 8)]),
        ("a=6", [(6, 1, 6)]),
        ("a=12", [(12, 2, 4)]),
        ("a=2,b=2,c=8", [(2, 2, 1), (2, 2, 1), (8, 1, 8)]),
        ("a=4,b=6", [(4, 3, 1), (6, 2, 2)]),  # the second dimension straddles nodes
        ("a=1,b=1", [(1, 1, 1), (1, 1, 1)]),
        ("a=8,b=1", [(8, 1, 8), (1, 1, 1)]),
        ("a=2,b=16", [(2, 2, 1), (16, 2, 8)]),
        ("a=2,b=4", [(2, 1, 2), (4, 1, 4)]),
    ],
)
def test_the_fabric_of_a_mesh(text: str, expected: list[tuple[int, int, int]]) -> None:
    found = fabric(Mesh.parse(text), H100)
    assert [(f.ranks, f.nodes, f.ranks_per_node) for f in found] == expected


def test_an_override_replaces_one_dimension() -> None:
    mesh = Mesh.parse("dp=8,tp=8")
    found = fabric(mesh, H100, {"dp": DimFabric(8, 2, 4)})
    assert found == (DimFabric(8, 2, 4), DimFabric(8, 1, 8))


@pytest.mark.parametrize("given", [{"pp": DimFabric(8, 1, 8)}, {"dp": DimFabric(4, 1, 4)}])
def test_an_override_that_does_not_fit_is_refused(given: dict[str, DimFabric]) -> None:
    with pytest.raises(InvalidProblemError, match="fabric of"):
        fabric(Mesh.parse("dp=8,tp=8"), H100, given)


@pytest.mark.parametrize("ranks", [(8, 1, 4), (8, 4, 4), (0, 1, 1)])
def test_an_impossible_fabric_is_refused(ranks: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidProblemError):
        DimFabric(*ranks)


@pytest.mark.parametrize("text", ["65536,65536", "", "dp=", "dp=x", "=8", "dp=8,dp=8", "dp=0"])
def test_what_is_no_mesh_is_refused(text: str) -> None:
    with pytest.raises(InvalidProblemError):
        Mesh.parse(text)


@pytest.mark.parametrize("text", ["R", "S(0)R", "RS(1)", "PP(avg)", "S(12)P(max)P(min)"])
def test_placements_round_trip(text: str) -> None:
    assert placements.format(placements.parse(text)) == text


@pytest.mark.parametrize("text", ["Q", "S", "S()", "S(-1)", "P(mean)", "S(200)"])
def test_what_is_no_placement_is_refused(text: str) -> None:
    with pytest.raises(InvalidProblemError):
        placements.parse(text)


def test_codes_are_as_agreed() -> None:
    assert placements.parse("R P P(avg) P(max) P(min) S(0) S(3)").tolist() == [0, 1, 2, 3, 4, 8, 11]
