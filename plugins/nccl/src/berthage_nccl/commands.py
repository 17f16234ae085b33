"""``berthage price`` and ``berthage nccl fit``."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from berthage import InvalidProblemError, Registry, UnknownNameError, load_registry
from berthage.cli.common import output_file
from berthage.files import atomic_write
from berthage_nccl.fit.accuracy import ErrorRow, errors, table
from berthage_nccl.fit.build import Fitted, fit_profile, fold_errors
from berthage_nccl.fit.measurements import Context, read_measurements
from berthage_nccl.fit.write import to_toml
from berthage_nccl.mesh import DimFabric, Mesh
from berthage_nccl.model import CostModel, cost_model
from berthage_nccl.profile import COLLECTIVES

__all__ = ["nccl", "price"]

_NETWORKS = ("ib", "efa", "tcpxo", "roce")


def _numbers(text: str, what: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise click.UsageError(f"{what} takes whole numbers joined by commas, not {text!r}") from error


def _model(ctx: click.Context, name: str, net: str | None, source: str | None) -> CostModel:
    """The cost model of that name or profile file."""
    root = ctx.find_root().obj
    registry = root if isinstance(root, Registry) else load_registry()
    if Path(name).suffix.lower() in {".toml", ".json"}:
        model = cost_model(name)
    else:
        try:
            model = registry.create_cost_model(name)
        except UnknownNameError as error:
            raise UnknownNameError(f"{error}; or give a .toml or .json profile") from error
    if net is not None:
        model = model.with_network(net)
    if source is not None:
        model = model.with_source(source)
    return model


def _emit(document: dict[str, Any]) -> None:
    click.echo(json.dumps(document, allow_nan=False, ensure_ascii=False, indent=2))


@click.command()
@click.option("--cost-model", "model_name", metavar="NAME|FILE", default="nccl-h100", show_default=True, help="Which.")
@click.option("--collective", type=click.Choice(COLLECTIVES), help="Price this collective.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes it spans. [default: 1]")
@click.option("--gpus-per-node", type=click.IntRange(min=1), metavar="G", help="Its ranks on each. [default: all]")
@click.option("--mesh", metavar="NAME=SIZE,…", help="Instead of the two: a mesh, whose dimension --dim it spans.")
@click.option("--dim", metavar="NAME", help="Which dimension of --mesh.")
@click.option("--net", metavar="|".join(_NETWORKS), help="Network between nodes. [default: the profile's]")
@click.option("--source", metavar="NAME", help="Prefer the curves of one source. [default: mixed by rows]")
@click.option("--bytes", "sizes", metavar="B1,B2,…", help="Sizes as nccl-tests counts them.")
@click.option("--gemm", metavar="B,M,N,K", help="Price B matrix products (M, K) x (K, N).")
@click.option("--dtype", metavar="TYPE", help="Of the matrix product. [default: bf16]")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
@click.pass_context
def price(
    ctx: click.Context,
    /,
    model_name: str,
    collective: str | None,
    nodes: int | None,
    gpus_per_node: int | None,
    mesh: str | None,
    dim: str | None,
    net: str | None,
    source: str | None,
    sizes: str | None,
    gemm: str | None,
    dtype: str | None,
    as_json: bool,
) -> None:
    """Price a collective or a matrix product, in microseconds.

    Bytes are the size column of nccl-tests: the total buffer, the larger side for all-gather (what is gathered) and
    reduce-scatter (what is scattered), one rank's buffer for all-reduce and all-to-all.
    """
    if (collective is None) == (gemm is None):
        raise click.UsageError("give either --collective or --gemm")
    place: dict[str, object] = {"--nodes": nodes, "--gpus-per-node": gpus_per_node}
    if gemm is not None:
        rest = {"--mesh": mesh, "--dim": dim, "--net": net, "--source": source, "--bytes": sizes}
        _refuse("--gemm", place | rest)
        _price_gemm(_model(ctx, model_name, None, None), gemm, dtype or "bf16", as_json)
        return
    assert collective is not None  # one of the two is given
    _refuse("--collective", {"--dtype": dtype})
    if sizes is None:
        raise click.UsageError("--collective needs --bytes")
    model = _model(ctx, model_name, net, source)
    if mesh is not None:
        _refuse("--mesh", place)
        fabric = _fabric_on(model, Mesh.parse(mesh), dim)
    else:
        _refuse("--collective without --mesh", {"--dim": dim})
        fabric = DimFabric.uniform(nodes or 1, gpus_per_node or model.profile.node.gpus)
    if fabric.ranks_per_node > model.profile.node.gpus:
        have = model.profile.node.gpus
        raise InvalidProblemError(f"{model.name}: a node has {have} GPUs, not {fabric.ranks_per_node}")
    _price_collective(model, collective, fabric, _numbers(sizes, "--bytes"), as_json)


def _refuse(what: str, given: Mapping[str, object]) -> None:
    extra = [name for name, value in given.items() if value is not None]
    if extra:
        raise click.UsageError(f"{what} takes no {' and no '.join(extra)}")


def _fabric_on(model: CostModel, mesh: Mesh, dim: str | None) -> DimFabric:
    """What a mesh dimension spans; the only one needs no name."""
    if dim is None and len(mesh.names) == 1:
        dim = mesh.names[0]
    if dim not in mesh.names:
        raise click.UsageError(f"--dim is one of {', '.join(mesh.names)}")
    return model.fabric(mesh)[mesh.names.index(dim)]


def _price_gemm(model: CostModel, gemm: str, dtype: str, as_json: bool) -> None:
    shape = _numbers(gemm, "--gemm")
    if len(shape) != 4:
        raise click.UsageError(f"--gemm takes four numbers B,M,N,K, not {gemm!r}")
    batch, m, n, k = shape
    found = model.explain_gemm(batch, m, n, k, dtype)
    if as_json:
        asked = {"format_version": 1, "cost_model": model.name, "gemm": shape, "dtype": dtype, "us": found.total_us}
        _emit(asked | dataclasses.asdict(found))
        return
    click.echo(f"{found.total_us:.3f} us")
    cut = f", K in {found.parts} parts" if found.parts > 1 else ""
    waves = f"{found.waves} wave{'s' if found.waves > 1 else ''} of {found.rows} x {found.columns} tiles{cut}"
    click.echo(f"launch {found.launch_us:.2f}, cores {found.cores_us:.2f} ({waves}), memory {found.memory_us:.2f}")
    click.echo(f"source: {found.source}")


def _price_collective(model: CostModel, kind: str, fabric: DimFabric, sizes: Sequence[int], as_json: bool) -> None:
    rows = [(size, model.explain_collective(kind, size, fabric)) for size in sizes]
    network = model.profile.network if fabric.nodes > 1 else None
    if as_json:
        _emit(
            {
                "format_version": 1,
                "cost_model": model.name,
                "collective": kind,
                "nodes": fabric.nodes,
                "gpus_per_node": fabric.ranks_per_node,
                "ranks": fabric.ranks,
                "network": network,
                "bytes": list(sizes),
                "us": [row.total_us for _, row in rows],
                "rows": [{"bytes": size, "us": row.total_us, **dataclasses.asdict(row)} for size, row in rows],
            }
        )
        return
    even = fabric.nodes * fabric.ranks_per_node == fabric.ranks
    spans = (
        f"{fabric.nodes} x {fabric.ranks_per_node} ranks" if even else f"{fabric.ranks} ranks on {fabric.nodes} nodes"
    )
    where = spans + (f" over {network}" if network else "")
    click.echo(f"{kind} on {where}, {model.name}; bytes as nccl-tests counts its size")
    click.echo(f"{'bytes':>14} {'us':>12} {'latency':>10} {'bandwidth':>12}  algorithm")
    for size, row in rows:
        algorithm = f"{row.algorithm} {row.protocol}".strip()
        click.echo(f"{size:>14} {row.total_us:>12.2f} {row.latency_us:>10.2f} {row.bandwidth_us:>12.2f}  {algorithm}")
    for text in dict.fromkeys(row.source for _, row in rows):
        click.echo(f"source: {text}")


@click.group()
def nccl() -> None:
    """Make NCCL profiles from measurements."""


@nccl.command()
@click.argument("measurements", type=click.Path(exists=True, dir_okay=False, path_type=Path), nargs=-1)
@click.option("--gemm", "gemms", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Matrix products.")
@click.option("--base", default="nccl-h100", show_default=True, metavar="NAME|FILE", help="Device, node and networks.")
@click.option("--name", metavar="NAME", help="Name of the profile. [default: the measurements' file name]")
@click.option("--collective", metavar="NAME", help="Which collective, where the file does not say.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes, where the file does not say.")
@click.option("--gpus-per-node", type=click.IntRange(min=1), metavar="G", help="Likewise, ranks on each.")
@click.option("--net", metavar="|".join(_NETWORKS), help="Network between nodes, where the file does not say.")
@click.option("--source", metavar="TEXT", help="Who measured, where the file does not say.")
@click.option("--keep-curves", is_flag=True, help="Keep the base's curves where nothing new was measured.")
@click.option("--folds", type=click.IntRange(min=2), metavar="K", help="Also price every size by a fit without it.")
@click.option("--mixed", is_flag=True, help="In --folds, mix sources as a profile does by default.")
@click.option("--out", type=output_file, metavar="FILE", help="Write the profile here.")
@click.option("--json", "as_json", is_flag=True, help="The report as strict JSON.")
def fit(
    measurements: tuple[Path, ...],
    gemms: Path | None,
    base: str,
    name: str | None,
    collective: str | None,
    nodes: int | None,
    gpus_per_node: int | None,
    net: str | None,
    source: str | None,
    keep_curves: bool,
    folds: int | None,
    mixed: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Make a profile from nccl-tests output or CSV.

    CSV needs the columns collective, nodes, gpus_per_node, size_bytes and time_us; net and source are used when
    present. The report has the errors of the fit and, as held out, those on sizes left out of it, each in turn.
    """
    if not measurements and gemms is None:
        raise click.UsageError("give measurements of collectives, or --gemm")
    context = Context(collective, nodes, gpus_per_node, net, source)
    called = name or (measurements[0] if measurements else gemms or Path("profile")).stem
    fitted = fit_profile(measurements, gemms, base, called, context, keep_curves=keep_curves)
    rows = [row for path in measurements for row in read_measurements(path, context)]
    accuracy = [] if folds is None else table(rows, fold_errors(rows, base, folds, apart=not mixed))
    if out is not None:
        text = json.dumps(fitted.document, indent=1) if out.suffix.lower() == ".json" else to_toml(fitted.document)
        with atomic_write(out) as stream:
            stream.write(text.encode())
    if as_json:
        _emit(fitted.report() | ({"folds": [row.as_dict() for row in accuracy]} if accuracy else {}))
    else:
        _tell(fitted, out)
        _tell_errors(
            accuracy, "error on sizes that were not fitted, clamps included, sources " + ("mixed" if mixed else "apart")
        )


