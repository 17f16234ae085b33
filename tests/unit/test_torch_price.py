"""Prices: compute by local shapes, redistribution by classes of placements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from berthage_nccl import CostModel, Mesh, cost_model
from berthage_nccl import placements as codes
from berthage_torch import OpGraph, local_map, trace
from berthage_torch.graph import Node, Ref, TensorMeta, with_inputs
from berthage_torch.models import zoo
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.pricing.rules import one_dim
from berthage_torch.pricing.strategies import Strategies, StrategySpace, classes_of, product
from berthage_torch.pricing.work import is_free, local_sizes, work

MESH = Mesh.parse("dp=8,tp=8")


@pytest.fixture(scope="module")
def h100() -> CostModel:
    return cost_model("nccl-h100")


@pytest.fixture(scope="module")
def llama() -> OpGraph:
    spec = zoo.build("llama3-1b", layers=1)
    return trace(spec.model, spec.make_inputs)


def meta(*shape: int, dtype: str = "float32", itemsize: int = 4) -> TensorMeta:
    return TensorMeta(shape, dtype, itemsize, tuple(torch.empty(shape, device="meta").stride()))


def strategies(op: str, inputs: list[TensorMeta], output: TensorMeta, *more: object, mesh: Mesh = MESH) -> Strategies:
    args = (*(Ref(i) for i in range(len(inputs))), *more)
    node = with_inputs(Node(9, "n", "op", op, args=args, outputs=(output,)))
    return product(node, tuple(inputs), mesh, one_dim(node, tuple(inputs)))


def label(space: Strategies, name: str) -> int:
    return list(space.label_set).index(name)


def test_a_matrix_product_costs_what_its_local_product_costs(h100: CostModel) -> None:
    bf16 = {"dtype": "bfloat16", "itemsize": 2}
    space = strategies(
        "aten.mm.default", [meta(4096, 2048, **bf16), meta(2048, 8192, **bf16)], meta(4096, 8192, **bf16)
    )  # type: ignore[arg-type]
    us = Pricer(MESH, h100).compute(space)
    for name, (m, n, k) in {
        "RR, RR -> RR": (4096, 8192, 2048),
        "S(0)R, RS(1) -> S(0)S(1)": (512, 1024, 2048),
        "S(1)S(1), S(0)S(0) -> PP": (4096, 8192, 32),
    }.items():
        assert us[label(space, name)] == pytest.approx(h100.gemm(1, m, n, k, "bf16"), rel=1e-12)


def test_uneven_shards_cost_what_the_largest_costs() -> None:
    placed = np.array([codes.parse("S(1)S(1)"), codes.parse("S(1)R"), codes.parse("RR")], dtype=np.int8)
    assert local_sizes(meta(4, 50257), placed, MESH).tolist() == [[4, 786], [4, 6283], [4, 50257]]


def test_pointwise_costs_by_bytes_and_views_cost_nothing(h100: CostModel) -> None:
    space = strategies("aten.silu.default", [meta(64, 64)], meta(64, 64))
    done = work(space)
    assert done.bytes[label(space, "RR -> RR")] == 2 * 64 * 64 * 4
    assert done.bytes[label(space, "S(0)S(1) -> S(0)S(1)")] == 2 * 64 * 4
    pricer = Pricer(MESH, h100)
    assert (pricer.compute(space) > 0).all()
    view = strategies("aten.view.default", [meta(64, 64)], meta(8, 8, 64), (8, 8, 64))
    assert is_free(view.node)
    assert not pricer.compute(view).any()


def test_an_embedding_reads_only_the_rows_it_needs() -> None:
    indices = meta(16, 32, dtype="int64", itemsize=8)
    space = strategies("aten.embedding.default", [meta(100000, 64), indices], meta(16, 32, 64))
    done = work(space)
    assert done.bytes[0] == 2 * 16 * 32 * 64 * 4 + 16 * 32 * 8


def test_attention_counts_both_products_and_half_when_causal() -> None:
    q, v = meta(2, 4, 8, 16), meta(2, 4, 8, 12)
    name = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    whole = work(strategies(name, [q, q, v], v, 0.0, False, mesh=Mesh.parse("x=1")))
    causal = work(strategies(name, [q, q, v], v, 0.0, True, mesh=Mesh.parse("x=1")))
    assert whole.flops[0] == 2.0 * 2 * 4 * 8 * 8 * (16 + 12)
    assert causal.flops[0] == whole.flops[0] / 2
    assert whole.matmul


def test_an_einsum_counts_all_its_letters() -> None:
    node = with_inputs(
        Node(2, "e", "op", "aten.einsum.default", args=("bsd,df->bsf", (Ref(0), Ref(1))), outputs=(meta(2, 3, 5),))
    )
    inputs = (meta(2, 3, 4), meta(4, 5))
    mesh = Mesh.parse("x=1")
    assert work(product(node, inputs, mesh, one_dim(node, inputs))).flops[0] == 2 * 2 * 3 * 4 * 5


def test_a_region_is_shared_by_the_ranks_of_its_mesh_dimensions(h100: CostModel) -> None:
    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.run = local_map(lambda x, y: x @ y, ({"dp": "S(0)"}, {"dp": "R"}), {"dp": "S(0)"})

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.run(x, y)
            return out

    graph = trace(Local(), (torch.empty(8192, 4096), torch.empty(4096, 4096)))
    node = next(n for n in graph.nodes if n.local_map is not None)

    def price(mesh: str) -> float:
        parsed = Mesh.parse(mesh)
        return float(Pricer(parsed, h100).compute(StrategySpace(parsed).of(graph, node))[0])

    assert price("dp=1") == pytest.approx(h100.gemm(1, 8192, 4096, 4096, "f32"), rel=1e-12)
    assert price("dp=8") < price("dp=1") / 6
    assert price("tp=8") == price("dp=1")


def test_redistribution_is_the_cost_models_plus_a_transition(h100: CostModel) -> None:
    pricer = Pricer(MESH, h100)
    tensor = meta(1024, 1024)
    placed = np.array([codes.parse(text) for text in ("RR", "S(0)R", "PS(1)")], dtype=np.int8)
    us = pricer.redistribution(tensor, placed, placed)
    assert (np.diag(us) == 0).all()
    bare = h100.redistribute(MESH, (1024, 1024), 4, placed, placed)
    off = ~np.eye(3, dtype=bool)
    assert us[off] == pytest.approx(bare[off] + h100.transition_us)


def test_a_partial_gradient_of_a_sharded_parameter_is_reduce_scattered(h100: CostModel) -> None:
    tensor = meta(4096, 4096)
    path = h100.path(MESH, tensor.shape, 4, codes.parse("PS(1)"), codes.parse("S(0)S(1)"))
    assert [move.kind for move in path] == ["reduce-scatter"]
    us = Pricer(MESH, h100).redistribution(tensor, codes.parse("PS(1)")[None], codes.parse("S(0)S(1)")[None])
    assert us[0, 0] == pytest.approx(sum(move.us for move in path) + h100.transition_us)


def test_tables_answer_for_labels_and_are_shared(h100: CostModel, llama: OpGraph) -> None:
    space, pricer = StrategySpace(MESH), Pricer(MESH, h100)
    seen: dict[int, object] = {}
    for edge in llama.edges():
        ends = [space.of(llama, llama.nodes[i]) for i in (edge.producer, edge.consumer)]
        table = pricer.edge(ends[0], edge.output, ends[1], edge.position)
        assert table.shape == (len(ends[0]), len(ends[1]))
        assert pricer.edge(ends[0], edge.output, ends[1], edge.position) is table
        seen[id(table)] = table
        produced, wanted = ends[0].outputs[:, edge.output], ends[1].inputs[:, edge.position]
        same = (produced[:, None] == wanted[None]).all(axis=2)
        dense = table.to_dense()
        assert (dense[same] == 0).all()
        assert (dense[~same] >= h100.transition_us).all()
    assert len(seen) < 200


def test_prices_of_one_mesh_do_not_depend_on_another(h100: CostModel, llama: OpGraph) -> None:
    def total(mesh: str, model: CostModel) -> float:
        parsed = Mesh.parse(mesh)
        space, pricer = StrategySpace(parsed), Pricer(parsed, model)
        found = sum(float(pricer.compute(space.of(llama, node)).sum()) for node in llama.nodes)
        for edge in llama.edges():
            ends = [space.of(llama, llama.nodes[i]) for i in (edge.producer, edge.consumer)]
            dense = pricer.edge(ends[0], edge.output, ends[1], edge.position).to_dense()
            found += float(dense[np.isfinite(dense)].sum())
        return found

    alone = total("a=4,b=16", cost_model("nccl-h100"))
    first = total("a=8,b=8", h100)
    assert total("a=4,b=16", h100) == alone
    assert total("a=8,b=8", cost_model("nccl-h100")) == first
    assert Pricer(Mesh.parse("a=8,b=8"), h100).key != Pricer(Mesh.parse("a=4,b=16"), h100).key


def test_one_rank_costs_no_communication(h100: CostModel) -> None:
    mesh = Mesh.parse("dp=1,tp=1")
    rows = classes_of(np.zeros((1, 2), dtype=np.int8))
    assert Pricer(mesh, h100).table(meta(8, 8), rows, rows).to_dense().tolist() == [[0.0]]
