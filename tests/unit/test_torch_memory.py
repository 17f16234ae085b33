"""Memory over time: known timelines, the budget that limits it, and that tying does not change it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from berthage import InvalidProblemError, Reason, evaluate
from berthage_torch import (
    BuiltProblem,
    Constraints,
    PeakMemory,
    SearchResult,
    build_problem,
    memory_of,
    run_search,
)
from berthage_torch.models import zoo

MIB = 2**20
MODELS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "mlp": ("mlp", {"layers": 3, "batch": 4096}, "dp=2,tp=2"),
    "llama3": ("llama3-1b", {"layers": 2}, "dp=8,tp=8"),
    "gpt2": ("gpt2", {"layers": 2, "batch": 8, "sequence": 64, "dim": 64, "heads": 4}, "dp=2,tp=2"),
    "dsv3-tiny": ("dsv3-tiny", {"layers": 2, "batch": 8, "sequence": 64}, "dp=2,ep=2"),
}


def peak_use(found: SearchResult) -> int | float:
    assert found.result.evaluation is not None
    return {use.name: use.used for use in found.result.evaluation.budget_use}["peak memory"]


def timeline_of(found: SearchResult, optimizer: str | float = "adamw") -> Any:
    assert found.plan is not None
    return memory_of(found.plan, found.built.graph, optimizer=optimizer)


class Two(nn.Module):
    """Two products with a view between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(512, 1024, bias=False), nn.Linear(512, 256, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)  # [1024, 1024]: 4 MiB
        return self.down(h.view(2048, 512))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def found() -> SearchResult:
    """A small step on one rank."""
    return run_search(Two(), (torch.zeros(1024, 512),), "x=1")


class TestOneRank:
    """On one rank everything can be counted by hand."""

    def test_parameters_state_and_inputs_are_there_all_the_time(self, found: SearchResult) -> None:
        line = timeline_of(found)
        assert set(line.by_kind["parameters"].tolist()) == {int(2.5 * MIB)}
        assert set(line.by_kind["optimizer"].tolist()) == {5 * MIB}
        assert set(line.by_kind["inputs"].tolist()) == {2 * MIB}
        assert set(timeline_of(found, "sgd").by_kind["optimizer"].tolist()) == {0}
        assert set(timeline_of(found, 2).by_kind["optimizer"].tolist()) == {int(1.25 * MIB)}

    def test_gradients_stay_once_they_are_there(self, found: SearchResult) -> None:
        gradients = timeline_of(found).by_kind["gradients"]
        assert (np.diff(gradients) >= 0).all()
        assert gradients[0] == 0
        assert gradients[-1] == int(2.5 * MIB)
        assert timeline_of(found).peak_of("parameters", "gradients") == 5 * MIB

    def test_an_activation_lives_to_its_last_user_through_views_and_is_counted_once(self, found: SearchResult) -> None:
        line = timeline_of(found)
        index = {name: i for i, name in enumerate(line.nodes)}
        made = index["up/mm"]
        read = max(edge.consumer for edge in found.built.graph.edges() if edge.producer == index["view"])
        h = [bytes_ for name, kind, _, bytes_ in (dataclasses.astuple(x) for x in line.live(made)) if name == "up/mm"]
        assert h == [4 * MIB]
        # The weight gradient of `down` reads the view of it, in the backward pass.
        last = max(start for start in range(len(line.nodes)) if holds(line, start, "up/mm"))
        assert line.nodes[last].startswith(("down/backward", "gradient"))
        assert last >= read

    def test_the_whole_is_the_sum_of_what_is_live(self, found: SearchResult) -> None:
        line = timeline_of(found)
        for instant in range(len(line.nodes)):
            assert sum(held.bytes for held in line.live(instant)) == line.total[instant]
        assert line.peak == line.total[line.instant] == sum(held.bytes for held in line.live())

    def test_another_graph_is_refused(self, found: SearchResult) -> None:
        other = run_search(zoo.build("mlp", layers=1), None, "x=1")
        assert found.plan is not None
        with pytest.raises(InvalidProblemError, match="made for another step"):
            memory_of(found.plan, other.built.graph)
        with pytest.raises(InvalidProblemError, match="nothing held is called 'weights'"):
            timeline_of(found).peak_of("weights")


def holds(line: Any, instant: int, name: str) -> bool:
    """Whether memory that ``name`` made is there: as itself, or as the view that took it over."""
    return any(held.name in (name, "view") for held in line.live(instant))


@pytest.mark.parametrize(("model", "share"), [("mlp", 0.97), ("mlp", 2.0), ("llama3", 2.0), ("dsv3-tiny", 2.0)])
def test_what_the_budget_counts_is_the_timeline_of_the_plan(model: str, share: float) -> None:
    """Copies of a layer share a variable in the problem; the plan has them all."""
    name, sizes, mesh = MODELS[model]
    spec = zoo.build(name, **sizes)
    free = run_search(spec, None, mesh)
    limit = int(timeline_of(free).peak * share)
    limited = run_search(spec, None, mesh, constraints=free.constraints.with_(peak_memory=limit))
    assert limited.plan is not None
    assert timeline_of(limited).peak == peak_use(limited) <= limit
    assert math.fsum((limited.plan.compute_us, limited.plan.communication_us)) == pytest.approx(
        limited.plan.objective, rel=1e-9
    )
    if share > 1.0:  # what does not bind changes nothing
        assert limited.result.objective == pytest.approx(free.result.objective, rel=1e-9)
        assert limited.result.termination.reason is Reason.OPTIMAL
    else:
        assert limited.plan.objective > free.result.bound


