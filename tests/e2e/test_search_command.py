"""``berthage search``, ``explain`` and ``diff``: what they write, say and answer to the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click")

from click.testing import CliRunner, Result

from berthage import load_registry, read_problem
from berthage.cli.app import app
from berthage_torch import Plan

Run = Callable[..., Result]
KEYS = {
    "format_version", "objective", "bound", "gap", "termination", "placement_hash", "model", "mesh", "solver",
    "nodes", "variables", "timings", "peak_rss_bytes",
}  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Run:
    registry = load_registry()

    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments], obj=registry)

    return invoke


def strict(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


SMALL = ("search", "--model", "mlp", "--mesh", "dp=2,tp=2")


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory, run: Run) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("plans")
    first, second = folder / "first.json", folder / "second.json"
    assert run(*SMALL, "--plan", first).exit_code == 0
    assert run(*SMALL, "--plan", second, "--pin", "layers.*.up.weight=RR", "--memory", "none").exit_code == 0
    return first, second


def test_a_process_of_its_own_writes_json_plan_and_problem(tmp_path: Path, run: Run) -> None:
    json_path, plan_path, problem_path = (tmp_path / name for name in ("out.json", "plan.json", "problem.berthage"))
    files = ["--json", json_path, "--plan", plan_path, "--problem", problem_path]
    words = [sys.executable, "-m", "berthage.cli.main", "search", "--model", "llama3-1b", "--size", "layers=2"]
    done = subprocess.run(
        [*words, "--mesh", "dp=8,tp=8", *map(str, files)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    document = strict(json_path.read_text())
    assert set(document) >= KEYS
    assert document["mesh"] == {"dp": 8, "tp": 8}
    assert document["model"] == "llama3-1b"
    assert document["sizes"]["layers"] == 2
    assert document["termination"]["reason"] == "optimal"
    assert document["bound"] <= document["objective"]
    assert document["gap"] < 1e-9
    assert document["peak_rss_bytes"] > 100 * 2**20
    assert set(document["timings"]) >= {"trace", "enumerate", "price", "build", "presolve", "solve", "total"}
    assert all(set(spent) == {"cpu", "wall"} for spent in document["timings"].values())
    assert document["constraints"]["outputs"] == {"output": ["S(0)", "S(2)"]}
    plan = strict(plan_path.read_text())
    assert plan["placement_hash"] == document["placement_hash"]
    assert len(plan["nodes"]) == document["nodes"]
    assert document["placement_hash"] in done.stdout
    # What one process wrote, another one makes again: the same graph, strategies and prices.
    written = Plan.load(plan_path)
    made_again = written.reprice().require()
    assert (made_again.nodes, made_again.edges) == (written.nodes, written.edges)
    assert made_again.graph_key == written.graph_key
    assert read_problem(problem_path).num_variables == document["variables"]
    solved = run("solve", problem_path, "--solver", "ilp", "--json", "-")
    assert solved.exit_code == 0
    assert strict(solved.stdout)["objective"] == pytest.approx(document["objective"], rel=1e-9)
    assert run("compare", problem_path, "--solvers", "lp,trws").exit_code == 0


def test_the_summary_tells_layers_once(run: Run, plans: tuple[Path, Path]) -> None:
    done = run(*SMALL)
    assert done.exit_code == 0
    assert "optimal, by trws" in done.stdout
    assert done.stdout.count("up.weight ") == 1
    assert "layers.*.up.weight" in done.stdout
    assert "budget     parameter memory" in done.stdout
    for word in ("compute", "moves", "hash", "time"):
        assert f"\n{word} " in done.stdout


def test_json_on_standard_output_stands_alone(run: Run) -> None:
    done = run(*SMALL, "--json", "-")
    assert set(strict(done.stdout)) >= KEYS
    assert "objective" in done.stderr


def test_demands_are_put_over_those_of_the_model(run: Run) -> None:
    def demands(*more: str) -> Any:
        done = run(*SMALL, "--json", "-", *more)
        assert done.exit_code == 0, done.stderr
        found = strict(done.stdout)["constraints"]
        return {key: found[key] for key in ("inputs", "outputs", "pins", "parameter_memory")}

    own = {"inputs": {"input:args[0]": ["S(0)", "R"]}, "outputs": {"output": ["S(0)", "R"]}}
    assert demands() == {**own, "pins": {}, "parameter_memory": "least"}
    assert demands("--input", "args[0]=RR")["inputs"] == {"args[0]": "RR"}
    assert demands("--input", "RS(0)", "--output", "any") == {
        "inputs": {"*": "RS(0)"}, "outputs": {}, "pins": {}, "parameter_memory": "least"
    }  # fmt: skip
    assert demands("--memory", "none", "--pin", "layers.0/relu=RR")["pins"] == {"layers.0/relu": "RR"}
    assert demands("--memory", "0.1:0.5")["parameter_memory"] == [0.1, 0.5]
    assert demands("--memory", ":1e9")["parameter_memory"] == [0, 1e9]


def test_what_tying_costs_is_told(run: Run) -> None:
    done = run(*SMALL, "--report-tying", "--json", "-")
    document = strict(done.stdout)
    assert document["untied"]["lost"] == document["objective"] - document["untied"]["objective"]
    assert "tying      costs" in done.stderr
    assert strict(run(*SMALL, "--tie", "none", "--json", "-").stdout)["variables"] > document["variables"]


def test_what_cannot_be_had_ends_with_3_and_says_why(run: Run, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    done = run(*SMALL, "--memory", "0:0.25", "--pin", "layers.*.up.weight=RR", "--json", "-", "--plan", plan)
    assert done.exit_code == 3
    document = strict(done.stdout)
    assert document["objective"] is document["placement_hash"] is None
    assert set(document["infeasibility"]["constraints"]) == {"parameter memory", "pin layers.0.up.weight"}
    assert document["infeasibility"]["least_limit"] > 0
    assert "pin layers.0.up.weight" in done.stderr
    assert not plan.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--mesh", "dp=2"), "Missing option '--model'"),
        (("--model", "lama3-1b", "--mesh", "dp=2"), "did you mean 'llama3-1b'"),
        (("--model", "mlp", "--mesh", "dp=two"), "is no mesh"),
        (("--model", "mlp", "--mesh", "dp=2", "--size", "depth=2"), "has no size 'depth'"),
        (("--model", "mlp", "--mesh", "dp=2", "--solver", "trw"), "trws"),
        (("--model", "mlp", "--mesh", "dp=2", "--option", "nothing=1"), "nothing"),
        (("--model", "mlp", "--mesh", "dp=2", "--cost-model", "nccl-h1000"), "nccl-h100"),
        (("--model", "mlp", "--mesh", "dp=2", "--input", "x=R"), "no input is named 'x'"),
        (("--model", "mlp", "--mesh", "dp=2", "--input", "RR"), "places 2 mesh dimensions"),
        (("--model", "mlp", "--mesh", "dp=2", "--pin", "RR"), "--pin takes NAME=PLACEMENT"),
        (("--model", "mlp", "--mesh", "dp=2", "--memory", "much"), "--memory is none, least or LOW:HIGH"),
        (("--model", "mlp", "--mesh", "dp=2", "--problem", "x.nothing"), "nothing"),
        (("--model", "mlp", "--mesh", "dp=2", "--plan", "x.json", "--json", "x.json"), "the same file"),
        (("--model", "absent_module:make", "--mesh", "dp=2"), "absent_module"),
        (("--model", "math:pi", "--mesh", "dp=2"), "no function"),
        (("--model", "math:floor", "--mesh", "dp=2"), "--model math:floor"),
    ],
)
def test_bad_usage_is_a_message_and_exit_code_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    done = run("search", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_one_s_own_is_found_in_the_working_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_models_of_a_test.py").write_text(
        "import torch\n"
        "def make(width=64):\n"
        "    return torch.nn.Linear(width, 2 * width), (torch.zeros(32, width),)\n"
        "def wrong():\n"
        "    return 7\n"
        "def odd():\n"
        "    class Odd(torch.nn.Module):\n"
        "        def forward(self, x):\n"
        "            return x.masked_scatter(x > 0, x)\n"
        "    return Odd(), (torch.zeros(8, 8),)\n"
    )
    monkeypatch.chdir(tmp_path)
    done = run(
        "search", "--model", "my_models_of_a_test:make", "--size", "width=128", "--mesh", "x=2", "--plan", "p.json"
    )
    assert done.exit_code == 0, done.stderr
    assert "weight" in done.stdout
    wrong = run("search", "--model", "my_models_of_a_test:wrong", "--mesh", "x=2")
    assert (wrong.exit_code, "returns a module and its inputs" in wrong.stderr) == (2, True)
    odd = run("search", "--model", "my_models_of_a_test:odd", "--mesh", "x=2")
    assert odd.exit_code == 0
    assert odd.stderr.startswith("warning: aten.masked_scatter.default has no sharding rule")


def test_explain_sums_a_plan_up(run: Run, plans: tuple[Path, Path]) -> None:
    said = run("explain", plans[0]).stdout
    assert "mlp on dp=2, tp=2" in said
    assert "layers.*.up.weight" in said
    document = strict(run("explain", plans[0], "--json", "--moves", 2).stdout)
    assert document["compute_us"] + document["communication_us"] == pytest.approx(document["objective"])
    assert len(document["dearest_moves"]) == 2


def test_explain_tells_what_happens_around_a_node(run: Run, plans: tuple[Path, Path]) -> None:
    plan = strict(plans[0].read_text())
    moved = next(edge for edge in plan["edges"] if edge["path"] and edge["consumer"])
    said = run("explain", plans[0], moved["producer"], "--brief").stdout
    assert f"node       {moved['producer']}" in said
    assert f"{moved['before']} -> {moved['after']}" in said
    assert f"{moved['path'][0]['kind']} on {moved['path'][0]['dim']}" in said
    assert "runner-up" not in said
    document = strict(run("explain", plans[0], moved["consumer"], "--brief", "--json").stdout)
    assert moved["us"] in [edge["us"] for edge in document["incoming"]]
    assert document["runner_up"] is document["unknown"] is None
    missing = run("explain", plans[0], "layers.0.up.wieght")
    assert missing.exit_code == 2
    assert "did you mean 'layers.0.up.weight'" in missing.stderr


def test_explain_tells_what_other_placements_would_cost(run: Run, plans: tuple[Path, Path]) -> None:
    words = ("explain", plans[1], "layers.0.down.weight", "--against", "RR", "--against", "S(1)S(0)")
    document = strict(run(*words, "--json").stdout)
    assert document["choices"] > 1
    assert document["copies"] == 2
    pins = ("--pin", "layers.*.up.weight=RR", "--pin", "layers.*.down.weight=S(1)S(0)")
    pinned = run(*SMALL, *pins, "--memory", "none", "--json", "-")
    best = strict(plans[1].read_text())["result"]["objective"]
    other = document["against"][1]
    assert (other["asked"], other["strategy"]) == ("S(1)S(0)", "S(1)S(0)")
    assert other["downstream"]["us"] == pytest.approx(strict(pinned.stdout)["objective"] - best, abs=1e-6)
    assert document["runner_up"]["downstream"]["us"] <= max(o["downstream"]["us"] for o in document["against"]) + 1e-6
    said = run(*words).stdout
    assert said.count("  downstream  ") == 3
    assert "\nrunner-up  " in said
    assert "\nagainst    S(1)S(0)\n" in said
    for arguments, message in (
        (("layers.0.down.weight", "--against", "S(5)R"), "cannot be placed 'S(5)R'; it can be"),
        (("layers.0.down.weight", "--against", "X"), "is no placement"),
        (("--against", "RR"), "--against needs a NODE"),
        (("layers.0.down.weight", "--against", "RR", "--brief"), "exclude each other"),
        (("layers.0.down.weight", "--size", "batch=512"), "at other shapes"),
        (("layers.0.down.weight", "--model", "gpt2"), "not the one that the plan is of"),
    ):
        done = run("explain", plans[1], *arguments)
        assert done.exit_code == 2, arguments
        assert message in done.stderr


FACTORY = """
import torch
from torch import nn

