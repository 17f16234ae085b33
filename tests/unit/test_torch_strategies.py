"""Strategies on meshes: the product of single-dimension rules, and what is left out of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch import OpGraph, local_map, trace
from berthage_torch.pricing.strategies import MissingRuleWarning, Strategies, StrategySpace, classes_of


def linear(batch: int, inner: int, outer: int) -> OpGraph:
    with torch.device("meta"):
        model = nn.Linear(inner, outer, bias=False)
    return trace(model, (torch.empty(batch, inner, device="meta", requires_grad=True),), device="meta")


def of(graph: OpGraph, op: str, mesh: str, phase: str = "forward") -> Strategies:
    node = next(n for n in graph.nodes if n.op == op and n.phase == phase)
    return StrategySpace(Mesh.parse(mesh)).of(graph, node)


def test_a_weight_gradient_on_8_by_8_may_be_a_partial_sum() -> None:
    graph = linear(1024, 512, 2048)
    names = set(of(graph, "aten.mm.default", "dp=8,tp=8", "backward").label_set)
    assert "S(1)R, S(0)S(1) -> PS(1)" in names
    assert "S(1)S(1), S(0)S(0) -> PP" in names
    assert len(names) == 36


def test_labels_are_rows_of_the_single_dimension_rules() -> None:
    strategies = of(linear(64, 32, 16), "aten.mm.default", "x=2,y=4")
    rules = strategies.one_dim
    for m in range(2):
        assert (strategies.inputs[:, :, m] == rules.inputs[strategies.index[:, m]]).all()
        assert (strategies.outputs[:, :, m] == rules.outputs[strategies.index[:, m]]).all()
    assert (strategies.index[0] == 0).all()
    assert strategies.name(0) == "RR, RR -> RR"
    assert len({tuple(row) for row in strategies.index.tolist()}) == len(strategies)


def test_coordinates_are_the_placements_of_the_output() -> None:
    strategies = of(linear(64, 32, 16), "aten.mm.default", "x=2,y=4")
    assert strategies.label_set.coordinates is not None
    assert (strategies.label_set.coordinates == strategies.outputs[:, 0]).all()


@pytest.mark.parametrize("mesh", ["x=1", "x=1,y=1"])
def test_one_rank_has_one_strategy(mesh: str) -> None:
    assert len(of(linear(8, 8, 8), "aten.mm.default", mesh)) == 1


@pytest.mark.parametrize("mesh", ["x=8,y=1", "x=1,y=8"])
def test_dimensions_of_one_rank_are_replicated(mesh: str) -> None:
    strategies = of(linear(8, 8, 8), "aten.mm.default", mesh)
    alone = Mesh.parse(mesh).sizes.index(1)
    assert len(strategies) == len(of(linear(8, 8, 8), "aten.mm.default", "x=8"))
    assert (strategies.inputs[:, :, alone] == codes.REPLICATE).all()


def test_uneven_shards_are_kept_and_empty_ones_are_not() -> None:
    vocabulary = of(linear(64, 32, 50257), "aten.mm.default", "x=8,y=8")
    assert "RR, S(1)S(1) -> S(1)S(1)" in set(vocabulary.label_set)
    assert vocabulary.uneven == 0
    nine = of(linear(64, 32, 9), "aten.mm.default", "x=8")  # shards of 2: three ranks would get nothing
    assert "R, S(1) -> S(1)" not in set(nine.label_set)
    twelve = of(linear(64, 32, 12), "aten.mm.default", "x=8,y=2")
    assert not {"RR, S(1)S(1) -> S(1)S(1)"} & set(twelve.label_set)


def test_a_view_that_would_cut_elsewhere_is_left_out_and_counted() -> None:
    class Flat(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(-1, 16)

    graph = trace(Flat(), (torch.empty(6, 8, 16),))
    assert "S(0) -> S(0)" in set(of(graph, "aten.view.default", "x=3").label_set)
    four = of(graph, "aten.view.default", "x=4")
    assert "S(0) -> S(0)" not in set(four.label_set)
    assert four.uneven == 0  # 6 on 4 ranks leaves one without: not a matter of evenness
    assert "S(2) -> S(1)" in set(of(graph, "aten.view.default", "x=3").label_set)  # 6, 6 and 4 of 16
    three = of(trace(Flat(), (torch.empty(8, 8, 16),)), "aten.view.default", "x=3")
    assert three.uneven == 1
    both = of(graph, "aten.view.default", "x=3,y=2")
    assert "S(0)S(0) -> S(0)S(0)" in set(both.label_set)
    assert not any(name.startswith("S(0)S(0)") for name in of(graph, "aten.view.default", "x=2,y=2").label_set)


def test_sums_and_maxima_do_not_mix() -> None:
    class Largest(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.amax(0)

    names = set(of(trace(Largest(), (torch.empty(8, 8),)), "aten.amax.default", "x=2,y=2").label_set)
    assert "S(0)S(0) -> P(max)P(max)" in names
    assert not any("PP(max)" in name or "P(max)P " in name for name in names)


def test_equal_operations_share_their_strategies_and_meshes_do_not_meet() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(3)))
    graph = trace(model, (torch.empty(128, 64),))
    square, long = StrategySpace(Mesh.parse("x=8,y=8")), StrategySpace(Mesh.parse("x=4,y=16"))
    forward = [n for n in graph.nodes if n.op == "aten.mm.default" and n.phase == "forward"]
    assert len({id(square.of(graph, n)) for n in forward}) == 1
    first = square.of(graph, forward[0]).index.copy()
    assert long.of(graph, forward[0]).mesh.sizes == (4, 16)
    alone = StrategySpace(Mesh.parse("x=8,y=8")).of(graph, forward[0])
    assert (alone.index == first).all()


def test_an_operation_without_a_rule_is_named_once() -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x.masked_scatter(mask, x).masked_scatter(mask, y)

    graph = trace(Twice(), (torch.empty(8, 8), torch.empty(9, 9), torch.zeros(8, 8, dtype=torch.bool)))
    space = StrategySpace(Mesh.parse("x=2"))
    with pytest.warns(MissingRuleWarning, match=r"aten\.masked_scatter\.default has no sharding rule") as caught:
        sizes = [len(space.of(graph, n)) for n in graph.nodes if n.kind == "op"]
    assert sizes == [1, 1]
    assert len(caught) == 1
    assert space.missing == ("aten.masked_scatter.default",)


def test_a_region_has_its_declared_placements() -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(8, 16, 16))
            self.run = local_map(
                lambda x, w: torch.einsum("bd,edf->bf", x, w),
                in_placements=({"dp": "S(0)"}, {"ep": "S(0)"}),
                out_placements={"dp": "S(0)", "ep": "P"},
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.run(x, self.weight)
            return out

    graph = trace(Experts(), (torch.empty(32, 16),))
    space = StrategySpace(Mesh.parse("dp=4,ep=8"))
    forward, backward = [space.of(graph, n) for n in graph.nodes if n.local_map is not None]
    assert forward.name(0).startswith("S(0)R, RS(0) -> S(0)P")
    assert any((row == codes.parse("PS(0)")).all() for row in backward.outputs[0])  # the experts' gradient
    one = StrategySpace(Mesh.parse("dp=4,ep=1"))
    alone = one.of(graph, next(n for n in graph.nodes if n.local_map is not None))
    assert alone.name(0).startswith("S(0)R, RR -> S(0)R")


def test_classes_are_the_distinct_rows() -> None:
    rows = np.array([[8, 0], [0, 0], [8, 0], [1, 9]], dtype=np.int8)
    distinct, which = classes_of(rows)
    assert distinct.tolist() == [[0, 0], [1, 9], [8, 0]]
    assert (distinct[which] == rows).all()


def test_find_and_name() -> None:
    strategies = of(linear(64, 32, 16), "aten.mm.default", "x=2")
    label = strategies.find([[codes.shard(1)], [codes.shard(0)]], [[codes.PARTIAL_SUM]])
    assert strategies.name(label) == "S(1), S(0) -> P"
    assert strategies.find([[codes.shard(0)], [codes.shard(0)]], [[codes.REPLICATE]]) == -1


def test_models_have_no_operation_without_a_rule() -> None:
    from berthage_torch.models import zoo

    with warnings.catch_warnings():
        warnings.simplefilter("error", MissingRuleWarning)
        spec = zoo.build("dsv3-tiny", layers=2)
        graph = trace(spec.model, spec.make_inputs)
        space = StrategySpace(Mesh.parse("dp=2,ep=2"))
        assert all(len(space.of(graph, node)) >= 1 for node in graph.nodes)
