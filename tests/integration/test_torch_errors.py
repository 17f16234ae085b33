"""What searches for placements have got wrong before, and the tests that this one does not.

The kinds are those known of systems of this sort; a kind may be covered by tests anywhere, which `KINDS` names.
"""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from berthage import Limit, PlacementProblem, Reason, SolveResult, UnknownNameError, evaluate, load_registry, solve
from berthage_nccl import Mesh, cost_model
from berthage_torch import Constraints, Pricer, SearchResult, build_problem, run_search, trace
from berthage_torch.models import zoo

TESTS = Path(__file__).resolve().parents[1]
HERE = "integration/test_torch_errors.py"

KINDS: dict[int, tuple[str, tuple[str, ...]]] = {
    1: (
        "what was remembered of one mesh was used for another",
        (
            "integration/test_torch_determinism.py::test_meshes_in_any_order_hash_seeds_and_threads_give_one_plan",
            "unit/test_torch_strategies.py::test_equal_operations_share_their_strategies_and_meshes_do_not_meet",
            "unit/test_torch_price.py::test_prices_of_one_mesh_do_not_depend_on_another",
            "unit/test_nccl_redistribute.py::test_two_meshes_in_either_order",
        ),
    ),
    2: (
        "the second use of a tensor by one operation was a decision of its own",
        (
            f"{HERE}::test_every_solver_scores_two_uses_of_one_tensor_alike",
            "unit/test_torch_building.py::test_a_tensor_used_twice_is_one_decision_and_moved_once",
            "unit/test_torch_trace.py::test_a_producer_used_twice_gives_two_edges",
        ),
    ),
    3: (
        "a finite cost meant that something is forbidden",
        (f"{HERE}::test_a_move_of_more_than_ten_milliseconds_is_allowed",),
    ),
    4: (
        "memory was a sum of shares in which a norm's weight counted like an embedding",
        (
            f"{HERE}::test_memory_counts_bytes_and_not_parameters",
            "unit/test_torch_building.py::TestDemands::test_memory_is_counted_in_bytes",
        ),
    ),
    5: (
        "a demand that was taken away came back with a file, or in a solver",
        (
            "unit/test_torch_constraints.py::test_a_demand_added_taken_away_saved_and_loaded_was_never_there",
            "unit/test_torch_building.py::TestDemands::test_a_constraint_can_be_taken_away_by_its_name",
        ),
    ),
    6: (
        "a pin that memory cannot bear was infeasible without a word why",
        (
            "unit/test_torch_building.py::TestDemands::test_a_pin_that_memory_cannot_bear_is_named_with_it",
            "unit/test_torch_memory.py::TestLimits::test_what_cannot_be_met_is_told_with_the_least_that_can",
            "unit/test_least_limit.py::test_it_is_the_one_that_works_with_everything_else",
        ),
    ),
    7: (
        "how good an answer was depended on the clock",
        (f"{HERE}::test_a_clock_that_runs_faster_changes_nothing",),
    ),
    8: (
        "meshes that do not divide the node got a wrong fabric; devices were known by a part of their name",
        (
            "unit/test_nccl_mesh.py::test_the_fabric_of_a_mesh",
            f"{HERE}::test_a_device_is_known_by_its_whole_name",
            f"{HERE}::test_meshes_of_odd_sizes",
        ),
    ),
    9: (
        "mesh dimensions that were decided one by one all chose data parallelism",
        (
            "unit/test_torch_building.py::test_wide_layers_and_few_tokens_make_tensor_parallelism",
            "integration/test_split_search.py"
            "::test_dimensions_decoupled_choose_data_parallelism_and_a_radius_recovers_the_joint_optimum",
            "integration/test_split_search.py::test_radius_zero_is_not_called_optimal_for_the_whole",
        ),
    ),
    10: (
        "gradients of a region had the placements of its arguments",
        (
            "unit/test_torch_trace.py::test_gradients_of_replicated_inputs_of_a_region_are_partial_sums",
            "unit/test_torch_trace.py::test_the_rule_for_gradients",
            "unit/test_torch_apply.py::test_gradients_of_experts",
        ),
    ),
    11: (
        "different redistributions had one price",
        (
            "properties/test_nccl_properties.py::test_order_between_redistributions",
            "unit/test_nccl_redistribute.py::test_the_inner_shard_is_gathered_first",
            "unit/test_nccl_redistribute.py::test_a_shard_is_changed_by_all_to_all_not_by_gathering",
        ),
    ),
    12: (
        "uneven shards were dropped, operations without a rule ended the search, meshes of one rank crashed",
        (
            "unit/test_torch_building.py::test_uneven_shards_are_kept_and_priced",
            "unit/test_torch_building.py::test_an_operation_without_a_rule_is_replicated_and_said_so",
            "unit/test_torch_building.py::test_dimensions_of_one_rank_cost_nothing",
            "unit/test_torch_left_out.py::test_views_that_cannot_split_a_head_are_told",
            f"{HERE}::test_meshes_of_one_rank_and_a_vocabulary_that_does_not_divide",
        ),
    ),
    13: (
        "a plan used at other shapes kept its costs",
        ("unit/test_torch_plan_reprice.py::test_saved_at_2048_and_loaded_at_512",),
    ),
    14: (
        "edges between copies of layers were neither priced nor constrained",
        (
            "unit/test_torch_folding.py::test_every_real_edge_is_priced_though_layers_are_tied",
            "unit/test_torch_folding.py::test_every_real_edge_of_the_large_models_is_priced",
            "unit/test_torch_tie.py::test_the_price_is_that_of_the_untied_plan",
        ),
    ),
    15: (
        "a fractional relaxation was taken for a plan",
        (
            f"{HERE}::test_a_fractional_relaxation_is_a_bound_and_no_plan",
            "unit/test_torch_autoparallel.py::TestSolvers::test_a_fractional_relaxation_points_to_the_exact_solver",
        ),
    ),
    16: (
        "choices were cut away in the order of their indices",
        (
            f"{HERE}::test_no_strategy_is_cut_away_on_three_mesh_dimensions",
            "integration/test_split_search.py::test_radius_one_on_one_layer_of_a_llama",
        ),
    ),
}


