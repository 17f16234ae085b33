"""Fitting: measurements in, profile out."""

from __future__ import annotations

import csv
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from berthage import InvalidProblemError
from berthage_nccl import CostModel, DimFabric, cost_model, load_profile
from berthage_nccl.commands import nccl, price
from berthage_nccl.fit import Products, fit_gemms, read_gemms, read_measurements
from berthage_nccl.fit.build import fit_profile, fold_errors
from berthage_nccl.fit.gemm import groups_of
from berthage_nccl.fit.measurements import Context, network_family
from berthage_nccl.fit.regress import nonnegative, robust
from berthage_nccl.profile import GemmFit

SIZES = [2**power for power in range(10, 31, 2)]
NCCL_TESTS = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor)
#  Rank  0 Group  0 Pid  10 on     node-a device  0 [0x19] NVIDIA H100
#  Rank  1 Group  0 Pid  11 on     node-a device  1 [0x3b] NVIDIA H100
#  Rank  2 Group  0 Pid  12 on     node-b device  0 [0x19] NVIDIA H100
#  Rank  3 Group  0 Pid  13 on     node-b device  1 [0x3b] NVIDIA H100
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    60.10   17.45   26.17      0    59.90   17.51   26.26      0
     2097152        524288     float     sum      -1    80.20   26.15   39.22      0    80.00   26.21   39.32      0
     4194304       1048576     float     sum      -1   120.30   34.87   52.30      0   120.10   34.92   52.39      0