def expanded(tied: BuiltProblem, untied: BuiltProblem, x: Any) -> list[int]:
    """The assignment of the untied problem in which every node, move and shared copy does what its group's does."""
    nodes = tied.graph.nodes
    first: dict[str, str] = {node.name: nodes[tied.groups[node.index]].name for node in nodes}
    known = {name: v for v, name in enumerate(tied.problem.variable_names)}

    def same(name: str) -> str:
        if name in first:
            return first[name]
        if name.endswith(" shared") and " to " not in name:
            node, dot, output = name.removesuffix(" shared"), "", ""
            if node not in first:
                node, dot, output = node.rpartition(".")
            return f"{first[node]}{dot}{output} shared"
        start, _, rest = name.partition(" to ")
        end, _, place = rest.partition(" ")
        return f"{first[start]} to {first[end]} {place}"

    found = []
    for v, name in enumerate(untied.problem.variable_names):
        u = known[same(name)]
        label = tied.problem.label_name(u, int(x[u]))
        found.append([untied.problem.label_name(v, i) for i in range(untied.problem.num_labels[v])].index(label))
    return found


@pytest.mark.parametrize("model", ["mlp", "gpt2"])
def test_the_peak_of_the_tied_problem_is_that_of_the_plan_on_the_untied_graph(model: str) -> None:
    name, sizes, mesh = MODELS[model]
    tied = run_search(zoo.build(name, **sizes), None, mesh, constraints=Constraints(peak_memory=2.0**40))
    built = tied.built
    untied = build_problem(built.graph, built.pricer, tied.constraints, tie="none")
    assert untied.problem.num_variables > tied.problem.num_variables
    whole = evaluate(untied.problem, np.array(expanded(built, untied, tied.result.require()), dtype=np.int32))
    assert whole.violations == ()
    assert whole.objective == pytest.approx(tied.result.objective, rel=1e-9)
    (use,) = whole.budget_use
    assert use.used == peak_use(tied) == timeline_of(tied).peak


@pytest.mark.parametrize("limit", [1.5, 0, -1, math.nan, math.inf, "40MiB", None])
def test_a_limit_is_bytes_or_a_share(limit: object) -> None:
    with pytest.raises(InvalidProblemError, match="number of bytes or a share up to 1"):
        PeakMemory(limit)  # type: ignore[arg-type]


class TestLimits:
    def search(self, peak: Any, layers: int = 2, **more: Any) -> SearchResult:
        spec = zoo.build("mlp", layers=layers, batch=8192, bias=False)
        demands = Constraints(inputs={"*": "S(0)"}, outputs={"*": "S(0)"}, peak_memory=peak).with_(**more)
        return run_search(spec, None, "dp=4", constraints=demands)

    def test_less_memory_costs_time_and_the_limit_holds(self) -> None:
        free = self.search(2**40)
        whole = peak_use(free)
        tight = self.search(0.95 * whole)
        assert free.result.objective is not None
        assert tight.result.objective is not None
        assert tight.result.objective > free.result.objective
        assert peak_use(tight) <= 0.95 * whole
        assert timeline_of(tight).peak == peak_use(tight)

    def test_a_share_is_of_the_device(self) -> None:
        found = self.search(0.5)
        (budget,) = found.problem.interval_budgets
        assert budget.name == "peak memory"
        assert budget.limit == 40 * 2**30  # half of an H100

    def test_what_cannot_be_met_is_told_with_the_least_that_can(self) -> None:
        """Parameters pinned to replicas do not fit; the least limit that is told does."""
        pins = {"layers.*.weight": "R"}
        found = self.search(110 * MIB, 1, pins=pins)
        assert self.search(110 * MIB, 1).plan is not None
        why = found.result.infeasibility
        assert found.plan is None
        assert why is not None
        assert why.constraints[0] == "peak memory"
        assert {name for name in why.constraints if name.startswith("pin ")}
        told = re.search(r"'peak memory' (?:that can be met is|can be met with) (\d+)", why.detail)
        assert told is not None
        assert self.search(int(told[1]), 1, pins=pins).plan is not None
        assert why.least_limit is not None
        assert why.least_limit <= int(told[1])

    def test_the_budget_can_be_taken_away_by_its_name(self) -> None:
        found = self.search(2**40)
        rest = found.problem.without("peak memory").problem
        assert not rest.has_budgets

    def test_a_price_lets_the_peak_pass_the_limit(self) -> None:
        free = self.search(2**40)
        limit = 0.95 * peak_use(free)
        cheap, dear = (self.search(PeakMemory(limit, price=price)) for price in (1e-12, 1.0))
        assert cheap.plan is not None
        assert free.plan is not None
        assert cheap.plan.objective == pytest.approx(free.plan.objective, rel=1e-6)
        assert peak_use(cheap) > limit
        assert peak_use(dear) <= limit
