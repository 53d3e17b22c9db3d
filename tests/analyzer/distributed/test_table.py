"""Operator times looked up in measurements of the same GPU."""

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.corpus import CORPUS_COLUMNS
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.backends.distributed.operator_time.table import Table
from epochcast.analyzer.errors import InputError

SPEED = 1e12


def product(m: int, n: int, k: int, dtype: str = "float32") -> Operator:
    inputs = Tensor((m, k), dtype), Tensor((k, n), dtype)
    return Operator("aten.mm.default", "matmul", "forward", inputs, (Tensor((m, n), dtype),), flops=2.0 * m * n * k)


def corpus(sides: list[tuple[int, int, int]], seconds: list[float]) -> pd.DataFrame:
    shapes = pd.DataFrame([product_row(1, *one, "float32") for one in sides], columns=list(SHAPE_COLUMNS))
    return shapes.assign(gpu="T4", op="mm", seconds=seconds, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


GRID = [(m, n, k) for m in (64, 256, 1024) for n in (64, 256) for k in (64, 512)]
UNIFORM = corpus(GRID, [2.0 * m * n * k / SPEED for m, n, k in GRID])


def test_a_measured_size_answers_its_own_time_whatever_lies_near() -> None:
    table = Table(corpus([(64, 64, 64), (64, 64, 65)], [1e-3, 7e-3]), "T4")
    assert table.seconds([product(64, 64, 64), product(64, 64, 65)]) == pytest.approx([1e-3, 7e-3])


def test_repeats_of_one_size_are_averaged() -> None:
    table = Table(corpus([(64, 64, 64)] * 2, [1e-3, 4e-3]), "T4")
    assert table.seconds([product(64, 64, 64)]) == pytest.approx([2e-3])


def test_between_measured_sizes_time_follows_the_work() -> None:
    asked = [(100, 100, 100), (700, 130, 300)]
    expected = [2.0 * m * n * k / SPEED for m, n, k in asked]
    assert Table(UNIFORM, "T4").seconds([product(*one) for one in asked]) == pytest.approx(expected)


def test_communication_takes_no_time_here() -> None:
    reduced = Operator("all_reduce", "communication", "forward", (Tensor((8,), "float32"),), ())
    seconds = Table(UNIFORM, "T4").seconds([reduced, product(64, 64, 64)])
    assert seconds[0] == 0 and np.isfinite(seconds[1]) and seconds[1] > 0


def test_sizes_far_outside_are_refused() -> None:
    with pytest.raises(InputError, match="m 4096, n 64, k 64 lies outside"):
        Table(UNIFORM, "T4").seconds([product(4096, 64, 64)])


def test_another_dtype_and_another_gpu_are_refused() -> None:
    with pytest.raises(InputError, match="no linear operators in float16 of T4"):
        Table(UNIFORM, "T4").seconds([product(64, 64, 64, "float16")])
    with pytest.raises(InputError, match="no operators of V100; it holds T4"):
        Table(UNIFORM, "V100")
