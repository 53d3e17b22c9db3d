"""Sums over a kernel table, against loops over single launches."""

import math
import random
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_by_capability
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table, summarise, with_occupancy

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


def test_rows_without_occupancy_are_told_by_reason_and_left_out_of_the_means() -> None:
    good = _random_table(0, rows=4, gpu="H100", count=1)
    bad = _random_table(1, rows=4, gpu=["H100", "H100", "nobody's", "H100"], count=[2, 3, 5, 7])
    bad.loc[0, "registers_per_thread"] = np.nan
    bad.loc[1, "grid_x"] = 0
    bad.loc[3, "block_x"] = 2000
    rows = with_occupancy(pd.concat([good, bad], ignore_index=True), LIMITS)
    assert list(rows["skipped"][4:]) == [
        "no_launch_configuration",
        "no_launch_configuration",
        "gpu_not_known",
        "impossible_launch",
    ]
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
