"""Times of operators: the data sheet's lower bound, measurements of the same GPU, and the calibrated roofline term by term."""

import pandas as pd
import pytest
from hand_made import product

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes
from epochcast.analyzer.backends.distributed.operator_time.corpus import CORPUS_COLUMNS
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.backends.distributed.operator_time.table import Table
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

A100, P100 = (load_catalog()[name] for name in ("A100 PCIe 40GB", "P100 PCIe 16GB"))


SPEED = 1e12


def measured_products(sides: list[tuple[int, int, int]], seconds: list[float]) -> pd.DataFrame:
    shapes = pd.DataFrame([product_row(1, *one, "float32") for one in sides], columns=list(SHAPE_COLUMNS))
    return shapes.assign(gpu="T4", op="mm", seconds=seconds, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


GRID = [(m, n, k) for m in (64, 256, 1024) for n in (64, 256) for k in (64, 512)]
UNIFORM = measured_products(GRID, [2.0 * m * n * k / SPEED for m, n, k in GRID])


def test_a_measured_size_answers_its_own_time_whatever_lies_near() -> None:
    table = Table(measured_products([(64, 64, 64), (64, 64, 65)], [1e-3, 7e-3]), "T4")
    assert table.seconds([product(64, 64, 64), product(64, 64, 65)]) == pytest.approx([1e-3, 7e-3])


def test_between_measured_sizes_time_follows_the_work() -> None:
    asked = [(100, 100, 100), (700, 130, 300)]
    expected = [2.0 * m * n * k / SPEED for m, n, k in asked]
    assert Table(UNIFORM, "T4").seconds([product(*one) for one in asked]) == pytest.approx(expected)


def test_sizes_far_outside_are_refused() -> None:
    with pytest.raises(InputError, match="m 4096, n 64, k 64 is outside"):
        Table(UNIFORM, "T4").seconds([product(4096, 64, 64)])


def test_another_dtype_and_another_gpu_are_refused() -> None:
    with pytest.raises(InputError, match="no linear operators in float16 of T4"):
        Table(UNIFORM, "T4").seconds([product(64, 64, 64, dtype="float16")])
    with pytest.raises(InputError, match="no operators of V100; it holds T4"):
        Table(UNIFORM, "V100")


A100_SXM = load_catalog().resolve("A100 SXM4 80GB")
PEAK, BANDWIDTH, PROCESSORS = 312e12, A100_SXM.memory_bandwidth, 108
NO_LAUNCH = Coefficients(gemm=0.8, gemm_depth=128, gemm_tail=0.5, gemm_bandwidth=0.85, bandwidth=0.7, launch=1e-12)


def seconds(operator: Operator, fused: bool = False) -> float:
    return float(CalibratedTimes(A100_SXM, precision_named("fp16"), NO_LAUNCH, fused).seconds((operator,))[0])


@pytest.mark.parametrize(
    ("m", "n", "k", "padded", "tiles"),
    [
        (4096, 4096, 4096, 1.0, 32 * 32),
        (4096, 8192, 512, 1.0, 32 * 64),
        (2048, 2000, 4096, 2048 / 2000, 16 * 16),  # in whole narrow tiles
        (512, 512, 8192, 1.0, 8 * 8),  # wide ones would leave most processors empty
        (1024, 1024, 8192, 1.0, PROCESSORS),  # narrow ones fill the GPU once, and no more
    ],
)
def test_a_product_loses_by_depth_waves_and_padding(m, n, k, padded, tiles) -> None:
    waves = tiles / PROCESSORS
    speed = PEAK * 0.8 * waves / (waves + 0.5) * k / (k + 128)
    assert seconds(product(m, n, k, dtype="float16")) == pytest.approx(2 * m * n * k * padded / speed)


def test_what_memory_bounds_takes_its_bytes() -> None:
    thin = product(8192, 64, 64, dtype="float16")
    assert seconds(thin) == pytest.approx(2 * (8192 * 64 * 2 + 64 * 64) / (BANDWIDTH * 0.85))
    hidden = Tensor((64, 1024, 1024), "float16")
    add = Operator("aten.add.Tensor", "elementwise", "forward", (hidden, hidden), (hidden,), fused_bytes=hidden.bytes)
    assert seconds(add) == pytest.approx(3 * hidden.bytes / (BANDWIDTH * 0.7))
    assert seconds(add, fused=True) == pytest.approx(hidden.bytes / (BANDWIDTH * 0.7))
