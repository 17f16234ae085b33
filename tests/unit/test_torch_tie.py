"""Groups that a person ties: what they may be, and that their price is that of the plan they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest
import torch
from torch import nn

from berthage import OptionError, evaluate, load_registry, solve
from berthage_nccl import Mesh
from berthage_torch import BuiltProblem, Constraints, Pricer, build_problem, trace
from berthage_torch.graph import OpGraph
from berthage_torch.searching.run import cost_model_of

UPS = ("layers.0.weight", "layers.1.weight", "layers.2.weight")
PRODUCTS = ("layers.0/mm", "layers.1/mm", "layers.2/mm")


class Stack(nn.Module):
    """Layers of one width, each used by the next."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(3))
        self.head = nn.Linear(512, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def step() -> tuple[OpGraph, Pricer]:
    with torch.device("meta"):
        model = Stack()
    graph = trace(model, (torch.zeros(256, 512),))
    return graph, Pricer(Mesh.parse("x=4"), cost_model_of("nccl-h100", load_registry()))


Groups = Iterable[str | Iterable[str]]


def built(step: tuple[OpGraph, Pricer], tie: str | Groups) -> BuiltProblem:
    return build_problem(*step, Constraints(inputs={"*": "S(0)"}), tie=tie)


def expanded(tied: BuiltProblem, untied: BuiltProblem, x: np.ndarray) -> np.ndarray:
    y = np.full(untied.problem.num_variables, -1, dtype=np.int32)
    y[untied.variable] = x[tied.variable]
    for (node, output), alias in untied.aliases.items():
        shared = tied.aliases[int(tied.groups[node]), output]
        y[alias.variable] = np.flatnonzero((alias.placements == shared.placements[x[shared.variable]]).all(axis=1))[0]
    return y


@pytest.mark.parametrize(
    "tie",
    [
        ["layers.*.weight"],
        [UPS],
        [UPS, PRODUCTS],
        [PRODUCTS[:2], ("layers.0/backward.mm", "layers.1/backward.mm")],
        ["layers.?/mm", "layers.?/t"],
    ],
)
def test_the_price_is_that_of_the_untied_plan(step: tuple[OpGraph, Pricer], tie: Groups) -> None:
    tied, untied = built(step, tie), built(step, "none")
    assert tied.problem.num_variables < untied.problem.num_variables
    result = solve(tied.problem, "ilp")
    whole = evaluate(untied.problem, expanded(tied, untied, result.require()))
    assert whole.violations == ()
    assert result.objective is not None
    assert whole.objective == pytest.approx(result.objective, rel=1e-9)
    best = solve(untied.problem, "ilp").objective
    assert best is not None
    assert best <= result.objective * (1 + 1e-9)


def test_members_of_a_group_share_a_variable_and_others_do_not(step: tuple[OpGraph, Pricer]) -> None:
    tied = built(step, [PRODUCTS])
    index: Mapping[str, int] = {node.name: node.index for node in tied.graph.nodes}
    assert len({int(tied.variable[index[name]]) for name in PRODUCTS}) == 1
    assert len({int(tied.variable[index[name]]) for name in UPS}) == 3


@pytest.mark.parametrize(
    ("tie", "message"),
    [
        (["layers.9.*"], r"tie group 'layers\.9\.\*': no node or parameter is named 'layers\.9\.\*'"),
        ([("head.weight",)], "it is 'head.weight' alone"),
        ([UPS, ("layers.2.weight", "layers.0.weight")], r"'layers\.0\.weight' is in tie group .* already"),
        ([("layers.0.weight", "head.weight")], "do not have the same strategies"),
        ([("layers.0/mm", "layers.1/t")], "do not have the same strategies"),
        ("layer", "groups of nodes, not 'layer'"),
    ],
)
def test_a_group_that_cannot_be_is_named(step: tuple[OpGraph, Pricer], tie: str | Groups, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        built(step, tie)
