"""Curves of what sharing costs: the assumed ones by hand, the measured one on a made recording."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.slowdown import (
    ASSUMED,
    FIG7_ANCHORS,
    MeasuredSlowdown,
    fig7,
    none,
    total_rate,
    utilisation,
)
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.gpu_scripts.occupancy_bench import read_colocation


@pytest.mark.parametrize("curve", ASSUMED)
def test_a_job_alone_is_not_slowed_down(curve: str) -> None:
    assert list(ASSUMED[curve]([job(occupancy=1.0, nvml_utilisation=1.0)])) == [1.0]
    assert list(ASSUMED[curve]([])) == []


@pytest.mark.parametrize(
    ("occupancies", "slowdown"),
    [((0.0, 0.0), 1.10), ((0.2, 0.3), 1.15), ((0.5, 0.5), 1.20), ((0.6, 0.65), 1.40), ((0.7, 0.8), 1.60), ((0.9, 0.9), 1.84)],
)
def test_fig7_by_hand(occupancies: tuple[float, float], slowdown: float) -> None:
    assert fig7([job(occupancy=each) for each in occupancies]) == pytest.approx([slowdown, slowdown])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.floats(0, 1))
def test_fig7_rises_and_fits_no_more_than_all_warps(occupancies: list[float], more: float) -> None:
    jobs = [job(occupancy=each) for each in occupancies]
    slowdown = fig7(jobs)[0]
    assert slowdown >= FIG7_ANCHORS[0][1]
    assert fig7([*jobs, job(occupancy=more)])[0] >= slowdown - 1e-12
    assert sum(occupancies) / slowdown <= 1 + 1e-9


def test_taking_turns_by_hand() -> None:
    jobs = [job(nvml_utilisation=each) for each in (0.5, 0.4)]
    assert utilisation(jobs) == [1.0, 1.0]
    jobs.append(job(nvml_utilisation=0.6))
    assert utilisation(jobs) == pytest.approx([1.5] * 3)
    assert total_rate(utilisation, jobs) == pytest.approx(2.0)
    assert total_rate(none, jobs) == 3


def recorded(path: Path, pairs: int = 60, seed: int = 0) -> pd.DataFrame:
    """A colocation.csv whose slowdowns are 1 + 0.8 x cumulative occupancy, and one row that failed."""
    rng = np.random.default_rng(seed)
    own, other = rng.uniform(5, 90, (2, pairs))
    rate = 1 + 0.8 * (own + other) / 100
    table = pd.DataFrame(
        {
            "key_a": [f"resnet18/b{number}" for number in range(pairs)],
            "key_b": [f"bert/b{number}" for number in range(pairs)],
            "status": "ok",
            "reason": "",
            "rate_slowdown_a": rate,
            "rate_slowdown_b": rate,
            "mean_grid_a": own,
            "mean_grid_b": other,
            "nvml_util_alone_a": 90.0,
            "nvml_util_alone_b": np.nan,
        }
    )
    failed = table.iloc[:1].assign(status="oom", rate_slowdown_a=np.nan, rate_slowdown_b=np.nan)
    pd.concat([table, failed]).to_csv(path, index=False)
    return table


def test_a_recording_is_read_from_both_sides(tmp_path: Path) -> None:
    table = recorded(tmp_path / "colocation.csv")
    views = read_colocation(tmp_path / "colocation.csv")
    assert len(views) == 2 * len(table)
    first = views[views["job"] == "bert/b0"].iloc[0]
    assert first["other"] == "resnet18/b0"
    assert first["occupancy"] == pytest.approx(table["mean_grid_b"][0] / 100)
    assert first["other_occupancy"] == pytest.approx(table["mean_grid_a"][0] / 100)
    assert first["slowdown"] == pytest.approx(table["rate_slowdown_b"][0])
    assert first["other_nvml_utilisation"] == pytest.approx(0.9)
    assert np.isnan(first["nvml_utilisation"])


def test_the_measured_curve_goes_through_what_was_measured(tmp_path: Path) -> None:
    recorded(tmp_path / "colocation.csv")
    curve = MeasuredSlowdown.fit(read_colocation(tmp_path / "colocation.csv"))
    assert curve([job()]) == [1.0]
    for cumulative in (0.4, 0.8, 1.2):
        pair = [job(occupancy=cumulative / 4), job(occupancy=3 * cumulative / 4)]
        assert list(curve(pair)) == pytest.approx([1 + 0.8 * cumulative] * 2, abs=0.05)
    assert curve([job(occupancy=1.0), job(occupancy=1.0)])[0] == pytest.approx(curve.slowdown[-1])  # flat beyond the ends


def test_the_measured_curve_neither_falls_nor_is_below_one() -> None:
    pairs = pd.DataFrame({"occupancy": [0.1, 0.2, 0.3, 0.4], "other_occupancy": 0.1, "slowdown": [0.9, 1.2, 1.1, 1.5]})
    curve = MeasuredSlowdown.fit(pairs)
    assert [curve.of_pair(cumulative) for cumulative in (0.2, 0.3, 0.4, 0.5)] == pytest.approx([1.0, 1.15, 1.15, 1.5])


def test_three_that_take_turns_take_three_times_as_long() -> None:
    turns = MeasuredSlowdown(np.array([0.0, 2.0]), np.array([2.0, 2.0]))
    assert list(turns([job()])) == [1.0]
    assert list(turns([job()] * 2)) == [2.0] * 2
    assert list(turns([job("a"), job("b"), job("c")])) == [3.0] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(columns="rate_slowdown_b"), "lacks the column 'rate_slowdown_b'"),
        (lambda table: table.head(9), "9 pairs of .* ran; a curve takes 10"),
        (lambda table: table.assign(rate_slowdown_a="fast"), "0 pairs of .* ran"),
    ],
)
def test_recordings_that_make_no_curve(tmp_path: Path, change: object, message: str) -> None:
    path = tmp_path / "colocation.csv"
    change(recorded(path)).to_csv(path, index=False)  # type: ignore[operator]
    with pytest.raises(InputError, match=message):
        read_colocation(path)


def test_no_recording(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_colocation(tmp_path / "colocation.csv")
