import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.regressor import InputError, Profile
from epochcast.regressor.profile import METRICS, RATIOS, STATISTICS


def test_statistics_are_those_of_pandas() -> None:
    rng = np.random.default_rng(1)
    time = np.arange(0, 30, 0.1)
    power = rng.uniform(50, 70, time.size)
    power[::3] = np.nan
    profile = Profile.from_samples("T4", time, {"power": power}, [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)])
    series = pd.Series(power[time >= 10])
    expected = series.describe()
    values = profile.metrics["power"]
    assert [values[name] for name in ("mean", "std", "min", "p25", "p50", "p75", "max")] == pytest.approx(
        expected[["mean", "std", "min", "25%", "50%", "75%", "max"]].tolist()
    )
    assert profile.epochs == 2 and profile.first_epoch_excluded and profile.epoch_s == pytest.approx(10.0)


def test_gaps_between_spans_do_not_count() -> None:
    time = np.arange(0, 10, 0.5)
    busy = np.where((time >= 2) & (time < 4), 0.9, 0.1)
    profile = Profile.from_samples("T4", time, {"gpu_utilization": busy}, [(2.0, 4.0)])
    assert profile.metrics["gpu_utilization"]["min"] == 0.9
    assert profile.epochs == 1 and not profile.first_epoch_excluded


def test_one_missed_boundary_does_not_move_the_epoch() -> None:
    time = np.arange(0, 70, 0.1)
    spans = [(0.0, 12.0), (12.0, 22.0), (22.0, 32.0), (32.0, 52.0), (52.0, 62.0)]
    assert Profile.from_samples("T4", time, {}, spans).epoch_s == pytest.approx(10.0)
    assert Profile.from_samples("T4", time, {}, spans, exclude_first=False).epochs == 5


def test_without_spans_the_whole_trace_is_summarised() -> None:
    profile = Profile.from_samples("T4", [0.0, 1.0, 2.0], {"sm_active": [0.1, 0.2, 0.3]}, [])
    assert profile.epoch_s is None and profile.unit is None and profile.epochs == 0
    assert profile.metrics["sm_active"]["mean"] == pytest.approx(0.2)
    assert profile.feature_set == "dcgm"


def test_columns_that_are_no_gpu_metric_or_have_no_reading_stay_out() -> None:
    profile = Profile.from_samples("T4", [0.0, 1.0], {"load": [1.0, 2.0], "power": [np.nan, np.nan]}, [])
    assert profile.metrics == {} and profile.feature_set == "none"


def test_one_reading_has_no_spread() -> None:
    profile = Profile.from_samples("T4", [0.0, 1.0], {"power": [50.0, np.nan]}, [])
    assert profile.metrics["power"]["std"] == 0.0


@pytest.mark.parametrize(
    ("time", "metrics", "spans", "message"),
    [
        ([], {}, [], "give at least one sample"),
        ([0.0, 1.0], {"power": [1.0]}, [], r"has shape \(1,\) but time has \(2,\)"),
        ([0.0, 1.0], {}, [(1.0, 1.0)], "does not last above 0 seconds"),
        ([0.0, 1.0], {}, [(5.0, 6.0)], "no sample lies inside"),
        ([0.0, 1.0], {"gpu_utilization": [50.0, 90.0]}, [], "divide percents by 100"),
    ],
)
def test_bad_samples(
    time: list[float], metrics: dict[str, list[float]], spans: list[tuple[float, float]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Profile.from_samples("T4", time, metrics, spans)


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=40),
    st.booleans(),
)
def test_json_round_trip(readings: list[float], simulated: bool) -> None:
    time = np.arange(len(readings), dtype=float)
    profile = Profile.from_samples("T4", time, {"gpu_utilization": readings}, [(0.0, 1.5), (1.5, 3.0)], simulated=simulated)
    assert Profile.from_json(json.loads(json.dumps(profile.to_json()))) == profile


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "epochcast.profile/v9"}, "schema is 'epochcast.profile/v9'"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"gpu": ""}, "gpu is ''"),
        ({"epoch_s": 0.0}, "epoch_s is 0.0; it must be a number of seconds above 0"),
        ({"epoch_s": -3.0}, "epoch_s is -3.0"),
        ({"epoch_s": float("nan")}, "epoch_s is nan"),
        ({"epoch_s": "10"}, "epoch_s is '10'"),
        ({"epoch_s": None}, "give both"),
        ({"unit": "lap"}, "unit 'lap'"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"feature_set": "all"}, "feature_set is 'all'"),
        ({"simulated": "no"}, "simulated is 'no'"),
        ({"workload": 3}, "workload is 3"),
        ({"metrics": []}, "metrics are"),
        ({"metrics": {"gpu_utilisation": {}}}, "unknown metric 'gpu_utilisation' .* did you mean 'gpu_utilization'"),
        ({"metrics": {"power": {"mean": 1.0}}}, "needs exactly mean, std"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, float("nan"))}}, "must be a finite number"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 1.0) | {"min": 2.0}}}, "contradict each other"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 1.0) | {"p75": 0.5}}}, "contradict each other"),
        ({"metrics": {"gpu_utilization": dict.fromkeys(STATISTICS, 0.5) | {"mean": -7.0}}}, "contradict each other"),
        ({"metrics": {"gpu_utilization": dict.fromkeys(STATISTICS, 0.5) | {"mean": 50.0}}}, "contradict each other"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, -1.0)}}, "min of 'power' is -1.0"),
        ({"metrics": {"sm_clock": dict.fromkeys(STATISTICS, 1328.0)}}, "multiply MHz by 1e6"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 10**400)}}, "must be a finite number"),
        ({"epoch_s": 10**400}, "it must be a number of seconds above 0"),
        ({"metrics": {"sm_active": dict.fromkeys(STATISTICS, 93.0)}}, "divide percents by 100"),
    ],
)
def test_bad_json(make_profile: Callable[..., Profile], change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Profile.from_json(make_profile().to_json() | change)


def test_json_that_is_no_profile(make_profile: Callable[..., Profile]) -> None:
    with pytest.raises(InputError, match="a profile is a JSON object, not list"):
        Profile.from_json([])
    incomplete = make_profile().to_json()
    del incomplete["gpu"]
    with pytest.raises(InputError, match="the profile lacks gpu"):
        Profile.from_json(incomplete)


def test_metric_names_and_units_are_those_of_the_metric_catalogue() -> None:
    path = Path(__file__).parents[2] / "agent" / "metrics.toml"
    if not path.is_file():
        pytest.skip("agent/metrics.toml is not there")
    tables = tomllib.loads(path.read_text())
    entries = tables.get("metric") or tables.get("metrics") or tables
    rows = {row["name"]: row for row in entries} if isinstance(entries, list) else entries
    assert set(rows) >= METRICS
    assert all(rows[name]["unit"] == "ratio" for name in RATIOS)
