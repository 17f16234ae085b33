"""Known answers of redistribution: which moves, in which order, at what price."""

from __future__ import annotations

import numpy as np
import pytest

from berthage import InvalidProblemError
from berthage_nccl import CostModel, DimFabric, Mesh, cost_model
from berthage_nccl.placements import format as text_of
from berthage_nccl.placements import parse

MODEL = cost_model("nccl-h100")
SHAPE = (4096, 4096)


def price(mesh: str, source: str, target: str, shape: tuple[int, ...] = SHAPE, **more: bool) -> float:
    return float(MODEL.redistribute(Mesh.parse(mesh), shape, 2, parse(source)[None], parse(target)[None], **more)[0, 0])


def kinds(mesh: str, source: str, target: str, shape: tuple[int, ...] = SHAPE) -> list[tuple[str, int]]:
    moves = MODEL.path(Mesh.parse(mesh), shape, 2, parse(source), parse(target))
    return [(move.kind, move.mesh_dim) for move in moves]


@pytest.mark.parametrize(
    ("source", "target", "moves"),
    [
        ("RR", "RR", []),
        ("RS(0)", "RR", [("all-gather", 1)]),
        ("RP", "RR", [("all-reduce", 1)]),
        ("RP", "RS(0)", [("reduce-scatter", 1)]),
        ("RP", "RS(1)", [("reduce-scatter", 1)]),
        ("RS(0)", "RS(1)", [("all-to-all", 1)]),
        ("RR", "RS(0)", [("slice", 1)]),
        ("RR", "RP", [("partition", 1)]),
        ("S(0)S(0)", "S(0)R", [("all-gather", 1)]),
        ("PS(1)", "S(0)S(1)", [("reduce-scatter", 0)]),
    ],
)
def test_one_move(source: str, target: str, moves: list[tuple[str, int]]) -> None:
    assert kinds("dp=8,tp=8", source, target) == moves


def test_a_collective_costs_its_price() -> None:
    gathered = float(MODEL.collective("all-gather", 2.0 * 4096 * 4096, DimFabric(8, 1, 8)))
    assert price("dp=8,tp=8", "RS(0)", "RR") == pytest.approx(gathered, abs=1e-3)
    # A gather along the second dimension must be re-shuffled; the first is in place.
    assert price("dp=8,tp=8", "RS(1)", "RR") > price("dp=8,tp=8", "RS(0)", "RR")


def test_a_weight_gradient_is_reduced_and_scattered() -> None:
    moves = kinds("dp=8,tp=8", "PP", "S(0)S(1)")
    assert ("all-reduce", 0) not in moves
    assert ("all-reduce", 1) not in moves
    assert moves.count(("reduce-scatter", 0)) == 1
    assert kinds("dp=8,tp=8", "PS(1)", "S(0)S(1)") == [("reduce-scatter", 0)]


@pytest.mark.parametrize("mesh", ["a=2,b=2", "dp=8,tp=8", "dp=2,tp=8"])
def test_the_inner_shard_is_gathered_first(mesh: str) -> None:
    assert price(mesh, "S(0)S(0)", "RS(0)") > price(mesh, "S(0)S(0)", "S(0)R")


@pytest.mark.parametrize("mesh", ["a=2,b=2", "dp=8,tp=8"])
def test_partial_sum_to_partial_average_is_never_free(mesh: str) -> None:
    assert price(mesh, "PR", "P(avg)R") > 0
    assert price(mesh, "PR", "P(avg)R") >= price(mesh, "PR", "RR")


def test_a_shard_is_changed_by_all_to_all_not_by_gathering() -> None:
    assert price("a=8", "S(0)", "S(1)") < price("a=8", "S(0)", "R")


def test_what_is_not_contiguous_is_copied() -> None:
    assert price("a=8", "S(0)", "R", contiguous=False) > price("a=8", "S(0)", "R")
    assert price("a=8", "S(0)", "S(0)", contiguous=False) == 0.0


def test_uneven_shards_are_priced_by_the_largest() -> None:
    uneven = price("a=8", "S(0)", "R", (50257, 64))
    assert uneven == price("a=8", "S(0)", "R", (50264, 64))
    assert price("a=3,b=8", "S(0)S(0)", "RR", (50257, 64)) > 0


@pytest.mark.parametrize("mesh", ["a=1", "a=1,b=1"])
def test_one_rank_costs_nothing(mesh: str) -> None:
    dims = len(Mesh.parse(mesh).sizes)
    codes = np.array(np.meshgrid(*[[0, 1, 2, 8, 9]] * dims)).reshape(dims, -1).T.astype(np.int8)
    assert not MODEL.redistribute(Mesh.parse(mesh), SHAPE, 2, codes, codes).any()


