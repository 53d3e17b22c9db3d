"""Occupancy and NVML utilisation over time, against a walk through time tick by tick."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_by_capability
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table, with_occupancy
from epochcast.analyzer.backends.occupancy.launch.timeline import (
    OccupancyTimeline,
    timeline,
    timelines,
)

TICK = 1e-5
NAN = math.nan


def rows_of(*launches: tuple[float, float, float], tick: float = 1.0, **columns: Any) -> pd.DataFrame:
    """Rows of launches that start and last so many ticks, of this occupancy."""
    begins, durations, occupancies = zip(*launches, strict=True) if launches else ((), (), ())
    table = kernel_table(kernel=["k"] * len(launches), start=begins, duration=durations, **columns)
    return table.assign(start=table["start"] * tick, duration=table["duration"] * tick, grid=occupancies)


def tick_by_tick(launches: list[tuple[int, int, float]], edges: list[int]) -> list[tuple[float, float, float, float]]:
    """Utilisation, unknown share, occupancy, and occupancy while busy, of bins between whole ticks."""
    bins = []
    for first, last in pairwise(edges):
        busy = unknown = known_ticks = 0
        filled = 0.0
        for now in range(first, last):
            running = [occupancy for begin, ticks, occupancy in launches if begin <= now < begin + ticks]
            known = [occupancy for occupancy in running if not math.isnan(occupancy)]
            busy += bool(running)
            unknown += bool(running) and not known
            known_ticks += bool(known)
            filled += min(1.0, sum(known))
        ticks = last - first
        rest = ticks - unknown
        bins.append(
            (busy / ticks, unknown / ticks, filled / rest if rest else NAN, filled / known_ticks if known_ticks else NAN)
        )
    return bins


def figures(result: OccupancyTimeline) -> list[tuple[float, ...]]:
    return list(zip(result.utilisation, result.unknown, result.occupancy, result.busy_occupancy, strict=True))


LAUNCHES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15), st.sampled_from([0.0, 0.03125, 0.3, 0.75, 1.0, NAN])), max_size=12
)


@settings(max_examples=30, deadline=None)
@given(launches=LAUNCHES, inner=st.sets(st.integers(1, 59), max_size=8), order=st.randoms())
def test_agrees_with_a_walk_tick_by_tick(launches: list[tuple[int, int, float]], inner: set[int], order: Any) -> None:
    edges = [0, *sorted(inner), 60]
    expected = tick_by_tick(launches, edges)
    order.shuffle(launches)
    result = timeline(rows_of(*launches, tick=TICK), TICK * np.array(edges))
    for ours, plain in zip(figures(result), expected, strict=True):
        assert ours == pytest.approx(plain, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("launches", "expected"),
    [
        ([(0, 10, 0.25)], (1, 0, 0.25, 0.25)),
        ([(0, 5, 0.25)], (0.5, 0, 0.125, 0.25)),
        ([(0, 5, 0.25), (0, 5, 0.5)], (0.5, 0, 0.375, 0.75)),  # side by side: a union of times, a sum of warps
        ([(0, 5, 0.75), (0, 5, 0.75)], (0.5, 0, 0.5, 1)),
        ([(0, 4, 0.5), (6, 4, NAN)], (0.8, 0.4, 0.2 / 0.6, 0.5)),
        ([(0, 5, 0.5), (0, 10, NAN)], (1, 0.5, 0.5, 0.5)),
        ([(0, 10, NAN)], (1, 1, NAN, NAN)),
        ([(3, 0, 0.5)], (0, 0, 0, NAN)),
        ([(20, 5, 0.5)], (0, 0, 0, NAN)),
        ([(-10, 40, 0.5)], (1, 0, 0.5, 0.5)),
        ([(0, NAN, 0.5), (NAN, 5, 0.5)], (0, 0, 0, NAN)),
        ([], (0, 0, 0, NAN)),
    ],
)
def test_one_bin_of_ten_ticks(launches: list[tuple[float, float, float]], expected: tuple[float, ...]) -> None:
    (result,) = figures(timeline(rows_of(*launches), np.array([0.0, 10.0])))
    assert result == pytest.approx(expected, nan_ok=True)


def test_bins_sum_to_the_whole() -> None:
    rng = np.random.default_rng(0)
    begins = np.cumsum(rng.uniform(1e-6, 3e-4, 5000))
    rows = rows_of(*zip(begins, rng.uniform(1e-6, 2e-4, 5000), rng.uniform(0, 1, 5000), strict=True))
    (whole,), (parts,) = timelines(rows).values(), timelines(rows, bins=61).values()
    assert np.average(parts.utilisation) == pytest.approx(whole.utilisation[0])
    assert np.average(parts.occupancy) == pytest.approx(whole.occupancy[0])
    assert parts.edges.shape == (62,) and parts.seconds == pytest.approx(whole.seconds)
    assert ((parts.occupancy >= 0) & (parts.occupancy <= parts.utilisation + 1e-12)).all()


def test_occupancy_is_what_the_launch_configuration_says() -> None:
    """H100: 66 blocks of 8 warps on 132 SMs that hold 64 each are 1/16, for half of the time."""
    sizes = {**dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1), "registers_per_thread": 32, "shared_memory": 0}
    table = kernel_table(kernel=["a", "b"], gpu="H100", grid_x=66, block_x=256, **sizes, start=[0, 3e-3], duration=1e-3)
    rows = with_occupancy(table, {"H100": limits_by_capability("H100", 9.0, 132)})
    (whole,) = timelines(rows).values()
    assert whole.edges == pytest.approx([0, 4e-3])
    (result,) = figures(whole)
    assert result == pytest.approx((0.5, 0, 1 / 32, 1 / 16))


def test_each_gpu_has_its_own() -> None:
    rows = rows_of((0, 4, 0.5), (0, 2, 1.0), (2, 2, 0.25), device=[0, 1, NAN], gpu="H100")
    result = timelines(rows, bins=2)
    assert {device: line.occupancy.tolist() for device, line in result.items()} == {
        ("H100", 0): [0.5, 0.5],
        ("H100", 1): [1.0, 0.0],
        ("H100", None): [0.0, 0.25],
    }


def test_formats_without_times_have_no_timeline() -> None:
    assert timelines(kernel_table(kernel=["a"], duration=1.0).assign(grid=0.5)) == {}
    assert timelines(rows_of((0, NAN, 0.5), (1, 0, 0.5))) == {}
    (result,) = timelines(rows_of((3, 4, 0.5), (1, 1, NAN))).values()
    assert result.edges.tolist() == [1, 7]


RECORDED = (  # microseconds of 1621401187 s at which kernels began, and how many they took
    *((225275, 3), (225530, 2), (225820, 1), (226325, 2), (226575, 2), (226912, 1), (227092, 2), (227619, 1), (227745, 1)),
    *((227859, 1), (227973, 1), (228279, 1), (228962, 1), (229153, 2), (229711, 4), (230162, 1), (231100, 3), (231692, 2)),
    *((232603, 1), (232921, 1), (233342, 1), (233770, 2), (234156, 3), (234445, 1), (235025, 3), (235555, 1), (236158, 1)),
    *((236278, 1), (236390, 1), (236501, 1)),
)


def test_utilisation_is_what_tensorboards_profiler_plugin_finds_in_a_real_trace() -> None:
    """The V100 of Kineto's tb_plugin/test/gpu_metrics_input.json, and what its own test says of the buckets, 100 times that."""
    rows = rows_of(*((begin, microseconds, 0.01) for begin, microseconds in RECORDED))
    edges = np.array([*range(223005, 236005, 1000), 236901], dtype=float)
    theirs = [0.0, 0.0, 0.6, 0.5, 0.6, 0.2, 0.6, 0.1, 0.5, 0.2, 0.3, 0.4, 0.4219409282700422]
    assert 100 * timeline(rows, edges).utilisation == pytest.approx(theirs)
