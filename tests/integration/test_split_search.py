"""The search near a seed: what it finds, what it says of the rest, and what a seed depends on."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from berthage import OptionError, Reason, SolveParams, evaluate, load_registry, solve
from berthage.seeding import SeedCache, restrict
from berthage_nccl import CostModel, Mesh, load_profile
from berthage_nccl import placements as codes
from berthage_torch import BuiltProblem, Constraints, OpGraph, Pricer, SearchResult, build_problem, run_search, trace
from berthage_torch.models import zoo
from berthage_torch.pricing.strategies import Strategies, StrategySpace, can_be_placed
from berthage_torch.searching.dimensions import MeshDimensions, MeshSeed
from berthage_torch.searching.near import Near
from berthage_torch.searching.run import default_constraints
from berthage_torch.searching.seeding import Seeding, SeedWarning, build_near, core_seed, radius_for, seed_step
from berthage_torch.searching.step import Phases, Step

REGISTRY = load_registry()
CUBE = Mesh.parse("a=2,b=2,c=2")


def linears(dim: int, hidden: int) -> nn.Module:
    with torch.device("meta"):
        return nn.Sequential(nn.Linear(dim, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, dim, bias=False))


def prices(name: str = "nccl-h100") -> CostModel:
    return CostModel(load_profile(name))


@dataclasses.dataclass(frozen=True)
class Case:
    """A step on a mesh, with its seed."""

    graph: OpGraph
    pricer: Pricer
    constraints: Constraints
    seed: MeshSeed

    @functools.cached_property
    def whole(self) -> BuiltProblem:
        return self.near(None)[0]

    def near(self, radius: int | None, space: StrategySpace | None = None) -> tuple[BuiltProblem, Near]:
        return build_near(self.graph, self.pricer, self.constraints, self.seed, radius, space=space)


def case_of(graph: OpGraph, mesh: Mesh, constraints: Constraints) -> Case:
    pricer = Pricer(mesh, prices())
    seed, _ = seed_step(
        graph, pricer, constraints, seeding=Seeding(), solver="trws", params=SolveParams(), registry=REGISTRY
    )
    assert seed is not None
    return Case(graph, pricer, constraints, seed)


def zoo_case(name: str, mesh: Mesh, **sizes: Any) -> Case:
    spec = zoo.build(name, **sizes)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy)
    return case_of(graph, mesh, default_constraints(spec, graph, mesh))


@pytest.fixture(scope="module")
def wide() -> Case:
    """Two wide layers on (2, 2), inputs and outputs sharded over both dimensions."""
    everywhere = Constraints(inputs={"*": "S(0)S(0)"}, outputs={"*": "S(0)S(0)"})
    graph = trace(linears(4096, 4096), (torch.zeros(2048, 4096, device="meta"),))
    return case_of(graph, Mesh.parse("dp=2,tp=2"), everywhere)


@pytest.fixture(scope="module")
def llama() -> Case:
    return zoo_case("llama3-1b", Mesh.parse("a=4,b=4,c=4"), layers=1)


@pytest.fixture(scope="module")
def experts() -> Case:
    """Mixture of experts in `local_map` regions on three dimensions."""
    mesh = Mesh.parse("dp_shard=2,tp=2,ep=2")
    return zoo_case("dsv3-tiny", mesh, layers=2)


# -- known answers --------------------------------------------------------------------------------


def test_dimensions_decoupled_choose_data_parallelism_and_a_radius_recovers_the_joint_optimum(wide: Case) -> None:
    """Each dimension alone copies the weights and shards the tokens; together they shard the weights as well."""
    costs = []
    for radius in (0, 1, 2):
        built, _ = wide.near(radius)
        result = solve(built.problem, "trws", registry=REGISTRY)
        costs.append(float(result.objective or 0.0))
        at = {node.name: built.strategies[node.index].name(result.require()[built.variable[node.index]])
              for node in wide.graph.nodes if node.name in ("0/mm", "2/mm")}  # fmt: skip
        if radius == 0:
            assert set(at.values()) == {"S(0)S(0), RR -> S(0)S(0)"}
    assert all(label == "S(0)S(1), RS(0) -> S(0)P" for label in at.values())  # tensor-parallel on the second
    assert costs[0] > 1.1 * costs[2]
    assert costs[0] >= costs[1] >= costs[2]
    truth = solve(build_problem(wide.graph, wide.pricer, wide.constraints).problem, "ilp", registry=REGISTRY)
    assert truth.objective == pytest.approx(costs[2], rel=1e-9)


def test_radius_zero_is_not_called_optimal_for_the_whole(wide: Case) -> None:
    step = Step(wide.graph, wide.pricer, wide.constraints, "wide", "trws", SolveParams(), None, True, REGISTRY)
    _, result, report = step.search("layers", Seeding(bound="ilp"), 0, Phases())
    assert report is not None
    assert report.ball is not None
    assert report.ball.termination.reason is Reason.OPTIMAL
    assert result.termination.reason is Reason.FEASIBLE
    assert "within Hamming distance 0" in result.termination.detail
    assert result.bound < 0.9 * float(result.objective or 0.0)
    best = solve(wide.whole.problem, "ilp", registry=REGISTRY)
    assert best.objective is not None
    assert result.objective is not None
    assert report.lost_at_most == pytest.approx(result.objective - best.objective, rel=1e-6)


def test_radius_one_on_one_layer_of_a_llama(llama: Case) -> None:
    costs = []
    for radius in (0, 1, 2):
        built, near = llama.near(radius)
        result = solve(built.problem, "trws", registry=REGISTRY)
        assert result.termination.reason is Reason.OPTIMAL
        assert evaluate(built.problem, result.require()).violations == ()
        assert near.empty == ()
        costs.append(float(result.objective or math.inf))
    assert costs == sorted(costs, reverse=True)
    best = solve(llama.whole.problem, "trws", registry=REGISTRY)
    assert best.objective is not None
    assert costs[2] <= 1.01 * best.objective
    assert costs[1] <= 1.10 * best.objective


# -- the restriction before pricing is the pure function ------------------------------------------


@pytest.mark.parametrize("radius", [0, 1, 2])
@pytest.mark.parametrize("name", ["wide", "experts"])
def test_what_is_built_near_a_seed_is_the_whole_problem_restricted(
    name: str, radius: int, request: pytest.FixtureRequest
) -> None:
    case: Case = request.getfixturevalue(name)
    restricted = restrict(case.whole.problem, core_seed(case.whole, case.seed), radius).problem
    near, _ = case.near(radius)
    problem = near.problem
    assert problem.variable_names == restricted.variable_names
    for v in range(problem.num_variables):
        assert list(problem.labels(v)) == list(restricted.labels(v))
    assert np.array_equal(problem.unary, restricted.unary)
    for name_of in ("multiplicity", "edge_u", "edge_v", "edge_multiplicity"):
        assert np.array_equal(getattr(problem, name_of), getattr(restricted, name_of))
    for mine, theirs in zip(problem.edge_table, restricted.edge_table, strict=True):
        assert np.array_equal(problem.tables[mine].to_dense(), restricted.tables[theirs].to_dense())
    assert problem.relations.names == restricted.relations.names
    for one, other in zip(problem.relations, restricted.relations, strict=True):
        assert (one.kind, one.u, one.v) == (other.kind, other.u, other.v)
        assert np.array_equal(one.array, other.array)
    for budget, same in zip(problem.linear_budgets, restricted.linear_budgets, strict=True):
        assert (budget.lower, budget.upper) == (same.lower, same.upper)
        assert np.array_equal(budget.weights, same.weights)


def test_without_seed_and_with_everything_offered_the_problem_is_the_same(wide: Case) -> None:
    assert wide.whole.problem == build_problem(wide.graph, wide.pricer, wide.constraints).problem


# -- witnesses ------------------------------------------------------------------------------------


def test_a_witness_that_the_enumeration_drops_is_put_back_and_gives_the_plan(experts: Case) -> None:
    """The strategy that feeds the experts is left out of the enumeration; the seed brings it back."""
    built, _ = experts.near(0)
    region = next(node for node in experts.graph.nodes if node.local_map is not None)
    node = next(
        experts.graph.nodes[ref.node]
        for ref in region.inputs
        if experts.graph.nodes[ref.node].kind == "op" and experts.graph.nodes[ref.node].local_map is None
    )
    witness = experts.seed.index[node.index]

    def without(strategies: Strategies) -> Any:
        same = strategies.node.op == node.op and strategies.node.outputs == node.outputs
        return ~((strategies.index == witness).all(axis=1) & same)

    space = StrategySpace(experts.pricer.mesh, keep=without)
    assert not (space.of(experts.graph, node).index == witness).all(axis=1).any()
    again, near = experts.near(0, space)
    assert experts.graph.nodes[int(experts.seed.groups[node.index])].name in near.restored
    for one in (built, again):
        found = core_seed(one, experts.seed)
        assert found.complete
    seed_cost, seed_again = (core_seed(one, experts.seed).objective for one in (built, again))
    assert seed_cost is not None
    assert seed_cost == seed_again
    first, second = (solve(one.problem, "trws", registry=REGISTRY) for one in (built, again))
    assert first.objective == second.objective
    chosen = [
        one.strategies[node.index].name(int(result.require()[one.variable[node.index]]))
        for one, result in ((built, first), (again, second))
    ]
    assert chosen[0] == chosen[1]
    label = int(core_seed(again, experts.seed).labels[again.variable[node.index]])
    assert chosen[1] == again.strategies[node.index].name(label)


def test_a_shared_tensor_that_nobody_offers_where_the_seed_has_it_is_put_back(experts: Case) -> None:
    """Pending on the dimension where its producer leaves it so, sharded on another as only a user wants it."""
    tensor, place = next(found for found in unoffered(experts))
    moved = dataclasses.replace(
        experts, seed=dataclasses.replace(experts.seed, shared={**experts.seed.shared, tensor: place})
    )
    built, near = moved.near(1)
    assert list(near.restored) == [built.problem.variable_names[built.aliases[tensor].variable]]
    assert (built.aliases[tensor].placements == place).all(axis=1).any()
    assert solve(built.problem, "trws", registry=REGISTRY).assignment is not None


def unoffered(case: Case) -> Iterator[tuple[tuple[int, int], Any]]:
    """Placements of shared tensors that are possible, and in which no strategy produces or uses them."""
    some = [codes.REPLICATE, codes.PARTIAL_SUM, codes.shard(0), codes.shard(1)]
    grid = np.array(list(itertools.product(some, repeat=3)), dtype=np.int8)
    for tensor, alias in case.whole.aliases.items():
        meta = case.graph.nodes[tensor[0]].outputs[tensor[1]]
        assert meta is not None
        for place in grid[(grid < codes.shard(len(meta.shape))).all(axis=1)]:
            offered = (alias.placements == place).all(axis=1).any()
            if not offered and can_be_placed(meta, place[None], case.pricer.mesh)[0]:
                yield tensor, place


# -- what a seed depends on -----------------------------------------------------------------------


def keys(
    graph: OpGraph, mesh: str, cost_model: CostModel | None = None, tie: str = "layers", **demands: Any
) -> list[str]:
    dimensions = MeshDimensions(graph, Mesh.parse(mesh), cost_model or prices(), Constraints(**demands), tie=tie)
    return [dimensions.key(d) for d in range(len(dimensions.names))]


def test_a_cache_entry_depends_on_everything_that_its_problem_does(wide: Case) -> None:
    graph = wide.graph
    same = keys(graph, "a=2,b=2,c=2")
    assert len(set(same)) == 1  # equal dimensions within one node
    assert keys(graph, "x=2,y=2,z=2") == same  # names do not matter
    fabrics = keys(graph, "a=4,b=4,c=4")
    assert len(set(fabrics)) == 3  # one within a node, one across two nodes, one across four
    assert not set(fabrics) & set(same)
    others = [
        keys(graph, "a=2,b=2,c=2", prices("nccl-a100")),
        keys(graph, "a=2,b=2,c=2", tie="none"),
        keys(graph, "a=2,b=2,c=2", pins={"0.weight": "S(0)S(0)S(0)"}),
        keys(graph, "a=2,b=2,c=2", inputs={"*": "S(0)S(0)S(0)"}),
        keys(graph, "a=2,b=2,c=2", parameter_memory="least"),
        keys(graph, "a=2,b=2,c=2", parameter_memory=(0, 0.5)),
        keys(trace(linears(4096, 4096), (torch.zeros(1024, 4096, device="meta"),)), "a=2,b=2,c=2"),
        keys(trace(linears(4096, 4096).bfloat16(), (torch.zeros(2048, 4096, device="meta", dtype=torch.bfloat16),)),
             "a=2,b=2,c=2"),
    ]  # fmt: skip
    found = [frozenset(each) for each in (same, fabrics, *others)]
    for i, one in enumerate(found):
        assert not any(one & other for other in found[:i])
    split = keys(graph, "a=2,b=2,c=2", inputs={"*": "S(0)RR"})
    assert split[0] != split[1] == split[2]  # a demand is projected: it says nothing new of the last two


def test_searches_that_share_a_cache_answer_as_those_that_do_not() -> None:
    spec = zoo.build("mlp", layers=1)
    cache = SeedCache()
    alone = run_search(spec, None, "a=2,b=2,c=2", seed_radius=1)
    cold = run_search(spec, None, "a=2,b=2,c=2", seed_radius=1, seed_cache=cache)
    entries, misses = len(cache), cache.misses
    warm = run_search(spec, None, "a=2,b=2,c=2", seed_radius=1, seed_cache=cache)
    assert cache.misses == misses
    other = run_search(spec, None, "a=4,b=4,c=4", seed_radius=1, seed_cache=cache)
    assert len(cache) > entries  # another fabric, another entry
    assert other.plan is not None
    hashes = [found.plan.placement_hash() for found in (alone, cold, warm) if found.plan is not None]
    assert len(hashes) == 3
    assert len(set(hashes)) == 1
    assert other.plan.placement_hash() == run_search(spec, None, "a=4,b=4,c=4", seed_radius=1).plan.placement_hash()


# -- when it is done ------------------------------------------------------------------------------


def test_when_a_seed_is_made() -> None:
    cube, square, flat = CUBE, Mesh.parse("a=2,b=2"), Mesh.parse("a=4,b=1,c=4")
    for solver in ("trws", "trws-lazy"):
        assert [radius_for(Seeding(r), solver, cube) for r in (None, 0, 1, 2)] == [None, None, 1, 2]
        assert radius_for(Seeding(2), solver, square) is None
        assert radius_for(Seeding(7), solver, flat) is None  # two dimensions of more than one rank
        with pytest.raises(OptionError, match="take 1 to 2"):
            radius_for(Seeding(3), solver, cube)
        with pytest.warns(SeedWarning, match="usual"):
            assert radius_for(Seeding(3), solver, Mesh.parse("a=2,b=2,c=2,d=2")) == 3
    for solver in ("ilp", "lp", "exact"):
        assert radius_for(Seeding(2), solver, cube) is None
    for wrong in (-1, 1.5, "2", True):
        with pytest.raises(OptionError, match="seed_radius"):
            Seeding(wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="seed_mode"):
        Seeding(2, "sometimes")


def test_a_radius_that_restricts_nothing_is_refused_before_anything_is_traced() -> None:
    with pytest.raises(OptionError, match="restricts nothing"):
        run_search(
            zoo.build("mlp", layers=1), None, "a=2,b=2,c=2", seed_radius=3, progress=lambda phase: pytest.fail(phase)
        )


def found_by(**settings: Any) -> SearchResult:
    return run_search(zoo.build("mlp", layers=1), None, "a=2,b=2,c=2", **settings)


def test_the_result_tells_what_was_searched_and_what_that_proves() -> None:
    near, whole = found_by(seed_radius=1, seed_bound="trws"), found_by(seed_radius=0)
    report = near.seeding
    assert whole.seeding is None
    assert whole.result.termination.reason is Reason.OPTIMAL
    assert report is not None
    assert report.ball is not None
    assert (report.mode, report.radius, report.asked) == ("restrict", 1, 1)
    assert report.objective is not None
    assert near.result.objective is not None
    assert whole.result.objective is not None
    assert report.objective >= near.result.objective >= whole.result.objective
    assert report.ball.objective == near.result.objective
    assert report.ball.bound == pytest.approx(near.result.objective, rel=1e-9)
    assert near.result.bound == pytest.approx(whole.result.objective, rel=1e-9)
    assert 0 < report.coverage < 1
    assert report.labels == len(near.problem.unary) < len(whole.problem.unary)
    assert set(report.dimensions) == {"a", "b", "c"}
    assert {"seed", "restrict", "bound"} <= set(near.timings)
    assert not {"seed", "restrict", "bound"} & set(whole.timings)
    assert near.plan is not None
    assert near.plan.bound == near.result.bound
    assert near.plan.settings.seeding is not None
    assert near.plan.settings.seeding["ball"]["objective"] == near.result.objective
    told = sum(cpu for name, (cpu, _) in near.timings.items() if name != "total")
    assert told <= near.timings["total"][0] * 1.01 + 0.01


def test_a_cheap_bound_is_there_without_asking() -> None:
    near = found_by(seed_radius=1)
    assert near.result.objective is not None
    assert 0 < near.result.bound < near.result.objective
    assert near.result.termination.reason is Reason.FEASIBLE


def test_a_seed_may_only_be_where_the_search_begins() -> None:
    warm, whole = found_by(seed_mode="warm"), found_by(seed_radius=None)
    assert warm.seeding is not None
    assert warm.seeding.radius is None
    assert warm.seeding.ball is None
    assert warm.result.termination.reason is Reason.OPTIMAL
    assert warm.result.objective == pytest.approx(whole.result.objective, rel=1e-12)


def test_other_solvers_and_smaller_meshes_are_left_alone() -> None:
    assert found_by(solver="ilp").seeding is None
    assert found_by(solver="ilp").result.termination.reason is Reason.OPTIMAL
    assert run_search(zoo.build("mlp", layers=1), None, "a=2,b=2").seeding is None


def test_demands_that_no_single_dimension_can_meet_are_searched_without_a_seed() -> None:
    """The demanded memory is possible on the whole mesh only; what cannot be met at all is told as ever."""
    tight = found_by(constraints=Constraints(parameter_memory=(0, 1 / 8)))
    assert tight.result.objective is not None
    never = found_by(constraints=Constraints(parameter_memory=(0, 0.01)))
    assert never.result.termination.reason is Reason.INFEASIBLE