@pytest.mark.parametrize("number", KINDS)
def test_the_tests_of_a_kind_are_there(number: int) -> None:
    assert sorted(KINDS) == list(range(1, 17))
    for name in KINDS[number][1]:
        file, *inner = name.split("::")
        body: list[ast.stmt] = ast.parse((TESTS / file).read_text(encoding="utf-8")).body
        for part in inner:
            found = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part]
            assert found, f"{name} is gone"
            body = found[0].body


class Product(nn.Module):
    """``h @ h``: one tensor is both arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(512, 512, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.proj(x)
        return h @ h


def test_every_solver_scores_two_uses_of_one_tensor_alike() -> None:
    demands = Constraints(inputs={"*": "S(0)R"}, parameter_memory="least")
    found = run_search(Product(), torch.zeros(512, 512), "x=2,y=4", constraints=demands)
    assert found.plan is not None
    assert found.plan.compute_us + found.plan.communication_us == pytest.approx(found.plan.objective, rel=1e-9)
    for name in ("ilp", "lp", "trws"):
        result = solve(found.problem, name)
        assert result.objective == pytest.approx(found.result.objective, rel=1e-9), name
        assert evaluate(found.problem, result.require()).objective == result.objective


def test_a_move_of_more_than_ten_milliseconds_is_allowed() -> None:
    """16 GiB over the network of two nodes take longer than some systems' word for impossible."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4096, 4096, bias=False))
        rows = torch.zeros(2**20, 4096)
    demands = Constraints(inputs={"*": "S(0)"}, outputs={"*": "R"})
    found = run_search(model, rows, "x=16", constraints=demands)
    assert found.plan is not None
    assert found.result.termination.reason is Reason.OPTIMAL
    assert max(edge.us for edge in found.plan.edges) > 10_000


