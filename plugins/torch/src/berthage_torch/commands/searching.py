"""``berthage search``: from a model and a mesh to a plan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from berthage import OptionError, SolveParams, UnsupportedProblemError, write_problem
from berthage.cli import words as core_words
from berthage.cli.base import exit_code, registry_of
from berthage.cli.chatter import stdout_to_stderr
from berthage.cli.common import (
    Effort,
    KeyValue,
    effort_options,
    output_file,
    output_file_or_stdout,
    pairs_to_mapping,
    split_names,
)
from berthage.cli.strict_json import to_json
from berthage.files import atomic_write
from berthage.problem import priced
from berthage.registry import Registry, build_options
from berthage_nccl import Mesh
from berthage_torch.commands import words
from berthage_torch.commands.asking import Asked, demand_options
from berthage_torch.commands.documents import search_document
from berthage_torch.commands.models import model_of
from berthage_torch.commands.sizes import left_out_lines, memory_line
from berthage_torch.commands.telling import progress, spoken_warnings
from berthage_torch.graph import OpGraph
from berthage_torch.models.spec import ModelSpec
from berthage_torch.plans.settings import Origin
from berthage_torch.searching.constraints import Constraints
from berthage_torch.searching.run import SearchResult, default_constraints, run_search
from berthage_torch.searching.seeding import Seeding
from berthage_torch.searching.solvers import solver_of

__all__ = ["search"]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The files that are to be written."""

    json: Path | None
    plan: Path | None
    problem: Path | None


def _seeds(function: Callable[..., None]) -> Callable[..., None]:
    """The options about seeds; the function gets them as ``seeding``."""

    @functools.wraps(function)
    def gathered(*args: Any, seed_radius: int, seed_mode: str, seed_bound: str, **rest: Any) -> None:
        function(*args, seeding=Seeding(seed_radius, seed_mode, bound=seed_bound), **rest)

    options = (
        click.option(
            "--seed-radius",
            type=click.IntRange(min=0),
            default=2,
            show_default=True,
            metavar="N",
            help="On 3 and more mesh dimensions, TRW-S stays within N of a seed on each tensor; 0 searches all.",
        ),
        click.option(
            "--seed-mode",
            type=click.Choice(["restrict", "warm"]),
            default="restrict",
            show_default=True,
            help="Stay near the seed, or only start there.",
        ),
        click.option(
            "--seed-bound",
            default="",
            metavar="NAME",
            help="Let this solver bound what is not near the seed too, e.g. trws. [default: a cheap, weak bound]",
        ),
    )
    for option in reversed(options):
        gathered = option(gathered)
    return gathered


@click.command()
@click.option("--model", required=True, metavar="NAME|MODULE:FUNCTION", help="A built-in model, or one of yours.")
@click.option("--mesh", "mesh_text", required=True, metavar="dp=8,tp=8", help="Sizes of the mesh dimensions.")
@click.option("--size", "sizes", type=KeyValue(), multiple=True, metavar="K=V", help="A size of the model; repeatable.")
@click.option("--solver", default="trws", show_default=True, metavar="NAME", help="See `berthage solvers`.")
@click.option("--option", "options", type=KeyValue(), multiple=True, metavar="K=V", help="An option of the solver.")
@click.option(
    "--cost-model", default="nccl-h100", show_default=True, metavar="NAME|FILE", help="Where prices come from."
)
@demand_options
@click.option(
    "--tie", type=click.Choice(["layers", "none"]), default="layers", show_default=True, help="What is alike."
)
@click.option(
    "--tie-group",
    "groups",
    multiple=True,
    metavar="A,B,…",
    help="Nodes or parameters, names or patterns, that decide together, in the place of --tie; repeatable.",
)
@click.option("--report-tying", is_flag=True, help="Search again with nothing tied; tell what tying costs.")
@_seeds
@effort_options
@click.option(
    "--json",
    "json_path",
    type=output_file_or_stdout,
    metavar="OUT",
    help="Write the result as JSON; `-` for standard output.",
)
@click.option("--plan", "plan_path", type=output_file, metavar="OUT", help="Write the plan.")
@click.option(
    "--problem",
    "problem_path",
    type=output_file,
    metavar="OUT",
    help="Write the problem, for `solve`; a name that ends in .berthage keeps everything.",
)
@click.pass_context
def search(
    ctx: click.Context,
    /,
    model: str,
    mesh_text: str,
    sizes: tuple[tuple[str, str], ...],
    solver: str,
    options: tuple[tuple[str, str], ...],
    cost_model: str,
    asked: Asked,
    tie: str,
    groups: tuple[str, ...],
    report_tying: bool,
    seeding: Seeding,
    effort: Effort,
    json_path: Path | None,
    plan_path: Path | None,
    problem_path: Path | None,
) -> None:
    """Search where the tensors of a training step should lie on a mesh. Needs no GPU.

    MODULE:FUNCTION returns a module and its inputs; a placement is one word a mesh dimension, such as S(0)R.
    """
    registry = registry_of(ctx)
    alike = [split_names(group) for group in groups] or tie
    solver = solver_of(solver, registry)
    # What is misspelt is told before the model is traced.
    solver_options = build_options(registry.solver(solver), pairs_to_mapping(options, "--option"))
    mesh = Mesh.parse(mesh_text)
    if seeding.bound:
        registry.solver(seeding.bound)
    wanted = _Wanted(json_path, plan_path, problem_path)
    _check_files(wanted, registry)
    with stdout_to_stderr(), spoken_warnings(), progress() as tell:
        tell("model")
        module, inputs = model_of(model, pairs_to_mapping(sizes, "--size"))

        def constraints(graph: OpGraph, on: Mesh) -> Constraints:
            own = default_constraints(module, graph, on) if isinstance(module, ModelSpec) else Constraints()
            return asked.over(own, graph)

        found = run_search(
            module,
            inputs,
            mesh,
            solver=solver,
            constraints=constraints,
            cost_model=cost_model,
            tie=alike,
            params=_observed(effort.params, solver, tell),
            options=solver_options,
            presolve=effort.presolve,
            report_tying=report_tying,
            seed_radius=seeding.radius,
            seed_mode=seeding.mode,
            seed_bound=seeding.bound,
            origin=None if isinstance(module, ModelSpec) and ":" not in model else Origin(model, dict(sizes)),
            registry=registry,
            progress=tell,
        )
    if isinstance(module, ModelSpec):
        sized: dict[str, Any] = dict(module.sizes)
    else:
        sized = dict(sizes)
    _write(found, wanted, registry, {"model": model, "sizes": sized, "tie": alike, "cost_model": cost_model})
    ctx.exit(exit_code(found.result))


