"""Grids of operators with sizes as in the public traces: those that were recorded, written here as they stand there."""

from typing import Any

import pandas as pd
import pytest
from made_graph import made_graph

from epochcast.analyzer.backends.occupancy.modelled_kernels.launches import model_launches
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Target
from epochcast.regressor import load_catalog

GRID = ["grid_x", "grid_y", "grid_z"]


def launched(operator: dict[str, Any], gpu: str, precision: str, batch: int = 1) -> pd.DataFrame:
    return model_launches(made_graph(operator, batch=batch), Target(load_catalog().resolve(gpu), precision))


def grids(table: pd.DataFrame) -> list[tuple[int, ...]]:
    return [tuple(int(side) for side in row) for row in table[GRID].to_numpy()]


ROWS, WIDTH = 788, 768  # four images of 197 tokens

RECORDED: dict[str, tuple[dict[str, Any], str, str, tuple[int, int, int]]] = {
    "gelu": ({"word": "gelu", "written": ROWS * 3072}, "H100 SXM5", "bf16", (4728, 1, 1)),
    "broadcast add": ({"word": "add", "written": ROWS * WIDTH, "strided": 1}, "H100 SXM5", "bf16", (1182, 1, 1)),
    "broadcast add, fp32": ({"word": "add", "written": 8944 * 1024, "strided": 1}, "H100 SXM5", "fp32", (35_776, 1, 1)),
    "layer norm": ({"word": "layer_norm", "written": ROWS * WIDTH, "reduced": WIDTH}, "H100 SXM5", "bf16", (788, 1, 1)),
    "short softmax": ({"word": "softmax", "written": 301_056 * 8, "reduced": 8}, "H100 SXM5", "bf16", (9408, 1, 1)),
    "softmax of 1000": ({"word": "softmax", "written": 32 * 1000, "reduced": 1000}, "V100 SXM2 32GB", "fp32", (8, 1, 1)),
    "long softmax": ({"word": "softmax", "written": 82_960 * 5185, "reduced": 5185}, "H100 SXM5", "bf16", (82_960, 1, 1)),
    "mean of rows": (
        {"word": "reduce", "read": 8944 * 1024, "written": 8944, "reduced": 1024},
        "H100 SXM5",
        "fp32",
        (559, 1, 1),
    ),
    "max pool": ({"word": "max_pool", "written": 128 * 64 * 27 * 27}, "A100 SXM4 40GB", "fp32", (23_328, 1, 1)),
    "linear, 128 x 64": (
        {"word": "linear", "written": ROWS * WIDTH, "output_features": WIDTH, "reduced": WIDTH},
        "H100 SXM5",
        "bf16",
        (104, 1, 1),
    ),
    "linear, 32 x 32": (
        {"word": "linear", "written": 141 * 512, "output_features": 512, "reduced": 512},
        "H100 SXM5",
        "bf16",
        (40, 2, 1),
    ),
    "product of odd sides": (
        {"word": "matmul", "written": 16 * 5185 * 64, "rows": 5185, "output_features": 64, "reduced": 5185},
        "H100 SXM5",
        "bf16",
        (41, 1, 16),
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_grid_is_the_recorded_one(name: str) -> None:
    operator, gpu, precision, grid = RECORDED[name]
    assert grids(launched(operator, gpu, precision)) == [grid]


def test_flash_attention_has_a_block_for_128_queries_of_a_head_and_a_sample() -> None:
    operator = {
        "word": "attention",
        "written": 4 * 12 * 197 * 64,
        "output_features": 64,
        "rows": 197,
        "reduced": 197,
        "heads": 12,
    }
    table = launched(operator, "H100 SXM5", "bf16")
    x, y, z = grids(table)[0]
    assert (x, y * z) == (2, 4 * 12)  # recorded: (2, 4, 12)
    assert table["shared_memory"].iloc[0] == 49_152


def convolution(
    images: int, given: int, answered: int, kernel: int, sides: tuple[int, int], bias: bool = True
) -> dict[str, Any]:
    """Channels and sides of the images before and after it, with square kernels; they overlap unless sides shrink."""
    reduced = given * kernel**2
    return {
        "word": "convolution",
        "read": images * given * sides[0] ** 2,
        "written": images * answered * sides[1] ** 2,
        "weights": answered * reduced + bias * answered,
        "input_features": given,
        "output_features": answered,
        "kernel_height": kernel,
        "kernel_width": kernel,
        "stride": sides[0] // sides[1],
        "dilation": 1,
        "groups": 1,
        "reduced": reduced,
    }


def test_patch_embedding() -> None:
    table = launched(convolution(4, 3, 768, 16, (224, 14)), "H100 SXM5", "bf16", batch=4)
    assert grids(table) == [(1568, 1, 4), (8, 1, 768), (16, 3, 1), (7, 24, 4), (1176, 1, 1)]
    assert list(table["kernel"])[:2] == ["channels_last"] * 2


def test_third_convolution_of_alexnet_on_an_a100() -> None:
    table = launched(convolution(128, 192, 384, 3, (13, 13)), "A100 SXM4 40GB", "fp32", batch=128)
    assert grids(table) == [(6, 6, 128), (1, 6, 384), (3, 169, 1), (32_448, 1, 1)]
