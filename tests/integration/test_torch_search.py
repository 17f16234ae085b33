"""The search with every solver, in any order, and the limits of what it may use."""

from __future__ import annotations

from typing import Any

import pytest

from berthage import Reason, SolutionUnavailableError, SolveParams, UnknownNameError, evaluate, solve
from berthage_torch import Constraints, run_search, search
from berthage_torch.models import zoo


def test_every_solver_finds_the_same_optimum() -> None:
    found = run_search(zoo.build("llama3-1b", layers=2), None, "dp=8,tp=8", solver="ilp")
    exact = found.result.objective
    assert exact is not None
    assert found.plan is not None
    assert found.plan.compute_us + found.plan.communication_us == pytest.approx(exact, rel=1e-9)
    for name in ("trws", "lp"):
        result = solve(found.problem, name)
        assert result.termination.reason is Reason.OPTIMAL, name
        assert result.objective == pytest.approx(exact, rel=1e-9)
        assert evaluate(found.problem, result.require()).violations == ()


def test_approx_is_a_name_for_trws() -> None:
    assert search(zoo.build("mlp", layers=1), None, "x=2", solver="approx").solver in ("trws", "trws-lazy")


def test_what_tying_costs_is_told_when_asked() -> None:
    spec = zoo.build("gpt2", layers=2, batch=8, sequence=64, dim=64, heads=4)
    found = run_search(spec, None, "dp=2,tp=2", report_tying=True)
    assert found.untied is not None
    assert found.result.objective is not None
    assert found.untied.bound <= found.result.objective
    assert found.untied.objective == run_search(spec, None, "dp=2,tp=2", tie="none").result.objective
    assert run_search(spec, None, "dp=2,tp=2").untied is None


def test_demands_may_be_made_once_the_graph_is_there() -> None:
    def demands(graph: Any, mesh: Any) -> Constraints:
        assert mesh.names == ("x",)
        return Constraints(pins={fqn: "S(0)" for fqn in graph.parameters if fqn.endswith("up.weight")})

    found = run_search(zoo.build("mlp"), None, "x=2", constraints=demands)
    assert found.plan is not None
    assert dict(found.constraints.pins) == {"layers.0.up.weight": "S(0)", "layers.1.up.weight": "S(0)"}
    assert found.plan.node("layers.1.up.weight").outputs == ("S(0)",)


def test_phases_are_told_and_timed() -> None:
    told: list[str] = []
    found = run_search(zoo.build("mlp", layers=1), None, "x=2", progress=told.append)
    assert told == ["trace", "problem", "search", "plan"]
    timed = {"trace", "enumerate", "price", "build", "presolve", "solve", "plan", "total"}
    assert timed <= set(found.timings)
    cpu = {name: seconds for name, (seconds, _) in found.timings.items()}
    assert 0 < sum(cpu[name] for name in timed - {"total"}) <= cpu["total"] * 1.01 + 0.01


def test_no_plan_is_no_plan() -> None:
    with pytest.raises(SolutionUnavailableError, match="parameter memory"):
        search(zoo.build("mlp"), None, "x=2", constraints=Constraints(parameter_memory=(0, 0.1)))
    with pytest.raises(UnknownNameError, match="no solver"):
        search(zoo.build("mlp"), None, "x=2", solver="nobody")


def test_a_limit_leaves_a_valid_bound() -> None:
    spec = zoo.build("llama3-1b", layers=1)
    best = run_search(spec, None, "a=2,b=2").result
    rushed = run_search(spec, None, "a=2,b=2", params=SolveParams(iteration_limit=1)).result
    assert best.objective is not None
    assert rushed.bound <= best.objective * (1 + 1e-12)


LARGE = {
    "llama3-1b": ("llama3-1b", "dp=8,tp=8"),
    "llama3-8b": ("llama3-8b", "dp=8,tp=8"),
    "dsv3": ("dsv3", "dp=8,ep=8"),
    "dsv3 on four dimensions": ("dsv3", "dp_replicate=8,dp_shard=8,cp=1,ep=8"),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", LARGE)
def test_large_models_are_proved_and_their_plans_add_up(model: str) -> None:
    name, mesh = LARGE[model]
    found = run_search(zoo.build(name), None, mesh, seed_radius=0)
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.plan is not None
    total = found.plan.compute_us + found.plan.communication_us
    assert total == pytest.approx(found.plan.objective, rel=1e-9)
    assert evaluate(found.problem, found.result.require()).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["llama3-1b", "llama3-8b", "dsv3"])
@pytest.mark.parametrize("solver", ["lp", "ilp"])
def test_solvers_agree_on_the_large_models(model: str, solver: str) -> None:
    name, mesh = LARGE[model]
    spec = zoo.build(name)
    quick, other = (run_search(spec, None, mesh, solver=each).result for each in ("trws", solver))
    assert other.objective == pytest.approx(quick.objective, rel=1e-9)


@pytest.mark.slow
def test_three_dimensions_of_four() -> None:
    found = run_search(zoo.build("llama3-1b", layers=1), None, "a=4,b=4,c=4", seed_radius=0)
    assert found.result.termination.reason is Reason.OPTIMAL
    assert found.plan is not None
    assert found.plan.compute_us + found.plan.communication_us == pytest.approx(found.plan.objective, rel=1e-9)