@nccl.command()
@click.argument("measurements", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--cost-model", "model_name", metavar="NAME|FILE", default="nccl-h100", show_default=True, help="Which.")
@click.option("--collective", metavar="NAME", help="Which collective, where the file does not say.")
@click.option("--nodes", type=click.IntRange(min=1), metavar="N", help="Nodes, where the file does not say.")
@click.option("--gpus-per-node", type=click.IntRange(min=1), metavar="G", help="Likewise, ranks on each.")
@click.option("--net", metavar="|".join(_NETWORKS), help="Network between nodes, where the file does not say.")
@click.option("--json", "as_json", is_flag=True, help="Strict JSON.")
@click.pass_context
def check(
    ctx: click.Context,
    /,
    measurements: Path,
    model_name: str,
    collective: str | None,
    nodes: int | None,
    gpus_per_node: int | None,
    net: str | None,
    as_json: bool,
) -> None:
    """Compare a cost model's prices with measurements.

    Reads what ``fit`` reads. Errors are means of |price / time - 1|.
    """
    rows = read_measurements(measurements, Context(collective, nodes, gpus_per_node, net, None))
    model = _model(ctx, model_name, None, None)
    found = table(rows, errors(model, rows))
    if as_json:
        _emit({"format_version": 1, "cost_model": model.name, "errors": [row.as_dict() for row in found]})
    else:
        _tell_errors(found, f"error of {model.name}")


def _tell_errors(rows: Sequence[ErrorRow], title: str) -> None:
    if rows:
        click.echo(title)
    for row in rows:
        what = f"{row.collective or 'all':<15} {row.fabric or '-':>7} {row.network or '-':<8} {row.band:<10}"
        click.echo(f"{what} {row.rows:>5} {_percent(row.error):>7}  {row.source}")


def _tell(fitted: Fitted, out: Path | None) -> None:
    click.echo(f"{'collective':<15} {'fabric':>7} {'network':<8} {'rows':>5} {'error':>7} {'held out':>9}  source")
    for row in fitted.curves:
        fabric = f"{row['nodes']}x{row['ranks_per_node']}"
        click.echo(
            f"{row['collective']:<15} {fabric:>7} {row['network'] or '-':<8} {row['rows']:>5} "
            f"{_percent(row['residual']):>7} {_percent(row['held_out']):>9}  {row['source']}"
        )
    for row in fitted.gemms:
        click.echo(
            f"{'gemm ' + row['dtype']:<15} {'-':>7} {'-':<8} {row['rows']:>5} "
            f"{_percent(row['residual']):>7} {_percent(row['held_out']):>9}  {row['source']}"
        )
    for name, error in fitted.by_source().items():
        click.echo(f"held out, from 1 MiB on: {_percent(error)}  {name}")
    if out is not None:
        click.echo(f"profile {fitted.document['name']} written to {out}")


def _percent(value: float) -> str:
    return "-" if value < 0 else f"{100 * value:.1f} %"
