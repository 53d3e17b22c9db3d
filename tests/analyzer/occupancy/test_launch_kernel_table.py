"""Sums over a kernel table, against loops over single launches."""

import random
from collections import defaultdict

import pandas as pd
import pytest
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import limits_by_capability
from lab.kernels.kernel_table import kernel_table, summarise, with_occupancy

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
