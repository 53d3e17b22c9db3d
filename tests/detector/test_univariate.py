"""What the methods that look at one metric share."""

import numpy as np
import pytest

from epochcast.detector import InputError
from epochcast.detector.clock import Clock
from epochcast.detector.methods.univariate import MetricSeries, answer, laid

READING = np.arange(1000.0)
WALL = Clock("wall", READING, READING)


def test_pooling_takes_means_and_drops_the_rest() -> None:
    pooled = MetricSeries(np.arange(11.0), 100 + np.arange(11.0)).pooled(4)
    assert pooled.values.tolist() == [1, 4, 7]
    assert pooled.reading.tolist() == [100, 103, 106]
    whole = MetricSeries(np.arange(11.0), np.arange(11.0)).pooled(11)
    assert whole.values.size == 11
    with pytest.raises(InputError, match="most_samples is 3"):
        whole.pooled(3)


def test_laid_boundaries_stand_where_the_cycle_rises() -> None:
    values = np.where((READING - 30) % 100 < 80, 1.0, 0.2)  # rises at 30, 130, ...
    boundaries, explained = laid(MetricSeries(values, READING), 100.0)
    assert boundaries == pytest.approx(np.arange(30, 1000, 100), abs=100 / 64)
    assert explained > 0.95
    noise = np.random.default_rng(0).random(1000)
    assert laid(MetricSeries(noise, READING), 100.0)[1] < 0.15


def test_answer_makes_epochs_of_neighbouring_boundaries() -> None:
    found = answer("paper", WALL, np.array([10.0, 20, 30, 60]))
    assert [(epoch.start, epoch.end) for epoch in found.epochs] == [(10, 20), (20, 30), (30, 60)]
    assert found.period_s == pytest.approx(50 / 3)
    assert found.confidence == 0
    assert answer("paper", WALL, np.array([10.0, 20, 30, 60]), average=np.median).period_s == 10
    assert answer("paper", WALL, np.array([10.0, 20, 30])).confidence == 1
    assert answer("paper", WALL, np.array([10.0])).verdict == "none"


def test_answer_on_the_work_clock_has_both_periods() -> None:
    clock = Clock("work", READING, READING / 4)
    found = answer("paper", clock, np.array([10.0, 20, 30]))
    assert found.period_work == pytest.approx(10)
    assert found.period_s == pytest.approx(40)
    assert found.epochs[0].start == pytest.approx(40)
