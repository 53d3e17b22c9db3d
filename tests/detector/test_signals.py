"""Cleaning what a caller hands in, and the two clocks."""

import numpy as np
import pytest

from epochcast.detector import InputError, clock, signals

TIME = 1.7e9 + 0.1 * np.arange(50)


def test_what_the_machine_used_gives_way_to_what_the_job_used() -> None:
    metrics = {
        "cpu_utilization": [1.0, 1.0],
        "process_cpu_utilization": [0.0, 1.0],
        "rss": [1.0, 2.0],
        "sm_active": [0.0, 1.0],
        "ofu": [0.0, 0.5],
        "throttled_power_cap": [0.0, 0.5],
    }
    assert list(signals.clean([0.0, 1.0], metrics).select(None).metrics) == ["process_cpu_utilization", "rss", "sm_active"]


def test_readings_are_carried_forward_and_the_first_one_back() -> None:
    values = np.full(50, np.nan)
    values[10], values[30] = 3.0, 5.0
    cleaned = signals.clean(TIME, {"sm_clock": values, "empty": np.full(50, np.nan)})
    assert list(cleaned.metrics) == ["sm_clock"]
    assert cleaned.metrics["sm_clock"].tolist() == [3.0] * 30 + [5.0] * 20


def test_counters_become_rates() -> None:
    watts = np.linspace(100, 200, 50)
    joules = np.concatenate([[0.0], np.cumsum(watts[1:] * np.diff(TIME))])
    cleaned = signals.clean(TIME, {"energy": joules, "made_up_total": joules, "dram_active": np.sin(np.arange(50.0))})
    assert np.allclose(cleaned.metrics["energy"][1:], watts[1:])
    assert np.allclose(cleaned.metrics["made_up_total"][1:], watts[1:])
    assert np.array_equal(cleaned.metrics["dram_active"], np.sin(np.arange(50.0)))


def test_a_counter_read_once_a_second_has_its_rate_held() -> None:
    watts = np.repeat([100.0, 200.0, 50.0, 300.0, 150.0], 10)
    joules = np.concatenate([[0.0], np.cumsum(watts[1:] * np.diff(TIME))])
    joules[np.arange(50) % 10 != 9] = np.nan
    cleaned = signals.clean(TIME, {"energy": joules})
    assert np.allclose(cleaned.metrics["energy"], [200.0] * 29 + [50.0] * 10 + [300.0] * 10 + [150.0])
    assert cleaned.intervals["energy"] == pytest.approx(1.0)
    joules[20:] = np.nan
    joules[:10] = np.nan
    assert not signals.clean(TIME, {"energy": joules}).metrics["energy"].any(), "of one reading nobody knows a rate"


def test_main_metric() -> None:
    levels = np.random.default_rng(0).random(50)
    assert signals.clean(TIME, {"cpu": levels, "power": levels, "dram_active": levels}).main() == "dram_active"
    assert signals.clean(TIME, {"cpu": levels, "power": levels}).main() == "power"
    assert signals.clean(TIME, {"flat": np.ones(50), "own": levels}).main() == "own"
    assert signals.clean(TIME, {"flat": np.ones(50)}).main() == "flat"


def test_work_clock_counts_activity() -> None:
    cpu = np.where(np.arange(50) < 25, 1.0, 0.5)
    works = clock.choose(signals.clean(TIME, {"cpu": cpu}))
    assert works.name == "work"
    assert works.reading[-1] == pytest.approx(24 * 0.1 + 25 * 0.05)
    assert np.allclose(works.to_wall(works.at(TIME[5:45] + 0.03)), TIME[5:45] + 0.03)


def test_work_clock_makes_a_rate_per_work_of_a_rate_per_second() -> None:
    cpu = np.where(np.arange(50) < 25, 1.0, 0.5)
    works = clock.choose(signals.clean(TIME, {"cpu": cpu}))
    readings = np.linspace(works.reading[2], works.reading[-1], 30)
    assert np.allclose(works.resample("minflt", 300 * cpu, readings), 300), "faults keep pace with the work"
    assert works.resample("rss", 300 * cpu, readings)[-1] == pytest.approx(150), "memory in use is no rate"


def test_work_clock_never_stands_still() -> None:
    cpu = np.where(np.arange(50) < 25, 1.0, 0.0)
    assert (np.diff(clock.choose(signals.clean(TIME, {"cpu": cpu})).reading) > 0).all()


@pytest.mark.parametrize(
    ("metrics", "asked", "wanted"),
    [
        (("cpu", "rss"), "auto", "work"),
        (("cpu_utilization",), "auto", "work"),
        (("cpu_utilization", "dram_active"), "auto", "wall"),
        (("power",), "auto", "wall"),
        (("own",), "auto", "wall"),
        (("sm_active",), "work", "work"),
        (("cpu",), "wall", "wall"),
    ],
)
def test_choice_of_clock(metrics: tuple[str, ...], asked: str, wanted: str) -> None:
    cleaned = signals.clean(TIME, {name: np.random.default_rng(0).random(50) for name in metrics})
    assert clock.choose(cleaned, asked).name == wanted


@pytest.mark.parametrize(
    ("time", "metrics", "words"),
    [
        (TIME[:1], {"cpu": [1.0]}, "1 sample"),
        (np.where(np.arange(50) == 7, np.nan, TIME), {"cpu": TIME}, "time holds nan at row 7"),
        (np.where(np.arange(50) == 7, np.inf, TIME), {"cpu": TIME}, "time holds inf at row 7"),
        (np.where(np.arange(50) == 49, 1e18, TIME), {"cpu": TIME}, r"time holds 1e\+18 at row 49"),
        (TIME[::-1], {"cpu": TIME}, "time goes back at row 1"),
        (np.repeat(TIME[::2], 2), {"cpu": TIME}, "time repeats at row 1"),
        (TIME, {"cpu": TIME[:-1]}, "49 values for 50 times"),
        (TIME, {"cpu": np.where(TIME[3] < TIME, np.inf, 1.0)}, "holds inf at row 4"),
        (TIME, {"cpu": np.full(50, 1e307)}, r"holds 1e\+307 at row 0"),
        (TIME, {"cpu": ["high"] * 50}, "not a number"),
        (TIME, {"cpu": np.ones((50, 2))}, "2 dimensions"),
        (np.arange(50).astype("datetime64[ns]"), {"cpu": TIME}, r"time holds datetime64\[ns\] values.*unix seconds"),
        (TIME, {"cpu": np.full(50, np.nan)}, "no metric with a reading"),
        (TIME, {}, "no metric with a reading"),
    ],
)
def test_refuses(time: np.ndarray, metrics: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        signals.clean(time, metrics)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("metrics", "name", "words"),
    [
        ({"own": TIME % 7}, "work", "needs one of"),
        ({"cpu": np.zeros(50)}, "work", "stands still"),
        ({"cpu": np.ones(50)}, "lunar", "unknown clock 'lunar'"),
    ],
)
def test_refuses_a_clock(metrics: dict[str, np.ndarray], name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        clock.choose(signals.clean(TIME, metrics), name)
