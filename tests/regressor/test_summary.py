"""From samples to a profile: which epochs count, how sure their length is, and the statistics over them."""

import numpy as np
import pandas as pd
import pytest

from epochcast.regressor import InputError
from epochcast.regressor.profile import STATISTICS
from epochcast.regressor.profile_json import profile_json, read_profile
from epochcast.regressor.summary import summarise, too_long

Spans = list[tuple[float, float]]


def _spans(lengths: list[float]) -> Spans:
    ends = np.cumsum(lengths)
    return list(zip((ends - lengths).tolist(), ends.tolist(), strict=True))


def _time(spans: Spans, step: float = 0.1) -> np.ndarray:
    return np.arange(0.0, spans[-1][1], step)


def test_statistics_are_those_of_pandas() -> None:
    rng = np.random.default_rng(1)
    time = np.arange(0, 30, 0.1)
    power = rng.uniform(50, 70, time.size)
    power[::3] = np.nan
    profile = summarise("T4", time, {"power": power}, [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)])
    expected = pd.Series(power[time >= 10]).describe()
    assert [profile.metrics["power"][name] for name in STATISTICS] == pytest.approx(
        expected[["mean", "std", "min", "25%", "50%", "75%", "max"]].tolist()
    )
    assert profile.epochs == 2 and profile.first_epoch_excluded and profile.epoch_s == pytest.approx(10.0)


def test_gaps_between_spans_do_not_count() -> None:
    time = np.arange(0, 10, 0.5)
    busy = np.where((time >= 2) & (time < 4), 0.9, 0.1)
    profile = summarise("T4", time, {"gpu_utilization": busy}, [(2.0, 4.0)])
    assert profile.metrics["gpu_utilization"]["min"] == 0.9
    assert profile.epochs == 1 and not profile.first_epoch_excluded
    assert profile.epoch_s_low is None and profile.epoch_s_high is None and profile.first_epoch_s is None


def test_the_first_epoch_is_left_out_and_kept_beside() -> None:
    spans = _spans([14.0, 10.0, 10.0, 10.2])
    profile = summarise("T4", _time(spans), {}, spans)
    assert (profile.first_epoch_s, profile.epochs, profile.epoch_s) == (14.0, 3, pytest.approx(10.0))
    whole = summarise("T4", _time(spans), {}, spans, exclude_first=False)
    assert (whole.first_epoch_s, whole.epochs, whole.first_epoch_excluded) == (None, 4, False)


def test_a_stall_is_left_out_of_lengths_and_metrics_and_counted() -> None:
    spans = _spans([12.0, 10.0, 10.1, 25.0, 9.9, 10.0, 10.0])
    time = _time(spans)
    stalled = (time >= spans[3][0]) & (time < spans[3][1])
    profile = summarise("T4", time, {"gpu_utilization": np.where(stalled, 0.1, 0.9)}, spans)
    assert (profile.stalls, profile.epochs) == (1, 5)
    assert profile.stall_s == pytest.approx(15.0) and profile.epoch_s == pytest.approx(10.0)
    assert profile.metrics["gpu_utilization"]["min"] == 0.9


def test_a_long_epoch_with_a_hole_in_the_samples_is_neither_epoch_nor_stall() -> None:
    spans = _spans([12.0, 10.0, 10.1, 20.0, 9.9, 10.0, 10.0])
    time = _time(spans)
    watched = time[(time < spans[3][0] + 8) | (time > spans[3][0] + 12)]
    profile = summarise("T4", watched, {}, spans)
    assert (profile.stalls, profile.stall_s, profile.epochs) == (0, 0.0, 5)


