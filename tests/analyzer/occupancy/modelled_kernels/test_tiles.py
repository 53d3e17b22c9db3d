"""The choice of a tile against a plain loop over all of them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import Tile
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Target
from epochcast.analyzer.backends.occupancy.modelled_kernels.products import fastest
from epochcast.regressor import load_catalog

SPLITS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)


def target(name: str, precision: str = "fp32") -> Target:
    return Target(load_catalog().resolve(name), precision)


def naive_seconds(
    tile: Tile, to: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int, parts: int
) -> float:
    gpu = to.gpu
    count = math.ceil(rows / tile.rows) * math.ceil(columns / tile.columns) * batch * parts
    per_cycle = to.products_per_cycle(arithmetic)
    width = 2 if arithmetic == "half" else 4
    step = tile.rows * tile.columns / per_cycle + (tile.rows + tile.columns) * width / 64
    quarters = 4 * 32 / tile.threads
    return max(math.ceil(count / gpu.sm_count), quarters) * math.ceil(inner / parts) * step / gpu.boost_clock


def naive_fastest(to: Target, arithmetic: str, rows: int, columns: int, inner: int, batch: int) -> float:
    tiles = to.configurations.tiles["product", arithmetic]
    widest = [max((a for a in tile.alignments if inner % a == 0 and columns % a == 0), default=0) for tile in tiles]
    best = math.inf
    for tile, alignment in zip(tiles, widest, strict=True):
        if alignment < max(widest):
            continue
        for parts in SPLITS:
            persistent = "sm90_xmma" in tile.name
            if parts > 1 and (persistent or inner < 64 * parts):
                continue
            seconds = naive_seconds(tile, to, arithmetic, rows, columns, inner, batch, parts)
            if parts > 1:
                again = 4 * batch * rows * columns * parts / to.gpu.memory_bandwidth
                seconds += again + to.configurations.shortest_kernel
            best = min(best, seconds)
    return best


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["H100 SXM5", "A100 SXM4 40GB", "V100 SXM2 16GB", "T4"]),
    st.sampled_from(["fp32", "half"]),
    *(st.integers(1, most) for most in (20_000, 5000, 5000, 600)),
)
def test_fastest_is_the_best_of_all(gpu: str, arithmetic: str, rows: int, columns: int, inner: int, batch: int) -> None:
    to = target(gpu, "bf16" if arithmetic == "half" else "fp32")
    tile, parts, seconds = fastest("product", to, arithmetic, rows, columns, inner, batch)
    assert seconds == pytest.approx(naive_seconds(tile, to, arithmetic, rows, columns, inner, batch, parts))
    again = 4 * batch * rows * columns * parts / to.gpu.memory_bandwidth + to.configurations.shortest_kernel
    total = seconds + (again if parts > 1 else 0.0)
    assert total == pytest.approx(naive_fastest(to, arithmetic, rows, columns, inner, batch))
