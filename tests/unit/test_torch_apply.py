"""Lowered plans, all ranks in one process: moves, operations and regions give what one device gives."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch_lockstep as lockstep
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_apply_ranks import zoo

from berthage import load_registry, solve
from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch import ApplyError, Constraints, MixedPrecision, Plan, local_map, make_plan, run_search, trace
from berthage_torch.applying.extents import Place, cut
from berthage_torch.applying.lowering import lower
from berthage_torch.applying.steps import Mover
from berthage_torch.applying.writing import Half, Writer, split
from berthage_torch.models.zoo import build
from berthage_torch.searching.run import SearchResult

EXACT = MixedPrecision(param_dtype=None, reduce_dtype=None)
MLP = {"dim": 8, "hidden": 16, "layers": 2, "batch": 8}
LLAMA = {"dim": 32, "layers": 2, "heads": 4, "kv_heads": 2, "vocab": 64, "sequence": 16, "batch": 8}
GPT2 = {"dim": 32, "layers": 1, "heads": 4, "vocab": 65, "sequence": 16, "batch": 8}
DSV3 = {"dim": 64, "layers": 2, "heads": 4, "experts": 4, "vocab": 64, "sequence": 16, "batch": 8}


def searched(name: str, sizes: dict[str, Any], mesh: str, policy: MixedPrecision = EXACT, **how: Any) -> SearchResult:
    return run_search(dataclasses.replace(build(name, **sizes), policy=policy), None, mesh, **how)


def same_collectives(plan: Plan, found: SearchResult) -> bool:
    place = Place(tuple(plan.mesh.values()), (0,) * len(plan.mesh))
    lowered = lower(plan, found.built.graph, place, tuple(plan.mesh), torch.device("cpu"))
    return lowered.collectives() == Counter((c.kind, c.mesh_dim, c.phase, c.bytes) for c in plan.collectives())


def check(name: str, sizes: dict[str, Any], found: SearchResult, plan: Plan | None = None) -> None:
    """Outputs and gradients as on one device, and the collectives of the plan."""
    plan = plan or found.plan
    assert plan is not None
    torch.manual_seed(0)
    model, inputs = zoo(name, **sizes)
    output, gradient = lockstep.step_both_ways(model, inputs, plan, found.built.graph)
    assert output < 1e-5
    assert gradient < 1e-5
    assert same_collectives(plan, found)


def anywhere(found: SearchResult, seed: int) -> Plan:
    """A plan that nobody would choose: every node is placed by chance."""
    problem = found.built.problem
    costs = np.random.default_rng(seed).random(len(problem.unary)) * 1e6
    problem = dataclasses.replace(problem, unary=np.where(np.isfinite(problem.unary), costs, problem.unary))
    cost_model = load_registry().create_cost_model("nccl-h100")
    return make_plan(found.built, solve(problem, "trws"), model="anywhere", cost_model=cost_model)


# -- parts of tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "ranks"), [(8, 2), (7, 2), (5, 4), (3, 4), (1, 3)])
def test_cuts_are_torch_chunks(size: int, ranks: int) -> None:
    """Parts begin and end where `torch.chunk` cuts; what is left over is empty."""
    parts = [tuple(part.tolist()) for part in torch.arange(size).chunk(ranks)]
    parts += [()] * (ranks - len(parts))
    mine = [tuple(range(start, start + length)) for start, length in (cut(size, ranks, r) for r in range(ranks))]
    assert mine == parts


def test_shards_nest_from_left_to_right() -> None:
    """Two mesh dimensions on one tensor dimension: the second cuts what the first left."""
    place = Place((2, 2), (1, 0))
    assert place.extents((7, 3), (codes.shard(0), codes.shard(0))) == ((4, 2), (0, 3))


# -- moves ----------------------------------------------------------------------------------------------


def moved(value: torch.Tensor, sizes: tuple[int, ...], dim: int, before: list[int], after: list[int]) -> torch.Tensor:
    """A tensor taken apart, moved by one step on every rank, and put together."""
    names = tuple(f"m{d}" for d in range(len(sizes)))
    places = list(itertools.product(*(range(size) for size in sizes)))
    halves: list[Half] = []
    for coordinate in places:
        writer = Writer()
        given = writer.given("given")
        mover = Mover(writer, Place(sizes, coordinate), names, names)
        dtype = str(value.dtype).removeprefix("torch.")
        result = mover.step(given, tuple(value.shape), dtype, dim, before, after)
        halves.append(split(writer.graph, nn.Module(), [result], [])[0])
    ranks = lockstep.Ranks.of(sizes, names)
    sent = lockstep.apart(ranks, value, before)
    got = [row[0] for row in ranks.go([half.module for half in halves], [[part] for part in sent])]
    return lockstep.together(ranks, got, tuple(value.shape), after)


STEPS = [
    (a, b)
    for a, b in itertools.permutations([0, codes.PARTIAL_SUM, codes.PARTIAL_AVG, codes.PARTIAL_MAX, 8, 9, 10], 2)
    if not (codes.is_partial(b) and (b != codes.PARTIAL_SUM or codes.is_shard(a) or codes.is_partial(a)))
]


@pytest.mark.parametrize(("source", "target"), STEPS)
@pytest.mark.parametrize("other", [0, 8])
def test_every_step_keeps_the_tensor(source: int, target: int, other: int) -> None:
    """Any step on the second of two mesh dimensions, with uneven shards, whatever the first does."""
    torch.manual_seed(0)
    value = torch.randn(11, 5, 7, dtype=torch.float64)
    got = moved(value, (2, 3), 1, [other, source], [other, target])
    assert torch.allclose(got, value)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.bfloat16])
@pytest.mark.parametrize(("source", "target"), [(8, 0), (8, 9), (9, 8), (0, 9)])
def test_steps_keep_every_dtype(dtype: torch.dtype, source: int, target: int) -> None:
    """What cannot travel as it is travels as something else and comes back."""
    value = torch.arange(15).reshape(5, 3) % 2
    got = moved(value.to(dtype), (2,), 0, [source], [target])
    assert torch.equal(got, value.double())


# -- whole steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", ["dp=2,tp=2", "d=1", "a=1,b=4", "a=4,b=1", "a=2,b=2,c=2"])
def test_mlp(mesh: str) -> None:
    """On meshes of all kinds."""
    check("mlp", MLP, searched("mlp", MLP, mesh))


@pytest.mark.parametrize(("mesh", "seed"), [("dp=2,tp=2", 1), ("dp=3,tp=2", 2), ("a=2,b=2,c=2", 3)])
def test_mlp_placed_by_chance(mesh: str, seed: int) -> None:
    """Every strategy and every move is carried out as it was priced, not only those that a solver likes."""
    found = searched("mlp", MLP, mesh, constraints=Constraints())
    plan = anywhere(found, seed)
    assert len({c.kind for c in plan.collectives()}) >= 3
    check("mlp", MLP, found, plan)


def test_uneven_vocabulary() -> None:
    """65 tokens on 3 ranks, embedding and head tied."""
    found = searched("gpt2", GPT2, "d=3", constraints=Constraints(pins={"wte.weight": "S(0)"}))
    check("gpt2", GPT2, found)


def test_rows_of_a_sharded_embedding_are_looked_up_where_they_are() -> None:
    """A table sharded by rows, used as it lies: each rank gives zeros for the rows of others."""
    found = searched("gpt2", GPT2, "d=3", constraints=Constraints(pins={"wte.weight": "S(0)", "wte/embedding": "P"}))
    check("gpt2", GPT2, found)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["dp=2,tp=2", "dp=2,tp=2,cp=2"])
@pytest.mark.parametrize("solver", ["ilp", "trws", "trws-lazy"])
@pytest.mark.parametrize(("name", "sizes"), [("llama3-1b", LLAMA), ("gpt2", {**GPT2, "layers": 2})])
def test_transformers(name: str, sizes: dict[str, Any], mesh: str, solver: str) -> None:
    """Attention, norms and views on shards."""
    check(name, sizes, searched(name, sizes, mesh, solver=solver))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sizes"), [("llama3-1b", LLAMA), ("gpt2", {**GPT2, "layers": 2})])
@pytest.mark.parametrize(("mesh", "seed"), [("dp=2,tp=2", 1), ("dp=3,tp=2", 2)])
def test_transformers_placed_by_chance(name: str, sizes: dict[str, Any], mesh: str, seed: int) -> None:
    """As with the MLP."""
    found = searched(name, sizes, mesh, constraints=Constraints())
    check(name, sizes, found, anywhere(found, seed))


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ["dp=2,ep=2", "dp=2,ep=2,tp=2"])
def test_mixture_of_experts(mesh: str) -> None:
    """The experts compute in bfloat16 whatever the policy, so sums in another order differ by that much."""
    found = searched("dsv3-tiny", DSV3, mesh)
    assert found.plan is not None
    torch.manual_seed(0)
    model, inputs = zoo("dsv3-tiny", **DSV3)
    output, gradient = lockstep.step_both_ways(model, inputs, found.plan, found.built.graph)
    assert output < 0.005
    assert gradient < 0.02
    assert same_collectives(found.plan, found)


# -- regions --------------------------------------------------------------------------------------------


def two_experts(x: torch.Tensor, share: torch.Tensor, first: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """What the experts here add: ``[batch, dim]``."""
    hidden = torch.einsum("bd,edh->ebh", x, weights).tanh()
    mine = share.index_select(1, first)
    return torch.einsum("ebh,be->bh", hidden, mine)


class Experts(nn.Module):
    """Two experts, one for each rank of ``ep``; the batch is cut by both mesh dimensions outside, by ``dp`` inside."""

    first: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 2)
        self.weights = nn.Parameter(torch.randn(2, 8, 8))
        self.register_buffer("first", torch.arange(2))
        tokens = {"dp": "S(0)"}
        self.routed = local_map(
            two_experts, (tokens, tokens, {"ep": "S(0)"}, {"ep": "S(0)"}), {"dp": "S(0)", "ep": "P"}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = self.router(x).softmax(-1)
        return x + self.routed(x, share, self.first, self.weights)  # type: ignore[no-any-return]


def expert_search() -> SearchResult:
    demands = Constraints(inputs={"*": "S(0)S(0)"}, outputs={"*": "S(0)S(0)"}, pins={"weights": "RS(0)"})
    return run_search(Experts(), torch.zeros(8, 8), "dp=2,ep=2", constraints=demands)


def test_gradients_of_experts() -> None:
    """Weights (R, S(0)) on (dp, ep): their gradient is a sum over dp, and is reduced there before it is used."""
    found = expert_search()
    plan = found.plan
    assert plan is not None
    backward = next(node for node in plan.nodes if node.op == "berthage.local_map_backward")
    assert "PS(0)" in backward.outputs
    torch.manual_seed(0)
    model = Experts()
    output, gradient = lockstep.step_both_ways(model, (torch.randn(8, 8),), plan, found.built.graph)
    assert output < 1e-5
    assert gradient < 1e-5
    assert same_collectives(plan, found)


def test_a_region_that_gives_other_sizes_is_named() -> None:
    """A function that does not do what it declares."""

    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(4, 4)
            self.inner = local_map(lambda x: x.sum(0, keepdim=True).expand(8, 4), ("S(0)",), ("S(0)",))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(self.up(x))  # type: ignore[no-any-return]

    found = run_search(Wrong(), torch.zeros(8, 4), "d=2")
    assert found.plan is not None
    with pytest.raises(ApplyError, match=r"local_map.*\[8, 4\] on a rank.*\[4, 4\]"):
        lower(found.plan, found.built.graph, Place((2,), (0,)), ("d",), torch.device("cpu"))


# -- what does not hold ---------------------------------------------------------------------------------


def test_sizes_that_a_placement_does_not_hold_for_are_named() -> None:
    """A plan for 8 rows, at 1 row on two ranks."""
    found = searched("mlp", MLP, "dp=2", constraints=Constraints(inputs={"*": "S(0)"}))
    assert found.plan is not None
    graph = trace(build("mlp", **MLP).model, torch.zeros(1, 8), policy=EXACT)
    with pytest.raises(ApplyError, match="sizes"):
        lower(found.plan, graph, Place((2,), (0,)), ("dp",), torch.device("cpu"))


class Deep(nn.Module):
    """Layers that may be checkpointed."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        self.again = again
        inner = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Sigmoid(), nn.Tanh()) for _ in range(4)]
        self.layers = nn.ModuleList(inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)  # type: ignore[no-untyped-call]
        return x.sin()


def test_checkpointed_layers_are_computed_again_in_the_backward_pass() -> None:
    """What activation checkpointing drops is not kept between the passes; collectives stay those of the plan."""
    kept = []
    for again in (False, True):
        pins = Constraints(inputs={"*": "S(0)"}, pins={"layers.*.weight": "S(0)"})
        found = run_search(Deep(again), torch.zeros(8, 8), "d=2", constraints=pins)
        assert found.plan is not None
        assert found.plan.collectives()
        lowered = lower(found.plan, found.built.graph, Place((2,), (0,)), ("d",), torch.device("cpu"))
        kept.append(len(lowered.forward.kept))
        torch.manual_seed(0)
        output, gradient = lockstep.step_both_ways(Deep(again), (torch.randn(8, 8),), found.plan, found.built.graph)
        assert max(output, gradient) < 1e-5
        assert same_collectives(found.plan, found)
    assert kept[1] < kept[0]


def test_meshes_are_those_of_the_plan() -> None:
    """One rank dimensions cost nothing and run nothing."""
    found = searched("mlp", MLP, "a=1,b=1")
    assert found.plan is not None
    assert not found.plan.collectives()
    assert Mesh.parse("a=1,b=1").ranks == 1