@pytest.mark.parametrize(
    ("lengths", "long"),
    [
        ([10.0], []),
        ([10.0, 10.0, 14.9], []),  # not half as long again
        ([10.0, 10.0, 15.1], [2]),
        ([8.0, 10.0, 12.0, 9.0, 11.0, 17.0], []),  # half as long again, but so uneven that it may be one of them
        ([10.0, 10.0, 20.0, 20.0], []),  # half of all: this is how the job goes
        ([10.0] * 6 + [20.0] * 4, []),  # two in five are no exception either
        ([10.0, 10.0, 20.0, 20.0, 10.0, 10.0], [2, 3]),
    ],
)
def test_what_counts_as_too_long(lengths: list[float], long: list[int]) -> None:
    assert np.flatnonzero(too_long(np.array(lengths))).tolist() == long


def test_the_interval_holds_the_true_epoch_nine_times_in_ten() -> None:
    """Student's interval at its level for normal epochs; the true length is that of the distribution, not of the sample."""
    rng = np.random.default_rng(4)
    for count in (4, 8, 20):
        hits = 0
        for _ in range(400):
            spans = _spans([10.0, *np.maximum(rng.normal(10, 0.5, count), 0.1)])
            profile = summarise("T4", _time(spans), {}, spans)
            assert profile.epoch_s_low is not None and profile.epoch_s_high is not None
            hits += profile.epoch_s_low <= 10 <= profile.epoch_s_high
        assert 0.86 <= hits / 400 <= 0.97


def test_even_epochs_are_known_to_a_sample() -> None:
    spans = _spans([10.0] * 5)
    profile = summarise("T4", _time(spans, 0.5), {}, spans)
    assert profile.epoch_s_high == pytest.approx(10.5) and profile.epoch_s_low == pytest.approx(10 / 1.05)


def test_without_spans_the_whole_trace_is_summarised() -> None:
    profile = summarise("T4", [0.0, 1.0, 2.0], {"sm_active": [0.1, 0.2, 0.3]}, [])
    assert profile.epoch_s is None and profile.unit is None and profile.epochs == 0
    assert profile.metrics["sm_active"]["mean"] == pytest.approx(0.2)
    assert profile.feature_set == "dcgm"


def test_columns_that_are_no_gpu_metric_or_have_no_reading_stay_out() -> None:
    profile = summarise("T4", [0.0, 1.0], {"load": [1.0, 2.0], "power": [np.nan, np.nan]}, [])
    assert profile.metrics == {} and profile.feature_set == "none"


def test_reasons_of_reduced_clocks_are_means_over_the_epochs() -> None:
    """Read once a second, and only in the spans; a reason without a reading is not there, and a hair above 1 is 1."""
    time = np.arange(0.0, 4.0, 0.5)
    nan = np.nan
    columns = {
        "throttled_power_cap": [0.9, nan, 0.2, nan, 0.4, nan, 0.9, nan],
        "throttled_thermal": [0.0, nan, 0.0, nan, 0.0, nan, 0.5, nan],
        "throttled_clock_setting": [nan, nan, 1.01, nan, 1.0, nan, nan, nan],
        "throttled_reliability": [0.5, nan, nan, nan, nan, nan, 0.5, nan],
    }
    profile = summarise("T4", time, columns, [(1.0, 2.0), (2.0, 3.0)], exclude_first=False)
    assert profile.throttled == {"power_cap": pytest.approx(0.3), "thermal": 0.0, "clock_setting": 1.0}
    assert read_profile(profile_json(profile)) == profile
    assert summarise("T4", time, {"sm_clock": np.full(8, 1e9)}, []).throttled is None


def test_one_reading_has_no_spread() -> None:
    assert summarise("T4", [0.0, 1.0], {"power": [50.0, np.nan]}, []).metrics["power"]["std"] == 0.0


@pytest.mark.parametrize(
    ("time", "metrics", "spans", "message"),
    [
        ([0.0, 1.0], {}, [(5.0, 6.0)], "no sample is inside"),
        ([0.0, 1.0], {"gpu_utilization": [50.0, 90.0]}, [], "divide percents by 100"),
    ],
)
def test_bad_samples(time: list[float], metrics: dict[str, list[float]], spans: Spans, message: str) -> None:
    with pytest.raises(InputError, match=message):
        summarise("T4", time, metrics, spans)
