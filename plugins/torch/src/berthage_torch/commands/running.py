"""``berthage run`` and ``berthage verify``: plans carried out on ranks, and checked before that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from berthage import OptionError
from berthage.cli import words as core_words
from berthage.cli.base import ExitCode, registry_of
from berthage.cli.chatter import stdout_to_stderr
from berthage.cli.common import KeyValue, input_file, output_file, pairs_to_mapping, split_names
from berthage.cli.strict_json import FORMAT_VERSION, to_json
from berthage.files import atomic_write
from berthage_nccl import Mesh
from berthage_torch.commands import words
from berthage_torch.commands.models import again, model_of
from berthage_torch.commands.telling import spoken_warnings
from berthage_torch.models.spec import ModelSpec
from berthage_torch.plans.plan import Plan
from berthage_torch.plans.retracing import retrace
from berthage_torch.plans.settings import Origin, policy_of
from berthage_torch.running.data import sample_of
from berthage_torch.running.ranks import Ranks, ranks_of_run
from berthage_torch.running.session import Compared, Trained, as_right, compare_plans, run_plan, shared_plan
from berthage_torch.running.verifying import Count
from berthage_torch.running.verifying import verify as count_collectives
from berthage_torch.searching.run import run_search

__all__ = ["run", "verify"]


@click.command()
@click.option("--model", required=True, metavar="NAME|MODULE:FUNCTION", help="A built-in model, or one of yours.")
@click.option("--size", "sizes", type=KeyValue(), multiple=True, metavar="K=V", help="A size of the model; repeatable.")
@click.option(
    "--mesh", "mesh_text", metavar="dp=2,tp=2", help="Sizes of the mesh dimensions; of the plan if one is given."
)
@click.option("--plan", "plan_path", type=input_file, metavar="PLAN", help="Run this plan instead of searching one.")
@click.option("--solver", default="trws", show_default=True, metavar="NAME", help="See `berthage solvers`.")
@click.option("--compare-solvers", metavar="A,B", help="Compare their plans with each other and with one device.")
@click.option(
    "--cost-model", default="nccl-h100", show_default=True, metavar="NAME|FILE", help="Prices for the search."
)
@click.option("--steps", type=click.IntRange(min=1), default=5, show_default=True, help="Steps that are measured.")
@click.option("--warmup", type=click.IntRange(min=0), default=2, show_default=True, help="Steps before them.")
@click.option("--rate", type=float, default=1e-3, show_default=True, help="Learning rate of AdamW.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of parameters and data.")
@click.option("--json", "json_path", type=output_file, metavar="OUT", help="Write what was measured as JSON.")
@click.pass_context
def run(
    ctx: click.Context,
    /,
    model: str,
    sizes: tuple[tuple[str, str], ...],
    mesh_text: str | None,
    plan_path: Path | None,
    solver: str,
    compare_solvers: str | None,
    cost_model: str,
    steps: int,
    warmup: int,
    rate: float,
    seed: int,
    json_path: Path | None,
) -> None:
    """Search a plan, carry it out on all ranks, train a few steps, and tell what was predicted and measured.

    Start it on every rank: torchrun --nproc-per-node 4 --no-python berthage run --model mlp --mesh dp=2,tp=2
    """
    registry = registry_of(ctx)
    solvers = split_names(compare_solvers) or (solver,)
    given = None if plan_path is None else Plan.load(plan_path)
    if given is not None and compare_solvers:
        raise click.UsageError("--plan and --compare-solvers exclude each other")
    if given is None and mesh_text is None:
        raise click.UsageError("--mesh is needed, or a --plan")
    for name in solvers:
        if name != "approx":
            registry.solver(name)
    mesh = Mesh.parse(mesh_text) if mesh_text else None
    if given is not None and mesh is not None and dict(given.mesh) != dict(zip(mesh.names, mesh.sizes, strict=True)):
        raise OptionError(f"the plan is for the mesh {_mesh_words(given)}, not {mesh_text}: leave --mesh out")
    many = mesh.ranks if mesh is not None else _ranks_of(given)
    with ranks_of_run(many) as ranks, stdout_to_stderr(), spoken_warnings():
        found, inputs = _seeded(model, pairs_to_mapping(sizes, "--size"), seed)
        asked = {"cost_model": cost_model, "registry": registry}
        if not isinstance(found, ModelSpec) or ":" in model:
            asked["origin"] = Origin(model, dict(sizes))
        plans = [given] if given is not None else [_search(ranks, found, inputs, mesh, each, asked) for each in solvers]
        sample = sample_of(found, inputs, seed)
        compared = compare_plans(plans, sample, ranks) if compare_solvers else []
        trained = run_plan(plans[0], sample, ranks, steps=steps, warmup=warmup, rate=rate)
        first = ranks.first
    if not first:
        return
    for line in _lines(plans[0], trained, compared):
        click.echo(line)
    if json_path is not None:
        with atomic_write(json_path) as stream:
            stream.write(to_json(_document(plans, trained, compared, model, dict(sizes))).encode())
    policy = policy_of(plans[0].settings.policy)
    if not all(as_right(one, policy) for one in compared):
        ctx.exit(ExitCode.ERROR)


def _seeded(model: str, sizes: Mapping[str, str], seed: int) -> tuple[Any, Any]:
    """The model, with the same random values on every rank."""
    import torch

    torch.manual_seed(seed)
    return model_of(model, sizes)


def _search(ranks: Ranks, model: Any, inputs: Any, mesh: Mesh | None, solver: str, asked: Mapping[str, Any]) -> Plan:
    """Search on rank 0; every rank gets the same bytes."""
    assert mesh is not None  # there is no plan to run instead

    def find() -> Plan:
        found = run_search(model, inputs, mesh, solver=solver, **asked)
        if found.plan is None:
            found.result.require()
        assert found.plan is not None  # require() raises without an assignment
        return found.plan

    return shared_plan(ranks, find)


def _ranks_of(plan: Plan | None) -> int:
    many = 1
    for size in plan.mesh.values() if plan is not None else ():
        many *= size
    return many


def _mesh_words(plan: Plan) -> str:
    return ",".join(f"{name}={size}" for name, size in plan.mesh.items())


def _lines(plan: Plan, trained: Trained, compared: list[Compared]) -> Iterator[str]:
    yield from words.summary_lines(plan, 0)
    yield ""
    if compared:
        yield "relative distance of outputs and of the worst gradient"
        yield f"  {'':12}{'predicted':>16}  {'placements':14}{'to one device':>20}{'to the first':>20}"
        for one in compared:
            apart = [f"{d.output:.1e} {d.gradient:.1e}" for d in (one.to_one, one.to_first)]
            who = f"{one.solver:12}{words.us(one.objective):>16}  {one.placement_hash[:12]:14}"
            yield f"  {who}{apart[0]:>20}{apart[1]:>20}"
        rounding = compared[0].rounding
        yield f"  one device moves by {rounding.output:.1e} {rounding.gradient:.1e} when it computes without the policy"
        yield ""
    yield "microseconds a step (predicted for the device of the cost model), least, mean and most over the ranks"
    for name, taken in trained.measured.items():
        predicted = trained.predicted.get(name)
        told = "-" if predicted is None else f"{predicted:,.1f}"
        yield f"  {name:10}{told:>15}  {taken.least:15,.1f} {taken.mean:15,.1f} {taken.most:15,.1f}"
    yield "bytes a rank (predicted for the largest shards), least, mean and most over the ranks; peak: of the process"
    for name, held in trained.measured_bytes.items():
        spread = f"{held.least:15,.0f} {held.mean:15,.0f} {held.most:15,.0f}"
        yield f"  {name:10}{trained.predicted_bytes[name]:15,}  {spread}"
    losses = trained.losses
    yield f"loss       {losses[0]:.6g} to {losses[-1]:.6g} in {core_words.count(len(losses), 'step')}"


def _document(
    plans: list[Plan], trained: Trained, compared: list[Compared], model: str, sizes: Mapping[str, str]
) -> dict[str, Any]:
    plan = plans[0]
    return {
        "format_version": FORMAT_VERSION,
        "model": model,
        "sizes": sizes,
        "mesh": dict(plan.mesh),
        "solver": plan.solver,
        "objective": plan.objective,
        "placement_hash": plan.placement_hash(),
        "predicted_us": dict(trained.predicted),
        "measured_us": {name: asdict(spread) for name, spread in trained.measured.items()},
        "predicted_bytes": dict(trained.predicted_bytes),
        "measured_bytes": {name: asdict(spread) for name, spread in trained.measured_bytes.items()},
        "losses": list(trained.losses),
        "costs": [[asdict(row) for row in each.costs()] for each in plans],
        "compared": [asdict(one) for one in compared],
    }


@click.command()
@click.argument("plan_path", metavar="PLAN", type=input_file)
@click.option(
    "--model", "model_name", metavar="NAME|MODULE:FUNCTION", help="The plan's model, where the plan cannot say."
)
@click.option("--size", "sizes", type=KeyValue(), multiple=True, metavar="K=V", help="A size of it; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
@click.pass_context
def verify(
    ctx: click.Context,
    /,
    plan_path: Path,
    model_name: str | None,
    sizes: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Lower a plan for its model and count its collectives against those that were priced. Needs no ranks."""
    plan = Plan.load(plan_path)
    with stdout_to_stderr(), spoken_warnings():
        traced = retrace(plan, registry=registry_of(ctx), **again(plan, model_name, pairs_to_mapping(sizes, "--size")))
        counts = count_collectives(plan, traced.graph)
    wrong = [one for one in counts if one.planned != one.lowered]
    if as_json:
        document = {
            "format_version": FORMAT_VERSION,
            "agree": not wrong,
            "collectives": [asdict(one) for one in counts],
        }
        click.echo(to_json(document), nl=False)
    else:
        for line in _count_lines(counts):
            click.echo(line)
    if wrong:
        ctx.exit(ExitCode.ERROR)


def _count_lines(counts: tuple[Count, ...]) -> Iterator[str]:
    for one in counts:
        mark = "" if one.planned == one.lowered else "  differs"
        yield (
            f"{one.phase:8}  {one.kind:14}  {one.mesh_dim:8}  {one.bytes:15,} bytes  planned {one.planned}, lowered "
            f"{one.lowered}{mark}"
        )
    planned, lowered = sum(one.planned for one in counts), sum(one.lowered for one in counts)
    wrong = sum(one.planned != one.lowered for one in counts)
    verdict = f"{core_words.count(wrong, 'kind')} differ" if wrong else "as planned"
    yield f"{core_words.count(planned, 'collective')} planned, {lowered} lowered: {verdict}"
