import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.regressor import InputError, Profile
from epochcast.regressor.profile import METRICS, RATIOS, STATISTICS
from epochcast.regressor.profile_json import profile_json, read_profile
from epochcast.regressor.summary import summarise


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=40),
    st.booleans(),
)
def test_json_round_trip(readings: list[float], simulated: bool) -> None:
    time = np.arange(len(readings), dtype=float)
    profile = summarise("T4", time, {"gpu_utilization": readings}, [(0.0, 1.5), (1.5, 3.0)], simulated=simulated)
    assert read_profile(json.loads(json.dumps(profile_json(profile)))) == profile


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "epochcast.profile/v9"}, "schema is 'epochcast.profile/v9'"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"gpu": ""}, "gpu is ''"),
        ({"gpu": "A" * 201}, "at most 200 characters"),
        ({"precision": "int8"}, "precision is 'int8'; input should be 'fp32', 'tf32', 'mixed' or 'fp8'"),
        ({"throttled": {"power_cap": 1.2}}, "throttled.power_cap is 1.2; input should be less than or equal to 1"),
        ({"throttled": {"fan": 0.2}}, "throttled.fan is 'fan'; input should be 'power_cap', "),
        ({"tensor_clock": "1 GHz"}, "tensor_clock is '1 GHz'; input should be a valid number"),
        ({"batch": 0}, "batch is 0; input should be greater than 0"),
        ({"epoch_s": 0.0}, "epoch_s is 0.0; input should be greater than"),
        ({"epoch_s": float("nan")}, "epoch_s is nan"),
        ({"epoch_s": None}, "give both"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"workload": 3}, "workload is 3"),
        ({"epoch_s_low": 9.0}, "epoch_s_low and epoch_s_high are 9.0 and None around epoch_s 10.0"),
        ({"epoch_s_low": 10.5, "epoch_s_high": 11.0}, "give 0 < low <= epoch_s <= high"),
        ({"epoch_s": None, "unit": None, "epoch_s_low": 9.0, "epoch_s_high": 11.0}, "around epoch_s None"),
        ({"stalls": True, "stall_s": 1.0}, "stalls is True"),
        ({"stalls": 1}, "has 1 stalls and stall_s 0.0"),
        ({"metrics": []}, "metrics is \\[\\]; input should be an object"),
        ({"metrics": {"gpu_utilisation": {}}}, "unknown metric 'gpu_utilisation' .* did you mean 'gpu_utilization'"),
        ({"metrics": {"power": {"mean": 1.0}}}, "needs exactly mean, std"),
        (
            {"metrics": {"power": dict.fromkeys(STATISTICS, float("nan"))}},
            "metrics.power.mean is nan; input should be a finite number",
        ),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 1.0) | {"min": 2.0}}}, "contradict each other"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 1.0) | {"p75": 0.5}}}, "contradict each other"),
        ({"metrics": {"gpu_utilization": dict.fromkeys(STATISTICS, 0.5) | {"mean": -7.0}}}, "contradict each other"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, -1.0)}}, "min of 'power' is -1.0"),
        ({"metrics": {"sm_clock": dict.fromkeys(STATISTICS, 1328.0)}}, "multiply MHz by 1e6"),
        ({"metrics": {"power": dict.fromkeys(STATISTICS, 43_800.0)}}, "divide mW by 1000"),
        (
            {"metrics": {"power": dict.fromkeys(STATISTICS, 10**400)}},
            "metrics.power.mean is .*; input should be a finite number",
        ),
        ({"epoch_s": 10**400}, "epoch_s is .*; input should be a finite number"),
        (
            {"metrics": {"power": dict.fromkeys(STATISTICS, 1e200)}},
            "power' is 1e\\+200; it must be a finite number, at most 1e",
        ),
        ({"stalls": 10**400, "stall_s": 1.0}, "stalls is 1000"),
        ({"metrics": {"sm_active": dict.fromkeys(STATISTICS, 93.0)}}, "divide percents by 100"),
    ],
)
def test_bad_json(make_profile: Callable[..., Profile], change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_profile(profile_json(make_profile()) | change)


def test_what_older_profiles_do_not_have_stays_out_of_the_json(make_profile: Callable[..., Profile]) -> None:
    """Fingerprints of shipped models are of this JSON."""
    new = {"tensor_clock": 1e9, "throttled": {"power_cap": 0.1}, "held_idle_s": 3.0}
    assert not new.keys() & profile_json(make_profile()).keys()
    assert read_profile(profile_json(make_profile(**new))) == make_profile(**new)


def test_json_that_is_no_profile(make_profile: Callable[..., Profile]) -> None:
    with pytest.raises(InputError, match="a profile is a JSON object, not list"):
        read_profile([])
    incomplete = profile_json(make_profile())
    del incomplete["gpu"]
    with pytest.raises(InputError, match="the profile lacks gpu"):
        read_profile(incomplete)


def test_metric_names_and_units_are_those_of_the_metric_catalogue() -> None:
    path = Path(__file__).parents[2] / "agent" / "metrics.toml"
    if not path.is_file():
        pytest.skip("agent/metrics.toml is not there")
    tables = tomllib.loads(path.read_text())
    entries = tables.get("metric") or tables.get("metrics") or tables
    rows = {row["name"]: row for row in entries} if isinstance(entries, list) else entries
    assert set(rows) >= METRICS
    assert all(rows[name]["unit"] == "ratio" for name in RATIOS)


def test_a_feature_set_that_the_metrics_are_not_of_is_refused(make_profile: Callable[..., Profile]) -> None:
    with pytest.raises(InputError, match="has feature_set 'dcgm', but its metrics are 'nvml'"):
        read_profile(profile_json(make_profile()) | {"feature_set": "dcgm"})