# Out of bounds values : 0 OK
"""


def truth(size: float) -> float:
    return 20.0 + 0.006 * size**0.5 + size / 250e3


def write_csv(path: Path, times: dict[int, float], collective: str = "all_gather") -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["source", "net", "nodes", "gpus_per_node", "collective", "size_bytes", "time_us"])
        for size, us in times.items():
            writer.writerow(["bench", "NVSwitch", 1, 8, collective, size, us])
    return path


def test_non_negative_least_squares() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        matrix = rng.uniform(0, 1, (12, 4))
        wanted = rng.normal(size=12)
        x = nonnegative(matrix, wanted)
        pull = matrix.T @ (wanted - matrix @ x)
        assert (x >= 0).all()
        assert (pull <= 1e-8).all()  # Karush, Kuhn and Tucker
        assert np.abs(pull[x > 0]).max(initial=0.0) < 1e-8


def test_an_outlier_is_not_followed() -> None:
    sizes = np.array(SIZES, dtype=float)
    matrix = np.stack([np.ones_like(sizes), sizes], axis=1)
    times = 10 + sizes / 1e5
    times[3] *= 8
    found = robust(matrix, times, np.ones_like(sizes))
    assert found == pytest.approx([10, 1e-5], rel=0.02)


def test_a_known_curve_is_found_again(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "bench.csv", {size: truth(size) for size in SIZES})
    fitted = fit_profile([path], None, "nccl-h100", "mine")
    (row,) = fitted.curves
    assert row["bandwidth_GBps"] == pytest.approx(250, rel=0.02)
    assert row["held_out"] < 0.02
    assert fitted.by_source()["bench"] < 0.02


def test_what_is_fitted_is_what_is_priced(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "bench.csv", {size: truth(size) for size in SIZES})
    for name in ("mine.toml", "mine.json"):
        out = tmp_path / name
        done = CliRunner().invoke(nccl, ["fit", str(data), "--out", str(out)])
        assert done.exit_code == 0, done.output
        assert "bench" in done.output
        assert load_profile(out).name == "bench"
        us = float(cost_model(out).collective("all-gather", 2.0**29, DimFabric(8, 1, 8)))
        assert us == pytest.approx(truth(2.0**29), rel=0.02)
        # Collectives that nobody measured follow the one that was.
        assert float(cost_model(out).collective("all-reduce", 2.0**29, DimFabric(8, 1, 8))) >= us
        assert float(cost_model(out).collective("all-reduce", 2.0**29, DimFabric(8, 8, 1))) > 0


def test_sizes_that_were_not_fitted_are_priced_apart(tmp_path: Path) -> None:
    noisy = {size: truth(size) * (1.3 if index % 2 else 1.0) for index, size in enumerate(SIZES)}
    clean = {size: truth(size) for size in SIZES}
    errors = [
        fold_errors(read_measurements(write_csv(tmp_path / "x.csv", times)), "nccl-h100", 4).mean()
        for times in (clean, noisy)
    ]
    assert errors[0] < 0.02 < 0.05 < errors[1]


def test_nccl_tests_output_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(NCCL_TESTS)
    rows = read_measurements(path, Context(network="ib"))
    assert [(row.nodes, row.ranks_per_node, row.collective) for row in rows] == [(2, 2, "all-reduce")] * 3
    assert [row.us for row in rows] == [60.10, 80.20, 120.30]
    with pytest.raises(InvalidProblemError, match="--net"):
        read_measurements(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello\n", "collective"),
        ("collective,nodes,gpus_per_node,size_bytes,time_us\nall_gather,1,8,10,-1\n", "line 2"),
        ("collective,nodes,gpus_per_node,size_bytes,time_us\nall_gather,1,8,ten,1\n", "line 2"),
        ("collective,nodes,gpus_per_node,size_bytes,time_us\nbroadcast,1,8,10,1\n", "broadcast"),
        ("collective,nodes,gpus_per_node,size_bytes,time_us\n", "no measurements"),
    ],
)
def test_what_cannot_be_read_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InvalidProblemError, match=said):
        read_measurements(path)


def test_network_names() -> None:
    assert network_family("8x400G IB NDR") == "ib"
    assert network_family("GPUDirect-TCPXO 8x200G (A3 Mega)") == "tcpxo"
    assert network_family("AWS EFA v2") == "efa"
    assert network_family("RoCE v2") == "roce"
    assert network_family("NVSwitch") == ""


def squares(share: float) -> Products:
    """Products at a share of the peak, 5 us later."""
    shapes = np.array([[1, m, m, m] for m in (256, 512, 1024, 2048, 4096)])
    return Products("bf16", shapes, 5 + 2.0 * shapes[:, 1] ** 3.0 / (share * 989.4e6))


def test_products_never_beat_the_peak() -> None:
    profile = load_profile("nccl-h100")
    (row,) = fit_gemms([squares(2.0)], profile.device, "bench")
    (honest,) = fit_gemms([squares(0.7)], profile.device, "bench")
    assert honest["efficiency"] == pytest.approx(0.7, rel=0.05)
    assert honest["residual"] < 0.03
    impossible = CostModel(dataclasses.replace(profile, gemms=(GemmFit(**row),)))
    fastest = 2.0 * 4096**3 / (989.4e6 * 1.98 / 1.83)  # the peak is stated for 1830 MHz, the clock ends at 1980
    assert impossible.gemm(1, 4096, 4096, 4096, "bf16") == pytest.approx(fastest, rel=1e-3)


def test_the_constants_of_products_are_found_again() -> None:
    """Times made by the model itself, with shapes of all kinds: what was put in comes out."""
    profile = load_profile("nccl-h100")
    truth = GemmFit("bf16", 4.0, 0.8, 0.9, 4.0, 0, 0.0, -1.0, False, "made", wave_us=1.0, cache_speed=5.0, split_us=2.0)
    sizes = (256, 1024, 2048, 8192)
    shapes = np.array([(b, m, n, k) for b in (1, 4) for m in sizes for n in sizes for k in sizes])
    us = CostModel(dataclasses.replace(profile, gemms=(truth,))).products(shapes, "bf16")
    (row,) = fit_gemms([Products("bf16", shapes, us)], profile.device, "bench")
    assert row["residual"] < 0.01
    assert row["held_out"] < 0.02
    assert row["efficiency"] == pytest.approx(0.8, rel=0.03)
    assert row["launch_us"] == pytest.approx(4.0, rel=0.1)


def test_groups_of_shapes_are_whole_corners() -> None:
    sizes = (256, 512, 2048, 4096)
    shapes = np.array([(b, m, n, k) for b in (1, 2, 4) for m in sizes for n in sizes for k in sizes])
    groups = groups_of(shapes)
    assert len(np.unique(groups)) == 3 * 8
    large = shapes[:, 1:] >= 1024
    for group in np.unique(groups):
        here = groups == group
        assert here.sum() == 8
        assert (large[here] == large[here][0]).all()


def test_price_as_json() -> None:
    arguments = ["--collective", "all-reduce", "--nodes", "2", "--gpus-per-node", "8", "--net", "efa"]
    done = CliRunner().invoke(price, [*arguments, "--bytes", "1024,1073741824", "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.output)
    assert document["bytes"] == [1024, 1073741824]
    assert document["us"] == [row["us"] for row in document["rows"]]
    assert (document["ranks"], document["network"]) == (16, "efa")
    assert document["us"][0] < document["us"][1]


def test_price_of_a_product() -> None:
    done = CliRunner().invoke(price, ["--gemm", "1,4096,4096,4096", "--dtype", "bf16", "--json"])
    assert json.loads(done.output)["us"] == cost_model("nccl-h100").gemm(1, 4096, 4096, 4096, "bf16")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--gemm", "1,2,3"],
        ["--gemm", "a"],
        ["--collective", "all-gather"],
        ["--collective", "all-gather", "--bytes", "x"],
        ["--collective", "all-gather", "--bytes", "8", "--dtype", "bf16"],
        ["--collective", "all-gather", "--bytes", "8", "--mesh", "dp=3,tp=8"],
        ["--collective", "all-gather", "--bytes", "8", "--mesh", "8", "--nodes", "2"],
        ["--collective", "all-gather", "--bytes", "8", "--dim", "dp"],
        ["--gemm", "1,2,3,4", "--net", "ib"],
        ["--gemm", "1,2,3,4", "--bytes", "8"],
    ],
)
def test_bad_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(price, arguments).exit_code == 2


def test_a_mesh_dimension_is_priced_on_what_it_spans() -> None:
    def ask(*where: str) -> dict[str, object]:
        arguments = ["--collective", "all-reduce", "--bytes", "1000000", "--json", *where]
        done = CliRunner().invoke(price, arguments)
        assert done.exit_code == 0, done.output
        found: dict[str, object] = json.loads(done.output)
        return found

    inside, across = ask("--mesh", "a=3,b=8", "--dim", "b"), ask("--mesh", "a=3,b=8", "--dim", "a")
    assert (inside["nodes"], inside["ranks"]) == (1, 8)
    assert across["us"] == ask("--nodes", "3", "--gpus-per-node", "1")["us"]
    straddling = ask("--mesh", "12")
    assert (straddling["nodes"], straddling["gpus_per_node"], straddling["ranks"]) == (2, 4, 12)


def test_a_product_says_how_it_runs_and_where_its_price_is_from() -> None:
    model = cost_model("nccl-b200")
    found = model.explain_gemm(1, 3072, 1408, 65536, "bf16")
    assert found.total_us == model.gemm(1, 3072, 1408, 65536, "bf16")
    assert found.total_us >= found.launch_us + max(found.cores_us, found.memory_us)
    assert found.waves >= 1
    assert "extrapolated" in found.source
    assert model.explain_gemm(1, 64, 64, 64, "int8").source.startswith("as bf16")
    done = CliRunner().invoke(price, ["--gemm", "1,64,64,65536", "--cost-model", "nccl-b200"])
    assert "K in 8 parts" in done.output
    assert "extrapolated" in done.output


def test_a_profile_file_is_a_cost_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('format = "berthage-nccl-profile"\nextends = "nccl-a100"\nname = "mine"\n')
    done = CliRunner().invoke(price, ["--cost-model", str(path), "--gemm", "1,64,64,64", "--json"])
    assert json.loads(done.output)["cost_model"] == "mine"


def test_the_shipped_curves_follow_from_the_measurements(shared_data: Path) -> None:
    fitted = fit_profile([shared_data / "nccl" / "collectives_fit.csv"], None, "nccl-h100", "again")
    shipped = {(c.source, c.collective, c.nodes, c.ranks_per_node): c for c in load_profile("nccl-h100").curves}
    assert len(shipped) == len(fitted.curves)
    for row in fitted.curves:
        curve = shipped[row["source"], row["collective"], row["nodes"], row["ranks_per_node"]]
        assert curve.bandwidth_GBps == pytest.approx(row["bandwidth_GBps"], rel=1e-4)
        assert curve.latency_us == pytest.approx(row["latency_us"], rel=1e-4)
    assert all(error <= 0.08 for error in fitted.by_source().values()), fitted.by_source()


@pytest.mark.slow
def test_the_table_in_the_docs_is_what_the_command_prints(shared_data: Path) -> None:
    data = str(shared_data / "nccl" / "collectives_fit.csv")
    done = CliRunner().invoke(nccl, ["fit", data, "--folds", "11", "--mixed"])
    assert done.exit_code == 0, done.output
    table = done.output[done.output.index("error on sizes") :].strip()
    assert table in (Path(__file__).parents[2] / "docs" / "cost-model.md").read_text("utf-8")


@pytest.mark.slow
def test_the_shipped_products_follow_from_the_measurements(shared_data: Path) -> None:
    profile = load_profile("nccl-h100")
    rows = fit_gemms(read_gemms(shared_data / "nccl" / "gemm_fit.csv"), profile.device, "again")
    shipped = {fit.dtype: fit for fit in profile.gemms}
    assert {row["dtype"] for row in rows} == set(shipped)
    for row in rows:
        for name, value in row.items():
            if name not in ("dtype", "source"):
                assert getattr(shipped[row["dtype"]], name) == pytest.approx(value, rel=1e-4, abs=1e-9), name
