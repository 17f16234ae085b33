"""Tying repeated layers: what goes together, and that nothing of the price is lost by it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import nn

from berthage import OptionError, PlacementProblem, evaluate, solve
from berthage.registry import load_registry
from berthage_nccl import Mesh
from berthage_torch import BuiltProblem, Constraints, OpGraph, Pricer, build_problem, trace
from berthage_torch.models import zoo
from berthage_torch.pricing.strategies import StrategySpace
from berthage_torch.searching.folding import fold
from berthage_torch.searching.run import cost_model_of, default_constraints

SMALL: Mapping[str, tuple[str, Mapping[str, int], str]] = {
    "mlp": ("mlp", {"layers": 3}, "dp=8,tp=8"),
    "mlp on two ranks": ("mlp", {"layers": 3, "hidden": 8192, "batch": 64}, "dp=2"),
    "gpt2": ("gpt2", {"layers": 3, "batch": 8, "sequence": 64, "dim": 64, "heads": 4}, "dp=2,tp=2"),
    "llama3": ("llama3-1b", {"layers": 3}, "dp=8,tp=8"),
    "dsv3-tiny": ("dsv3-tiny", {"layers": 3, "batch": 8, "sequence": 64}, "dp=2,ep=2"),
}
LARGE: Mapping[str, tuple[str, Mapping[str, int], str]] = {
    "llama3-8b": ("llama3-8b", {}, "dp=8,tp=8"),
    "dsv3": ("dsv3", {}, "dp=8,ep=8"),
    "gpt2": ("gpt2", {}, "dp=3,tp=8"),
    "llama3 on three dimensions": ("llama3-1b", {"layers": 2}, "dp=4,tp=4,cp=4"),
}


def traced(name: str, sizes: Mapping[str, int], mesh: str) -> tuple[OpGraph, Pricer, Constraints]:
    spec = zoo.build(name, **sizes)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy)
    on = Mesh.parse(mesh)
    return graph, Pricer(on, cost_model_of("nccl-h100", load_registry())), default_constraints(spec, graph, on)


def expand(tied: BuiltProblem, untied: BuiltProblem, x: np.ndarray) -> np.ndarray:
    """The assignment of the untied problem in which every copy does what its group does."""
    y = np.full(untied.problem.num_variables, -1, dtype=np.int32)
    y[untied.variable] = x[tied.variable]
    for (node, output), alias in untied.aliases.items():
        shared = tied.aliases[int(tied.groups[node]), output]
        held = shared.placements[x[shared.variable]]
        (label,) = np.flatnonzero((alias.placements == held).all(axis=1))
        y[alias.variable] = label
    assert (y >= 0).all()
    return y


def optimum(problem: PlacementProblem) -> tuple[float, np.ndarray]:
    result = solve(problem, "trws")
    assert result.objective is not None
    return float(result.objective), result.require()


def check_that_nothing_is_lost(graph: OpGraph, pricer: Pricer, constraints: Constraints) -> None:
    space = StrategySpace(pricer.mesh)
    tied = build_problem(graph, pricer, constraints, space=space)
    untied = build_problem(graph, pricer, constraints, tie="none", space=space)
    assert tied.problem.num_variables < untied.problem.num_variables
    objective, x = optimum(tied.problem)
    whole = evaluate(untied.problem, expand(tied, untied, x))
    assert whole.violations == ()
    assert whole.objective == pytest.approx(objective, rel=1e-9)
    best = solve(untied.problem, "trws")
    assert best.bound <= objective * (1 + 1e-9)  # tying only restricts


@pytest.mark.parametrize("model", SMALL)
def test_every_real_edge_is_priced_though_layers_are_tied(model: str) -> None:
    check_that_nothing_is_lost(*traced(*SMALL[model]))


@pytest.mark.parametrize("model", ["mlp", "gpt2"])
def test_so_it_is_when_nothing_is_demanded(model: str) -> None:
    graph, pricer, _ = traced(*SMALL[model])
    check_that_nothing_is_lost(graph, pricer, Constraints())


@pytest.mark.slow
@pytest.mark.parametrize("model", LARGE)
def test_every_real_edge_of_the_large_models_is_priced(model: str) -> None:
    check_that_nothing_is_lost(*traced(*LARGE[model]))


class Stack(nn.Module):
    """Blocks of the given widths."""

    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) if w == 64 else Bottle(w) for w in widths)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Bottle(nn.Module):
    """Down to a width and up again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(64, width, bias=False), nn.Linear(width, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up: torch.Tensor = self.up(self.down(x))
        return up


def groups_of(model: nn.Module, tie: str = "layers") -> tuple[OpGraph, list[list[str]]]:
    graph = trace(model, (torch.zeros(32, 64),))
    space = StrategySpace(Mesh.parse("x=2"))
    first = fold(graph, [space.of(graph, node) for node in graph.nodes], tie)
    groups: dict[int, list[str]] = {}
    for node, number in zip(graph.nodes, first.tolist(), strict=True):
        groups.setdefault(number, []).append(node.name)
    return graph, list(groups.values())


def test_parameters_and_operations_of_copies_go_together() -> None:
    _, groups = groups_of(Stack(64, 64, 64))
    assert ["layers.0.weight", "layers.1.weight", "layers.2.weight"] in groups
    assert ["layers.0/mm", "layers.1/mm", "layers.2/mm"] in groups
    assert ["gradient:layers.0.weight", "gradient:layers.1.weight", "gradient:layers.2.weight"] in groups


def test_a_group_holds_at_most_one_node_of_a_layer_and_starts_with_its_first() -> None:
    graph, groups = groups_of(Stack(16, 16, 16))
    where = {node.name: node.path for node in graph.nodes}
    index = {node.name: node.index for node in graph.nodes}
    for group in groups:
        assert len({where[name] for name in group if where[name]}) == len([name for name in group if where[name]])
        assert index[group[0]] == min(index[name] for name in group)


def test_layers_of_other_sizes_stay_apart() -> None:
    _, groups = groups_of(Stack(16, 32))
    for name in ("layers.0.up.weight", "layers.0.down/mm", "gradient:layers.0.down.weight"):
        assert [name] in groups


def test_nothing_is_tied_when_not_asked() -> None:
    _, groups = groups_of(Stack(64, 64), "none")
    assert all(len(group) == 1 for group in groups)
    with pytest.raises(OptionError, match="'layers', 'none' or groups of nodes, not 'blocks'"):
        groups_of(Stack(64), "blocks")
