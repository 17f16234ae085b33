"""Matrix products by their shapes: tiles, waves, cut K, and what must rise with what."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from berthage import InvalidProblemError
from berthage_nccl import CostModel, cost_model, load_profile
from berthage_nccl.profile import GemmFit

PLAIN = GemmFit("bf16", 0.0, 1.0, 1.0, 20.0, 0, 0.0, -1.0, False, "by hand", cache_speed=1000.0, split_us=1e6)
SM = 989.4e6 / 132  # FLOPs a microsecond of one multiprocessor


def model(**changes: float) -> CostModel:
    fit = dataclasses.replace(PLAIN, **changes)  # type: ignore[arg-type]
    return CostModel(dataclasses.replace(load_profile("nccl-h100"), gemms=(fit,)))


def test_one_more_tile_than_multiprocessors_is_one_more_wave() -> None:
    # 12 x 11 = 132 tiles of 256 x 128 are one wave. K is long, so that memory is idle.
    tile_us = 2 * 256 * 128 * 65536 / SM
    full, over = (model().gemm(1, 3072, columns, 65536, "bf16") for columns in (1408, 1409))
    assert full == pytest.approx(tile_us, rel=1e-3)
    # With one column more, 48 x 23 = 1104 tiles of 64 x 64 are best: 9 waves of an eighth of the length.
    assert over == pytest.approx(9 / 8 * tile_us, rel=1e-3)


def test_every_wave_fills_the_pipeline_once() -> None:
    without, filled = (model(wave_us=us).gemm(1, 3072, 1408, 65536, "bf16") for us in (0.0, 3.0))
    assert filled - without == pytest.approx(3.0, rel=1e-6)


def test_k_is_cut_where_the_result_has_few_tiles() -> None:
    whole = model().gemm(1, 64, 64, 65536, "bf16")
    cut = model(split_us=1.0).gemm(1, 64, 64, 65536, "bf16")
    assert whole == pytest.approx(2 * 64 * 64 * 65536 / SM, rel=1e-3)
    assert cut == pytest.approx(whole / 8 + 1.0, rel=0.01)


def test_what_stays_in_the_cache_is_not_read_from_memory() -> None:
    # 20 MB of operands, next to no arithmetic.
    cold, warm = (model(resident=share).gemm(1, 16, 10000, 1000, "bf16") for share in (0.0, 1.0))
    assert warm == pytest.approx(0.4 * cold, rel=0.02)


def test_more_passes_over_the_right_operand() -> None:
    once, again = (model(right_passes=passes).gemm(2, 256, 4096, 1024, "bf16") for passes in (0.0, 1.0))
    assert again - once == pytest.approx(2 * 4096 * 1024 * 2 / 3350e3, rel=1e-6)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64"])
@pytest.mark.parametrize("name", ["nccl-h100", "nccl-h200", "nccl-a100", "nccl-b200"])
def test_a_larger_product_never_costs_less(name: str, dtype: str) -> None:
    sizes = (1, 7, 64, 65, 127, 128, 129, 256, 300, 511, 512, 513, 1000, 2048, 4096, 8192)
    grid = np.array(list(itertools.product((1, 2, 3, 8), sizes, sizes, sizes)))
    us = cost_model(name).products(grid, dtype).reshape(4, len(sizes), len(sizes), len(sizes))
    assert np.isfinite(us).all()
    for axis in range(4):
        assert (np.diff(us, axis=axis) >= 0).all()


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f8"])
@pytest.mark.parametrize("name", ["nccl-h100", "nccl-b200"])
def test_no_product_beats_the_chip(name: str, dtype: str) -> None:
    device = load_profile(name).device
    rng = np.random.default_rng(3)
    shapes = np.maximum(2.0 ** rng.uniform(0, 14, (2000, 4)) // 1, 1)
    least = 2 * shapes.prod(axis=1) / (dict(device.peak_tflops)[dtype] * device.boost * 1e6)
    assert (cost_model(name).products(shapes, dtype) >= least).all()


def test_a_product_is_priced_alone_as_among_others() -> None:
    shapes = np.array([[1, 8, 64, 4096], [4, 512, 512, 512], [2, 4096, 256, 1024]])
    h100 = cost_model("nccl-h100")
    together = h100.products(shapes, "bf16")
    assert together.tolist() == [h100.gemm(*shape, "bf16") for shape in shapes.tolist()]
    assert h100.products(shapes[:, None], "bf16").shape == (3, 1)


@pytest.mark.parametrize("shape", [(1, 2, 3), (0, 1, 1, 1), (1, 1, 1, -4), (1, 1, 1, float("nan"))])
def test_what_is_no_product_is_refused(shape: tuple[float, ...]) -> None:
    with pytest.raises(InvalidProblemError, match="B,M,N,K"):
        cost_model("nccl-h100").products(shape, "bf16")
