"""What is held of a job: all of it while it is short, an even sample later, no more memory ever."""

import numpy as np
import pytest

from epochcast.analyzer.live.thinned_samples import JOB_ROWS, RECENT_ROWS, ThinnedSamples
from epochcast.regressor.profile import METRICS
from epochcast.regressor.summary import summarise
from lab.simulator import SimulatedTrace, simulate


@pytest.fixture(scope="module")
def trace() -> SimulatedTrace:
    return simulate(5, epochs=60, epoch_s=30.0)


def filled(trace: SimulatedTrace, rows: int, portion: int) -> ThinnedSamples:
    samples = ThinnedSamples()
    for at in range(0, rows, portion):
        part = slice(at, min(at + portion, rows))
        samples.append(trace.time[part], {name: column[part] for name, column in trace.metrics.items() if name in METRICS})
    return samples


@pytest.mark.parametrize("rows", [1, 999, JOB_ROWS])
def test_a_short_job_is_held_as_it_came(trace: SimulatedTrace, rows: int) -> None:
    time, values = filled(trace, rows, 37).job()
    np.testing.assert_array_equal(time, trace.time[:rows])
    for name in METRICS & set(trace.metrics):
        np.testing.assert_array_equal(values[name], trace.metrics[name][:rows].astype(np.float32))


@pytest.mark.parametrize("rows", [JOB_ROWS + 1, 2 * JOB_ROWS - 1, 2 * JOB_ROWS + 1, 4 * JOB_ROWS])
def test_a_long_job_is_an_even_sample_of_itself(trace: SimulatedTrace, rows: int) -> None:
    samples = filled(trace, rows, 53)
    time, values = samples.job()
    assert JOB_ROWS / 2 <= time.size <= JOB_ROWS
    np.testing.assert_array_equal(time, trace.time[: rows : samples.stride])
    # Of what is read once a second every reading is there, up to the last row held.
    held = slice(0, (time.size - 1) * samples.stride + 1)
    readings = trace.metrics["memory_used"][held]
    np.testing.assert_array_equal(
        values["memory_used"][np.isfinite(values["memory_used"])], readings[np.isfinite(readings)].astype(np.float32)
    )
    np.testing.assert_array_equal(values["sm_active"], trace.metrics["sm_active"][: rows : samples.stride].astype(np.float32))


def test_what_is_held_does_not_depend_on_the_portions(trace: SimulatedTrace) -> None:
    one, other = filled(trace, 15_000, 7), filled(trace, 15_000, 15_000)
    np.testing.assert_array_equal(one.job()[0], other.job()[0])
    for name, values in one.job()[1].items():
        np.testing.assert_array_equal(values, other.job()[1][name])
    start, end = trace.time[12_000], trace.time[14_000]
    np.testing.assert_array_equal(one.between(start, end)[0], other.between(start, end)[0])


def test_statistics_of_a_thinned_job_are_those_of_all_of_it(trace: SimulatedTrace) -> None:
    spans = list(zip(trace.epoch_starts.tolist(), trace.epoch_ends.tolist(), strict=True))
    metrics = {name: column for name, column in trace.metrics.items() if name in METRICS}
    samples = filled(trace, trace.time.size, 600)
    assert samples.stride >= 4
    whole = summarise("T4", trace.time, metrics, spans)
    thinned = summarise("T4", *samples.job(), spans)
    for name, statistics in whole.metrics.items():
        spread = statistics["max"] - statistics["min"]
        # A reading may stand at a row up to a stride later, and so on the other side of a boundary: the deviation sees it most.
        for statistic, share in {"mean": 0.01, "p25": 0.01, "p50": 0.01, "p75": 0.01, "std": 0.02}.items():
            slack = share * spread + 1e-6 * abs(statistics[statistic])  # single precision
            assert abs(thinned.metrics[name][statistic] - statistics[statistic]) <= slack, (name, statistic)


def test_the_last_minutes_are_held_in_full(trace: SimulatedTrace) -> None:
    samples = filled(trace, 17_000, 97)
    start, end = trace.time[17_000 - RECENT_ROWS], trace.time[16_000]
    time, values = samples.between(start, end)
    np.testing.assert_array_equal(time, trace.time[17_000 - RECENT_ROWS : 16_000])
    np.testing.assert_array_equal(values["power"], trace.metrics["power"][17_000 - RECENT_ROWS : 16_000].astype(np.float32))
    before, _ = samples.between(trace.time[100], trace.time[1000])
    assert before.size == pytest.approx(900 / samples.stride, abs=1)


def test_memory_does_not_grow(trace: SimulatedTrace) -> None:
    samples = filled(trace, 1000, 100)
    held = samples.nbytes
    for turn in range(50):
        shift = (turn + 1) * (trace.time[-1] - trace.time[0] + 0.1)
        samples.append(trace.time + shift, {name: column for name, column in trace.metrics.items() if name in METRICS})
    assert samples.nbytes == held < 1.5e6


def test_another_job_begins_with_its_own_rows_only(trace: SimulatedTrace) -> None:
    samples = filled(trace, 12_000, 100)
    samples.begin_job(trace.time[11_000])
    time, values = samples.job()
    np.testing.assert_array_equal(time, trace.time[11_000:12_000])
    assert samples.stride == 1
    np.testing.assert_array_equal(values["power"], trace.metrics["power"][11_000:12_000].astype(np.float32))
    samples = filled(trace, 12_000, 100)
    samples.begin_job(trace.time[2_000])  # longer ago than what is held in full
    assert samples.job()[0][0] == pytest.approx(trace.time[2_000], abs=0.1 * samples.stride)


def test_rows_without_work_are_no_part_of_the_job(trace: SimulatedTrace) -> None:
    samples = filled(trace, 1000, 100)
    samples.append(trace.time[1000:1100], {"power": trace.metrics["power"][1000:1100]}, of_job=False)
    assert samples.job()[0].size == 1000
    assert samples.between(trace.time[900], np.inf)[0].size == 200


def test_a_metric_may_come_later() -> None:
    samples = ThinnedSamples()
    samples.append(np.arange(3.0), {"power": np.ones(3), "temperature": np.full(3, np.nan)})
    samples.append(np.arange(3.0, 5.0), {"temperature": np.array([50.0, np.nan])})
    time, values = samples.job()
    assert time.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(values["power"], [1, 1, 1, np.nan, np.nan])
    np.testing.assert_array_equal(values["temperature"], [np.nan, np.nan, np.nan, 50, np.nan])