class Normed(nn.Module):
    """One large table and many small weights."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4096, 256)
        self.norms = nn.ModuleList(nn.LayerNorm(256, bias=False) for _ in range(8))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.table(tokens)
        for norm in self.norms:
            h = norm(h)
        return h


@pytest.mark.parametrize(
    ("table", "norms", "share", "possible"),
    [("S(0)", "R", 0.3, True), ("R", "S(0)", 0.4, False)],
)
def test_memory_counts_bytes_and_not_parameters(table: str, norms: str, share: float, possible: bool) -> None:
    """Were every parameter to weigh the same, the first would use 0.92 of all on four ranks, the second 0.33."""
    demands = Constraints(pins={"table.weight": table, "norms.*.weight": norms}, parameter_memory=(0.0, share))
    tokens = torch.zeros(8, 64, dtype=torch.int64)
    found = run_search(Normed(), tokens, "x=4", constraints=demands)
    assert (found.plan is not None) is possible
    if possible:
        assert found.result.evaluation is not None
        (used,) = found.result.evaluation.budget_use
        assert used.used == 4096 * 256 * 4 // 4 + 8 * 256 * 4


def tight(solver: str) -> SearchResult:
    """A budget that binds on two mesh dimensions: the relaxation is fractional, and no bound closes the gap."""
    spec = zoo.build("gpt2", layers=2, batch=8, sequence=64, dim=64, heads=4, vocab=96)
    demands = Constraints(inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"}, parameter_memory=(0.0, 0.4))
    return run_search(spec, None, "dp=2,tp=2", constraints=demands, solver=solver)


def test_a_clock_that_runs_faster_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem: PlacementProblem = tight("trws").problem
    results: list[SolveResult] = [solve(problem, "trws")]
    for name in ("perf_counter", "monotonic", "process_time"):
        clock: Any = getattr(time, name)
        monkeypatch.setattr(time, name, lambda clock=clock: clock() * 1e4)
    results.append(solve(problem, "trws"))
    first, second = results
    assert first.termination.limit is not Limit.TIME
    assert first.require().tolist() == second.require().tolist()
    assert (first.objective, first.bound) == (second.objective, second.bound)
    assert first.termination == second.termination


@pytest.mark.parametrize("name", ["nccl-h1000", "h100-pcie", "my-nccl-h100", "H100", ""])
def test_a_device_is_known_by_its_whole_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="nccl-h100"):
        load_registry().create_cost_model(name)


@pytest.mark.parametrize("mesh", ["dp=3,tp=8", "x=6", "x=12", "a=2,b=2,c=8", "a=4,b=6"])
def test_meshes_of_odd_sizes(mesh: str) -> None:
    demands = Constraints(parameter_memory="least")
    found = run_search(zoo.build("mlp", layers=1), None, mesh, constraints=demands, seed_radius=None)
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.plan is not None
    assert found.plan.compute_us + found.plan.communication_us == pytest.approx(found.plan.objective, rel=1e-9)


@pytest.mark.parametrize("mesh", ["x=1", "x=1,y=1", "x=8,y=1", "x=1,y=8", "x=3,y=8", "x=6", "x=8"])
def test_meshes_of_one_rank_and_a_vocabulary_that_does_not_divide(mesh: str) -> None:
    spec = zoo.build("gpt2", layers=1, batch=24, sequence=32, dim=96, heads=4, vocab=50257)
    sizes = [int(part.split("=")[1]) for part in mesh.split(",")]
    found = run_search(spec, None, mesh, constraints=Constraints(parameter_memory="least"))
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.plan is not None
    moved = [step[1] for edge in found.plan.edges for step in edge.path]
    alone = {name for name, size in found.plan.mesh.items() if size == 1}
    assert not alone & set(moved)
    if max(sizes) == 1:
        assert found.plan.communication_us == 0.0
    else:
        assert "S" in found.plan.node("wte.weight").outputs[0]


def test_a_fractional_relaxation_is_a_bound_and_no_plan() -> None:
    relaxed, exact = tight("lp"), tight("ilp")
    assert relaxed.result.termination.reason is Reason.NOT_INTEGRAL
    assert relaxed.plan is None
    assert "'ilp'" in relaxed.result.termination.detail
    assert exact.result.termination.reason is Reason.OPTIMAL
    assert exact.result.objective is not None
    assert relaxed.result.bound < exact.result.objective * (1 - 1e-6)


def test_no_strategy_is_cut_away_on_three_mesh_dimensions() -> None:
    """A matrix product has six strategies on one mesh dimension, and a tied group has the cube of that."""
    spec = zoo.build("llama3-1b", layers=2)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy)
    built = build_problem(graph, Pricer(Mesh.parse("a=4,b=4,c=4"), cost_model("nccl-h100")))
    sizes = np.array([len(space) for space in built.strategies])
    assert (built.problem.num_labels[built.variable] == sizes).all()
    products = [node.index for node in built.graph.nodes if node.op == "aten.mm.default"]
    assert len(set(built.groups[products].tolist())) < len(products)
    assert sizes[products].max() == 6**3