def test_a_dimension_of_one_rank_changes_no_price() -> None:
    for source, target in [("S(0)", "R"), ("P", "S(1)"), ("S(0)", "S(1)")]:
        expected = price("a=8", source, target)
        assert price("a=8,b=1", f"{source}S(0)", f"{target}R") == expected
        assert price("b=1,a=8", f"R{source}", f"P{target}") == expected


@pytest.mark.parametrize("contiguous", [True, False])
def test_dimensions_of_one_rank_open_no_way_around(contiguous: bool) -> None:
    codes = np.array([[a, b] for a in (0, 1, 8, 9) for b in (0, 1, 8, 9)], dtype=np.int8)
    padded = np.insert(codes, (0, 1, 2), 0, axis=1)
    dense, wide = Mesh.parse("a=2,b=8"), Mesh.parse("x=1,a=2,y=1,b=8,z=1")
    expected = MODEL.redistribute(dense, SHAPE, 4, codes, codes, contiguous)
    assert (MODEL.redistribute(wide, SHAPE, 4, padded, padded, contiguous) == expected).all()
    for source, more in zip(codes, padded, strict=True):
        for target, other in zip(codes, padded, strict=True):
            moves = MODEL.path(wide, SHAPE, 4, more, other, contiguous)
            same = MODEL.path(dense, SHAPE, 4, source, target, contiguous)
            assert [(m.kind, wide.names[m.mesh_dim], m.us) for m in moves] == [
                (m.kind, dense.names[m.mesh_dim], m.us) for m in same
            ]
            assert not moves or (moves[0].before, moves[-1].after) == (tuple(more.tolist()), tuple(other.tolist()))


def test_scalars_and_empty_tensors() -> None:
    assert price("a=8", "P", "R", ()) > 0
    assert price("a=8", "S(0)", "R", (0, 4)) == 0.0


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("mesh", ["dp=8,tp=8", "a=2,b=2,c=2", "a=3,b=8"])
def test_a_path_is_what_was_priced(mesh: str, contiguous: bool) -> None:
    parsed = Mesh.parse(mesh)
    dims = len(parsed.sizes)
    codes = np.array(np.meshgrid(*[[0, 1, 8, 9]] * dims)).reshape(dims, -1).T.astype(np.int8)
    prices = MODEL.redistribute(parsed, (1023, 515), 4, codes, codes, contiguous)
    for row, source in enumerate(codes[:: 2 if dims == 2 else 5]):
        for column, target in enumerate(codes[::3]):
            moves = MODEL.path(parsed, (1023, 515), 4, source, target, contiguous)
            expected = prices[row * (2 if dims == 2 else 5), column * 3]
            assert sum(move.us for move in moves) == expected
            at = tuple(source.tolist())
            for move in moves:
                assert move.before == at
                assert sum(a != b for a, b in zip(move.before, move.after, strict=True)) == 1
                at = move.after
            assert at == tuple(target.tolist()), (text_of(source), text_of(target))


def test_every_path_is_the_same_on_a_second_look() -> None:
    mesh = Mesh.parse("a=4,b=4,c=4")
    again = CostModel(MODEL.profile)
    for source, target in [("S(0)S(0)S(1)", "RS(1)S(0)"), ("PPS(0)", "S(1)RR"), ("S(1)S(0)P", "S(0)S(1)S(0)")]:
        one = MODEL.path(mesh, (64, 64, 64), 2, parse(source), parse(target))
        assert one == again.path(mesh, (64, 64, 64), 2, parse(source), parse(target))


def test_two_meshes_in_either_order() -> None:
    questions = [("dp=8,tp=8", "S(0)S(0)", "RR"), ("dp=4,tp=16", "S(0)S(0)", "RR"), ("dp=16,tp=4", "PS(0)", "RR")]

    def answers(order: list[int]) -> dict[int, float]:
        model = cost_model("nccl-h100")
        found = {}
        for index in order:
            mesh, source, target = questions[index]
            found[index] = float(
                model.redistribute(Mesh.parse(mesh), SHAPE, 2, parse(source)[None], parse(target)[None])[0, 0]
            )
        return found

    assert answers([0, 1, 2]) == answers([2, 1, 0]) == {**answers([0]), **answers([1]), **answers([2])}


@pytest.mark.parametrize("source", ["S(2)R", "R", "S(0)S(0)S(0)"])
def test_a_placement_that_does_not_fit_is_refused(source: str) -> None:
    with pytest.raises(InvalidProblemError):
        price("dp=8,tp=8", source, "RR")
