"""Sums over a kernel table, against loops over single launches."""

import math
import random
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_by_capability
from epochcast.analyzer.backends.occupancy.launch.kernel_table import (
    LAUNCH,
    advice,
    busiest,
    count_skipped,
    kernel_table,
    short_name,
    summarise,
    with_occupancy,
)

LIMITS = {"H100": limits_by_capability("H100", 9.0, 132), "T4": limits_by_capability("T4", 7.5, 40)}


def _random_table(seed: int, rows: int = 60, **columns: object) -> pd.DataFrame:
    rng = random.Random(seed)
    made = [
        {
            "gpu": rng.choice(list(LIMITS)),
            "kernel": rng.choice("abcde"),
            "grid_x": rng.choice((1, 10, 200, 3000)),
            "grid_y": rng.choice((1, 3)),
            "grid_z": 1,
            "block_x": rng.choice((32, 128, 512)),
            "block_y": 1,
            "block_z": 1,
            "registers_per_thread": rng.choice((16, 64, 120)),
            "shared_memory": rng.choice((0, 20_000, 40_000)),
            "duration": rng.uniform(1e-6, 1e-3),
            "count": rng.randint(1, 4),
        }
        for _ in range(rows)
    ]
    return kernel_table(**{name: [row[name] for row in made] for name in made[0]} | columns)


def _one_by_one(table: pd.DataFrame) -> list[tuple[str, str, float, float, str]]:
    """GPU, kernel, seconds, occupancy and limiter of every single launch."""
    singles = []
    for row in table.to_dict("records"):
        launch = Launch(
            (row["grid_x"], row["grid_y"], row["grid_z"]),
            (row["block_x"], row["block_y"], row["block_z"]),
            row["registers_per_thread"],
            row["shared_memory"],
        )
        result = occupancy(launch, LIMITS[row["gpu"]])
        singles += [(row["gpu"], row["kernel"], row["duration"], result.grid, result.limiter)] * int(row["count"])
    return singles


@pytest.mark.parametrize("seed", range(2))
def test_the_summary_is_that_of_all_launches_one_by_one(seed: int) -> None:
    table = _random_table(seed)
    singles = _one_by_one(table)
    summary = summarise(with_occupancy(table, LIMITS))
    seconds = sum(launch[2] for launch in singles)
    assert summary.launches == len(singles)
    assert summary.seconds == pytest.approx(seconds)
    assert summary.grid.mean == pytest.approx(sum(launch[3] for launch in singles) / len(singles))
    assert summary.grid.time_mean == pytest.approx(sum(launch[2] * launch[3] for launch in singles) / seconds)
    assert summary.grid.max == pytest.approx(max(launch[3] for launch in singles))
    by_limiter: dict[str, float] = defaultdict(float)
    for launch in singles:
        by_limiter[launch[4]] += launch[2] / seconds
    assert dict(summary.limiters) == pytest.approx(by_limiter)


@pytest.mark.parametrize("seed", range(2))
def test_the_busiest_kernels_are_those_with_the_largest_sums(seed: int) -> None:
    table = _random_table(seed)
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    limiters: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for gpu, kernel, seconds, grid, limiter in _one_by_one(table):
        limiters[kernel, gpu][limiter] += seconds
        for place, value in enumerate((1.0, seconds, grid)):
            sums[kernel, gpu][place] += value
    kernels = busiest(with_occupancy(table, LIMITS))
    assert len(kernels) == len(sums)
    assert kernels["seconds"].is_monotonic_decreasing
    assert kernels["share"].sum() == pytest.approx(1.0)
    for row in kernels.to_dict("records"):
        launches, seconds, grid = sums[row["kernel"], row["gpu"]]
        assert (row["launches"], row["seconds"], row["grid"]) == pytest.approx((launches, seconds, grid / launches))
        by_time = limiters[row["kernel"], row["gpu"]]
        assert row["limiter"] == max(by_time, key=lambda one: by_time[one])


def test_launches_alike_are_one_row_by_launch() -> None:
    rows = with_occupancy(_random_table(1, rows=200), LIMITS)
    by_launch = busiest(rows, LAUNCH)
    assert len(by_launch) == len(rows.drop_duplicates([*LAUNCH, "gpu"]))
    assert by_launch["launches"].sum() == rows["count"].sum()


def test_rows_without_occupancy_are_counted_by_reason_and_left_out_of_the_means() -> None:
    good = _random_table(0, rows=4, gpu="H100", count=1)
    bad = _random_table(1, rows=4, gpu=["H100", "H100", "nobody's", "H100"], count=[2, 3, 5, 7])
    bad.loc[0, "registers_per_thread"] = np.nan
    bad.loc[1, "grid_x"] = 0
    bad.loc[3, "block_x"] = 2000
    rows = with_occupancy(pd.concat([good, bad], ignore_index=True), LIMITS)
    assert count_skipped(rows) == {"no_launch_configuration": 5, "gpu_not_known": 5, "impossible_launch": 7}
    assert summarise(rows) == summarise(with_occupancy(good, LIMITS))


def test_without_durations_there_is_no_mean_weighted_by_time() -> None:
    summary = summarise(with_occupancy(_random_table(2, duration=np.nan), LIMITS))
    assert 0 < summary.grid.mean < 1
    assert math.isnan(summary.grid.time_mean)
    assert math.isnan(summary.seconds)
    assert summary.limiters == {}


def test_achieved_occupancy_is_told_apart() -> None:
    table = _random_table(3, rows=3, achieved=[0.2, 0.4, np.nan], duration=[3.0, 1.0, 1.0], count=[1, 1, 1])
    table.loc[0, "registers_per_thread"] = np.nan  # ncu collected only the counter
    summary = summarise(with_occupancy(table, LIMITS))
    assert summary.achieved is not None
    assert (summary.achieved.mean, summary.achieved.time_mean, summary.achieved.max) == pytest.approx((0.3, 0.25, 0.4))
    assert summary.launches == 2


def _launches(blocks: int, kernel: str) -> pd.DataFrame:
    return kernel_table(
        gpu=["H100"],
        kernel=[kernel],
        **dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1),
        grid_x=[blocks],
        block_x=[256],
        registers_per_thread=[32],
        shared_memory=[0],
        duration=[1e-3],
    )


def test_a_grid_that_leaves_sms_idle_is_advised_on() -> None:
    (sentence,) = advice(with_occupancy(_launches(48, "matmul"), LIMITS))
    assert sentence == (
        "grids are too small for 100 % of the GPU time: the busiest such kernel launches 48 blocks for 132 SMs,"
        " which leaves 84 idle, where 1056 fit at once; a larger batch makes more blocks"
    )


@pytest.mark.parametrize(("blocks", "kernel"), [(5000, "matmul"), (8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")])
def test_no_advice_where_the_gpu_is_full_or_a_collective_runs(blocks: int, kernel: str) -> None:
    assert list(advice(with_occupancy(_launches(blocks, kernel), LIMITS))) == []


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt"),
        ("void at::native::(anonymous namespace)::softmax<4, at::native::Add>(int)", "softmax<4, Add>(int)"),
        ("void cutlass::Kernel<a_very_long_name_of_a_tile_128x128_32x3_nn_align4>", "cutlass::Kernel…32x3_nn_align4>"),
    ],
)
def test_both_ends_of_a_name_stay(name: str, short: str) -> None:
    assert short_name(name, 31) == short


@given(st.text(max_size=200), st.integers(5, 80))
def test_no_name_is_longer_than_asked_for(name: str, length: int) -> None:
    assert len(short_name(name, length)) <= length
