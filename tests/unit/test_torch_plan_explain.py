"""What placing a node otherwise would cost: alone, downstream, and against the best other plan."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from berthage import InvalidProblemError, evaluate, solve
from berthage_torch import Constraints, Explanation, Origin, Plan, SearchResult, run_search
from berthage_torch.models import zoo

MESH = "dp=2,tp=2"
WEIGHT = "layers.0.up.weight"


@pytest.fixture(scope="module")
def found() -> SearchResult:
    demands = Constraints(inputs={"*": "S(0)R"}, outputs={"*": "S(0)R"})
    return run_search(zoo.build("mlp", layers=2, batch=4096), None, MESH, constraints=demands)


@pytest.fixture(scope="module")
def plan(found: SearchResult) -> Plan:
    assert found.plan is not None
    return found.plan


@pytest.fixture(scope="module")
def told(found: SearchResult, plan: Plan) -> Explanation:
    return plan.explain(WEIGHT, against=("RR", "S(1)S(0)"), problem=found)


def test_what_the_plan_says_needs_no_problem(plan: Plan) -> None:
    told = plan.explain(WEIGHT, runner_up=False)
    assert told.node is plan.node(WEIGHT)
    assert told.strategy == told.node.outputs[0]
    assert told.copies == 2
    assert told.outgoing == tuple(edge for edge in plan.edges if edge.producer == WEIGHT)
    assert (told.choices, told.runner_up, told.against) == (None, None, ())
    user = plan.explain(next(edge.consumer for edge in told.outgoing if edge.consumer), runner_up=False)
    assert [edge.position for edge in user.arguments] == list(range(len(user.node.inputs)))
    assert {edge.producer for edge in user.shared} <= {edge.producer for edge in user.arguments}


def test_downstream_is_what_a_pinned_search_finds(found: SearchResult, plan: Plan, told: Explanation) -> None:
    assert [other.asked for other in told.against] == ["RR", "S(1)S(0)"]
    for other in told.against:
        pinned = dataclasses.replace(found.constraints, pins={WEIGHT: other.asked})
        again = run_search(zoo.build("mlp", layers=2, batch=4096), None, MESH, constraints=pinned).plan
        assert again is not None
        assert other.plan is not None
        assert other.downstream_us == pytest.approx(again.objective - plan.objective, abs=1e-6)
        assert other.plan.node(WEIGHT).outputs == (other.asked,)
        assert other.plan.objective == pytest.approx(math.fsum(row.us for row in other.plan.costs()), rel=1e-9)


def test_alone_keeps_everything_else(found: SearchResult, plan: Plan, told: Explanation) -> None:
    problem, x = found.problem, np.array(found.result.require())
    variable = problem.variable_index(WEIGHT)
    for other in told.against:
        x[variable] = problem.labels(variable).index(other.alone_strategy)
        changed = evaluate(problem, x)
        assert other.alone_us == pytest.approx(changed.objective - plan.objective, abs=1e-6)
        assert set(other.broken) == {violation.name for violation in changed.violations}
        if not other.broken:
            assert other.downstream_us is not None
            assert other.downstream_us <= other.alone_us + 1e-6


def test_the_runner_up_is_the_best_of_all_other_strategies(found: SearchResult, plan: Plan) -> None:
    name = "layers.0.up/t"
    told = plan.explain(name, problem=found)
    assert told.runner_up is not None
    problem = found.problem
    variable = int(found.built.variable[found.built.graph.by_name[name].index])
    assert told.choices == problem.num_labels[variable]
    chosen = int(found.result.require()[variable])
    best = math.inf
    for label in range(told.choices):
        if label != chosen:
            only = solve(problem.restrict({variable: [label]}).problem, "trws")
            best = min(best, math.inf if only.objective is None else float(only.objective))
    assert told.runner_up.downstream_us == pytest.approx(best - plan.objective, rel=1e-9, abs=1e-6)
    assert told.runner_up.strategy != told.strategy


def test_changes_are_those_of_other_nodes(plan: Plan, told: Explanation) -> None:
    group = plan.node(WEIGHT).group
    for other in told.against:
        assert other.plan is not None
        moved = {change.name for change in plan.diff(other.plan).placed_elsewhere}
        own = {node.name for node in plan.nodes if node.group == group}
        assert {change.name for change in other.changes} == moved - own


def test_a_whole_strategy_can_be_asked_about(found: SearchResult, plan: Plan) -> None:
    name = plan.explain(WEIGHT, runner_up=False).outgoing[0].consumer or "layers.0.up/t"
    space = found.built.strategies[found.built.graph.by_name[name].index]
    asked = space.name(len(space) - 1)
    (other,) = plan.explain(name, against=asked, runner_up=False, problem=found).against
    assert other.alone_strategy == asked
    with pytest.raises(InvalidProblemError, match=r"cannot be placed 'RR -> PP'; it can be"):
        plan.explain(name, against="RR -> PP", problem=found)


def test_a_node_without_outputs_is_asked_about_by_its_argument(found: SearchResult, plan: Plan) -> None:
    (other,) = plan.explain("output", against="RR", runner_up=False, problem=found).against
    assert other.downstream_us is None
    assert "output" in other.broken[0]
    assert "output output" in other.reason


def test_what_demands_forbid_has_no_plan_and_says_why(plan: Plan) -> None:
    spec = zoo.build("mlp", layers=2, batch=4096)
    found = run_search(spec, None, MESH)
    assert found.plan is not None
    (other,) = found.plan.explain(WEIGHT, against="RR", runner_up=False, problem=found).against
    assert other.plan is other.downstream_us is None
    assert "parameter memory" in other.broken
    assert other.reason


def test_the_problem_is_made_again_from_a_file(told: Explanation, plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json").explain(WEIGHT, against=("RR", "S(1)S(0)"))
    assert [other.downstream_us for other in again.against] == [other.downstream_us for other in told.against]
    assert [other.alone_us for other in again.against] == [other.alone_us for other in told.against]
    assert again.runner_up is not None
    assert told.runner_up is not None
    assert again.runner_up.strategy == told.runner_up.strategy


def test_without_a_choice_there_is_no_runner_up() -> None:
    found = run_search(zoo.build("mlp", layers=1, dim=64, hidden=64, batch=64), None, "dp=1")
    assert found.plan is not None
    told = found.plan.explain(WEIGHT, problem=found)
    assert (told.choices, told.runner_up) == (1, None)


def test_copies_follow_where_memory_over_time_is_limited(found: SearchResult, told: Explanation) -> None:
    """With a limit that nothing reaches, the copies that are variables of their own change no answer."""
    roomy = dataclasses.replace(found.constraints, peak_memory=1e15)
    limited = run_search(zoo.build("mlp", layers=2, batch=4096), None, MESH, constraints=roomy)
    assert limited.problem.num_variables > found.problem.num_variables
    assert limited.plan is not None
    again = limited.plan.explain(WEIGHT, against=("RR", "S(1)S(0)"), problem=limited)
    for other, before in zip((again.runner_up, *again.against), (told.runner_up, *told.against), strict=True):
        assert other is not None
        assert before is not None
        assert other.downstream_us == pytest.approx(before.downstream_us, abs=1e-6)
        assert other.alone_us == pytest.approx(before.alone_us, abs=1e-6)
        assert other.broken == before.broken


class Small(nn.Module):
    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(x))


def test_a_model_that_was_handed_over_must_be_handed_over_again() -> None:
    plan = run_search(Small(torch.relu), torch.zeros(64, 64), MESH).plan
    assert plan is not None
    with pytest.raises(InvalidProblemError, match=r"does not say how its model Small is made.*model=…, inputs=…"):
        plan.explain("linear.weight")
    told = plan.explain("linear.weight", model=Small(torch.relu), inputs=torch.zeros(64, 64))
    assert told.runner_up is not None
    with pytest.raises(InvalidProblemError, match="inputs=…"):
        plan.explain("linear.weight", model=Small(torch.relu))
    with pytest.raises(InvalidProblemError, match=r"not the one that the plan is of \(Small\).*new.*gone"):
        plan.explain("linear.weight", model=Small(torch.sin), inputs=torch.zeros(64, 64))


def test_code_that_a_plan_names_is_not_run(plan: Plan, tmp_path: Path) -> None:
    trap = dataclasses.replace(plan.settings, origin=Origin("os:mkdir", {"path": str(tmp_path / "made")}))
    with pytest.raises(InvalidProblemError, match=r"run only when you name it too: --model os:mkdir"):
        dataclasses.replace(plan, settings=trap).explain(WEIGHT)
    assert list(tmp_path.iterdir()) == []


def test_the_problem_of_another_plan_is_refused(plan: Plan) -> None:
    for sizes, mesh, cost_model, message in (
        ({"batch": 512}, MESH, "nccl-h100", "at other shapes"),
        ({"batch": 4096}, "dp=4", "nccl-h100", "the plan for"),
        ({"batch": 4096}, MESH, "nccl-a100", "another cost model"),
    ):
        other = run_search(zoo.build("mlp", layers=2, **sizes), None, mesh, cost_model=cost_model)
        with pytest.raises(InvalidProblemError, match=message):
            plan.explain(WEIGHT, problem=other)


def test_a_cost_model_that_changed_is_named(plan: Plan) -> None:
    changed = dataclasses.replace(plan, cost_model=("nccl-h100", "other"))
    with pytest.raises(InvalidProblemError, match="'nccl-h100' has other content than when the plan was made"):
        changed.explain(WEIGHT)
    absent = dataclasses.replace(
        plan, cost_model=("mine", "x"), settings=dataclasses.replace(plan.settings, cost_model="absent/mine.toml")
    )
    with pytest.raises(InvalidProblemError, match=r"'absent/mine\.toml', is not here"):
        absent.explain(WEIGHT)