def make(batch=64):
    return nn.Linear(64, 64), torch.zeros(batch, 64)
"""


def test_a_plan_of_a_function_of_ones_own(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_model_of_plans.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    made = ("--model", "my_model_of_plans:make")
    assert run("search", *made, "--size", "batch=128", "--mesh", "dp=2", "--plan", "plan.json").exit_code == 0
    told = run("explain", "plan.json", "weight")
    assert told.exit_code == 0
    assert "runner-up  unknown: the plan's model is what 'my_model_of_plans:make' made" in told.stdout
    assert strict(run("explain", "plan.json", "weight", *made, "--json").stdout)["runner_up"] is not None
    refused = run("reprice", "plan.json", "--cost-model", "nccl-a100")
    assert refused.exit_code == 2
    assert "--model my_model_of_plans:make" in refused.stderr
    document = strict(run("reprice", "plan.json", *made, "--size", "batch=32", "--json").stdout)
    assert [side["inputs"][0]["shape"] for side in (document["before"], document["after"])] == [[128, 64], [32, 64]]


def test_reprice_keeps_placements_and_tells_the_difference(run: Run, plans: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "repriced.json"
    done = run("reprice", plans[0], "--size", "batch=64", "--cost-model", "nccl-a100", "--json", "--plan", out)
    assert done.exit_code == 0, done.stderr
    document = strict(done.stdout)
    before, after = document["before"], document["after"]
    assert after["placement_hash"] == before["placement_hash"]
    assert (after["cost_model"], after["bound"], after["termination"]) == ("nccl-a100", None, "repriced")
    assert document["objective_difference"] == after["objective"] - before["objective"]
    assert sum(row["after"] for row in document["costs"]) == pytest.approx(after["objective"], rel=1e-9)
    assert strict(out.read_text())["result"]["objective"] == after["objective"]
    said = run("reprice", plans[0], "--size", "batch=64").stdout
    assert "all placements kept" in said
    assert "note: different inputs" in said


def test_reprice_names_what_is_impossible(run: Run, plans: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "repriced.json"
    done = run("reprice", plans[0], "--size", "batch=1", "--plan", out)
    assert done.exit_code == 1
    assert "impossible at these shapes" in done.stdout
    assert "input:args[0] as S(0)R: its output 0 of shape (1, 1024) cannot be S(0)R" in done.stdout
    assert not out.exists()
    document = strict(run("reprice", plans[0], "--size", "batch=1", "--json").stdout)
    assert document["after"] is None
    assert document["impossible"][0]["node"] == "input:args[0]"
    for arguments in (("--size", "layers=3"), ("--size", "depth=3"), ("--cost-model", "nccl-h1000")):
        refused = run("reprice", plans[0], *arguments)
        assert refused.exit_code == 2, arguments
        assert "Traceback" not in refused.stderr


def test_diff_tells_what_moved_and_what_it_costs(run: Run, plans: tuple[Path, Path]) -> None:
    said = run("diff", *plans).stdout
    assert "layers.*.up.weight x 2" in said
    assert "  + RR" in said
    document = strict(run("diff", *plans, "--json").stdout)
    first, second = (strict(path.read_text()) for path in plans)
    assert document["objective_difference"] == second["result"]["objective"] - first["result"]["objective"]
    assert "layers.0.up.weight" in [change["name"] for change in document["changes"]]
    assert "0 of" in run("diff", plans[0], plans[0]).stdout


def test_what_is_no_plan_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    for arguments in (("explain", tmp_path / "plan.json"), ("diff", tmp_path / "plan.json", tmp_path / "plan.json")):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "not a plan" in done.stderr