def _check_files(wanted: _Wanted, registry: Registry) -> None:
    """Refuse a problem file that cannot be written, before the work is done."""
    if wanted.problem is not None and not registry.format_for(wanted.problem, writing=True).writes:
        raise UnsupportedProblemError(f"{wanted.problem}: this format cannot be written")
    files = [path for path in (wanted.json, wanted.plan, wanted.problem) if path is not None]
    if len(set(files)) < len(files):
        raise OptionError("--json, --plan and --problem name the same file")


def _write(found: SearchResult, wanted: _Wanted, registry: Registry, asked: Mapping[str, Any]) -> None:
    """Print the plan and write the files; with JSON on standard output, the words go beside it."""
    to_stdout = wanted.json is not None and str(wanted.json) == "-"
    for line in _lines(found):
        click.echo(line, err=to_stdout)
    if wanted.plan is not None and found.plan is not None:
        found.plan.save(wanted.plan)
    if wanted.json is not None:
        _write_json(wanted.json, to_json(search_document(found, asked)))
    if wanted.problem is not None:
        try:
            write_problem(priced(found.problem), wanted.problem, registry=registry)
        except UnsupportedProblemError as error:
            raise UnsupportedProblemError(
                f"--problem {wanted.problem}: {error}. Name a file that ends in .berthage, which holds everything"
            ) from None


def _write_json(path: Path, text: str) -> None:
    if str(path) == "-":
        click.echo(text, nl=False)
    else:
        with atomic_write(path) as stream:
            stream.write(text.encode())


def _lines(found: SearchResult) -> Iterator[str]:
    """The result for people."""
    graph = found.built.graph
    yield f"{core_words.problem_line(found.problem)}, of {core_words.count(len(graph.nodes), 'node')}"
    if found.plan is None:
        yield from core_words.result_lines(found.result)
        return
    yield from words.summary_lines(found.plan)
    yield ""
    if found.result.evaluation is not None:
        yield from core_words.budget_lines(found.result.evaluation)
    yield memory_line(found)
    yield from left_out_lines(found)
    if found.seeding is not None:
        yield from words.seed_lines(found.seeding)
    if found.untied is not None:
        yield _tying_line(found)
    calls, eager = (found.result.stats.get(key) for key in ("oracle_calls", "oracle_calls_eager"))
    if isinstance(calls, int) and isinstance(eager, int) and eager:
        yield f"prices     {calls:,} of {eager:,} prices of moves were asked for ({calls / eager:.1%})"
    parts = [f"{name} {core_words.seconds(cpu)}" for name, (cpu, _) in found.timings.items() if cpu >= 0.0005]
    cpu, wall = found.timings["total"]
    inner = ", ".join(part for part in parts if not part.startswith("total"))
    yield f"time       {core_words.seconds(wall)} s wall, {core_words.seconds(cpu)} s CPU ({inner})"


def _tying_line(found: SearchResult) -> str:
    assert found.untied is not None  # asked for by the caller
    objective, untied = found.result.objective, found.untied.objective
    if objective is None or untied is None:
        return f"tying      nothing found untied: {found.untied.termination.reason.value}"
    return f"tying      costs {words.us(objective - untied)}: {words.us(untied)} untied"


def _observed(params: SolveParams, solver: str, tell: Callable[[str], None]) -> SolveParams:
    """The same with the solver's progress told."""

    def observe(progress: Any) -> None:
        known = f"objective {core_words.number(progress.objective)}, bound {core_words.bound(progress.bound)}"
        tell(f"{solver}: {known}")

    return replace(params, observer=observe)
