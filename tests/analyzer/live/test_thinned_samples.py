"""What is held of a job: all of it while it is short, an even sample later, no more memory ever."""

import numpy as np
import pytest

from epochcast.analyzer.live.thinned_samples import ThinnedSamples
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


def test_statistics_of_a_thinned_job_are_those_of_all_of_it(trace: SimulatedTrace) -> None:
    spans = list(zip(trace.epoch_starts.tolist(), trace.epoch_ends.tolist(), strict=True))
    metrics = {name: column for name, column in trace.metrics.items() if name in METRICS}
    samples = filled(trace, trace.time.size, 600)
    assert samples._stride >= 4
    whole = summarise("T4", trace.time, metrics, spans)
    thinned = summarise("T4", *samples.job(), spans)
    for name, statistics in whole.metrics.items():
        spread = statistics["max"] - statistics["min"]
        # A reading may stand at a row up to a stride later, and so on the other side of a boundary: the deviation sees it most.
        for statistic, share in {"mean": 0.01, "p25": 0.01, "p50": 0.01, "p75": 0.01, "std": 0.02}.items():
            slack = share * spread + 1e-6 * abs(statistics[statistic])  # single precision
            assert abs(thinned.metrics[name][statistic] - statistics[statistic]) <= slack, (name, statistic)


def test_another_job_begins_with_its_own_rows_only(trace: SimulatedTrace) -> None:
    samples = filled(trace, 12_000, 100)
    samples.begin_job(trace.time[11_000])
    time, values = samples.job()
    np.testing.assert_array_equal(time, trace.time[11_000:12_000])
    assert samples._stride == 1
    np.testing.assert_array_equal(values["power"], trace.metrics["power"][11_000:12_000].astype(np.float32))
    samples = filled(trace, 12_000, 100)
    samples.begin_job(trace.time[2_000])  # longer ago than what is held in full
    assert samples.job()[0][0] == pytest.approx(trace.time[2_000], abs=0.1 * samples._stride)
