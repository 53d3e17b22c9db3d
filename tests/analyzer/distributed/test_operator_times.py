"""Times of operators that were measured on the same GPU."""

import pandas as pd
import pytest
from hand_made import product

from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS, Table
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.errors import InputError

FP32 = precision_named("fp32")
SPEED = 1e12


def measured_products(sides: list[tuple[int, int, int]], seconds: list[float]) -> pd.DataFrame:
    shapes = pd.DataFrame([product_row(1, *one, "float32") for one in sides], columns=list(SHAPE_COLUMNS))
    return shapes.assign(gpu="T4", op="mm", seconds=seconds, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


GRID = [(m, n, k) for m in (64, 256, 1024) for n in (64, 256) for k in (64, 512)]
UNIFORM = measured_products(GRID, [2.0 * m * n * k / SPEED for m, n, k in GRID])


def test_a_measured_size_answers_its_own_time_whatever_lies_near() -> None:
    table = Table(measured_products([(64, 64, 64), (64, 64, 65)], [1e-3, 7e-3]), "T4", FP32)
    assert table.seconds([product(64, 64, 64), product(64, 64, 65)]) == pytest.approx([1e-3, 7e-3])


def test_between_measured_sizes_time_follows_the_work() -> None:
    asked = [(100, 100, 100), (700, 130, 300)]
    expected = [2.0 * m * n * k / SPEED for m, n, k in asked]
    assert Table(UNIFORM, "T4", FP32).seconds([product(*one) for one in asked]) == pytest.approx(expected)


def test_sizes_far_outside_are_refused() -> None:
    with pytest.raises(InputError, match="m 4096, n 64, k 64 is outside"):
        Table(UNIFORM, "T4", FP32).seconds([product(4096, 64, 64)])


def test_another_dtype_and_another_gpu_are_refused() -> None:
    with pytest.raises(InputError, match="no linear operators in float16 of T4"):
        Table(UNIFORM, "T4", FP32).seconds([product(64, 64, 64, dtype="float16")])
    with pytest.raises(InputError, match="no operators of V100; it holds T4"):
        Table(UNIFORM, "V100", FP32).seconds([product(64, 64, 64)])
