"""The search with ``trws-lazy``: lazy tables, the answer of ``trws``, and few prices asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from berthage import ClassedTable, LazyTable, PlacementProblem, Reason, evaluate, load_registry, read_problem, solve
from berthage.cli.app import app
from berthage.problem import priced
from berthage_nccl import Mesh, cost_model
from berthage_torch import run_search
from berthage_torch.models import zoo
from berthage_torch.pricing.pricer import Pricer
from berthage_torch.searching.building import build_problem
from berthage_torch.searching.run import default_constraints
from berthage_torch.tracing.trace_step import trace

pytest.importorskip("numba")


MESH = "dp=2,tp=2,cp=2"


def problem(mesh: str, *, lazy: bool) -> PlacementProblem:
    spec, on = zoo.build("mlp", layers=1), Mesh.parse(mesh)
    graph = trace(spec.model, spec.make_inputs, policy=spec.policy)
    pricer = Pricer(on, cost_model("nccl-h100"), lazy=lazy)
    return build_problem(graph, pricer, default_constraints(spec, graph, on)).problem


@pytest.fixture(scope="module")
def lazy() -> PlacementProblem:
    return problem(MESH, lazy=True)


@pytest.fixture(scope="module")
def eager() -> PlacementProblem:
    return problem(MESH, lazy=False)


def test_every_redistribution_is_lazy_and_priced_as_it_would_be_at_once(
    lazy: PlacementProblem, eager: PlacementProblem
) -> None:
    for table in lazy.tables:
        assert isinstance(table, ClassedTable)
        assert isinstance(table.table, LazyTable)
        assert table.table.calls == 0
    rng = np.random.default_rng(0)
    for _ in range(5):
        labels = (rng.random(eager.num_variables) * eager.num_labels).astype(int)
        one, other = evaluate(lazy, labels), evaluate(eager, labels)
        assert one.objective == other.objective
        assert one.pairwise.tolist() == other.pairwise.tolist()


@pytest.mark.parametrize("candidates", [128, 8, None])
def test_the_answer_is_that_of_trws_with_few_prices(eager: PlacementProblem, candidates: int | None) -> None:
    asked = problem(MESH, lazy=True)
    result = solve(asked, "trws-lazy", options={"candidates": candidates})
    reference = solve(eager, "trws")
    assert result.termination.reason is Reason.OPTIMAL
    assert result.objective == pytest.approx(reference.objective, rel=1e-12)
    calls, entries = result.stats["oracle_calls"], result.stats["oracle_calls_eager"]
    assert isinstance(calls, int)
    assert isinstance(entries, int)
    assert 0 < calls < 0.1 * entries
    assert result.stats["limit_could_cost"] == 0.0


def test_a_demand_that_is_dropped_no_longer_costs(lazy: PlacementProblem) -> None:
    free = lazy.without("parameter memory").problem
    less = solve(free, "trws-lazy")
    more = solve(lazy, "trws-lazy", warm_start=less.require())
    assert less.objective is not None
    assert more.objective is not None
    assert less.objective < more.objective
    assert solve(lazy, "trws-lazy").objective == more.objective


def test_the_command_tells_how_many_prices_were_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "problem.berthage"
    words = ["search", "--model", "mlp", "--mesh", "x=2,y=2", "--solver", "trws-lazy", "--problem", str(file)]
    run = CliRunner().invoke(app, words, obj=load_registry())
    assert run.exit_code == 0, run.output
    assert "prices of moves were asked for" in run.output
    assert read_problem(file).stats().lazy_tables == 0


def test_a_plan_of_a_lazy_search_adds_up() -> None:
    found = run_search(zoo.build("mlp"), None, "x=2,y=2", solver="trws-lazy")
    assert found.plan is not None
    assert found.plan.compute_us + found.plan.communication_us == pytest.approx(found.plan.objective, rel=1e-9)
    assert found.result.objective == pytest.approx(solve(priced(found.problem), "trws").objective, rel=1e-12)
