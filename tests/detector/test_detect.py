"""The front door: one shape of answer for every method, one sentence for every bad input, no crash on any trace."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.detector import METHODS, Detection, InputError, detect
from epochcast.detector.confidence import SURE


def check_shape(found: Detection, time: np.ndarray) -> None:
    assert 0 <= found.confidence <= 1
    assert (found.period_s is None) == (found.verdict == "none")
    assert (found.step_s is None) == (found.verdict != "steps")
    assert bool(found.epochs) == (found.verdict == "epochs")
    assert (found.period_work is not None) == (found.clock == "work" and found.verdict != "none")
    for epoch in found.epochs:
        assert time[0] - 1 <= epoch.start < epoch.end <= time[-1] + 1
        assert 0 <= epoch.confidence <= 1
    for before, after in pairwise(found.epochs):
        assert before.end <= after.start
    for name, score in found.scores.items():
        assert np.isfinite(score).all()
        if not name.startswith("candidate"):
            assert score.shape == time.shape


def constant(n: int) -> np.ndarray:
    return np.full(n, 0.7)


def idle(n: int) -> np.ndarray:
    return np.zeros(n)


def noise(n: int) -> np.ndarray:
    return np.random.default_rng(n).random(n)


def one_step(n: int) -> np.ndarray:
    return (np.arange(n) > n // 2).astype(float)


@pytest.mark.parametrize("kind", [constant, idle, noise, one_step])
@pytest.mark.parametrize("n", [2, 3, 20, 39, 40, 41, 79])
def test_track_says_nothing_about_tiny_and_flat_traces(kind: object, n: int) -> None:
    time = 1.7e9 + 0.1 * np.arange(n)
    found = detect(time, {"dram_active": kind(n), "power": kind(n) * 70})
    check_shape(found, time)
    assert found.verdict == "none" or (kind is noise and found.confidence < SURE)  # of 354 noises of any length 3 are answered


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(sorted(METHODS)),
    st.sampled_from(["wall", "auto", "work"]),
    st.integers(80, 700),
    st.integers(0, 2**32 - 1),
)
def test_any_trace_gives_one_shape_of_answer(method: str, clock: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    time = 1.7e9 + np.cumsum(rng.choice([0.1, 1.0, 20.0]) * rng.exponential(size=n) + 1e-3)
    cycle = (np.arange(n) % rng.integers(5, 90) > 4).astype(float)
    metrics = {
        "cpu": np.abs(cycle + rng.normal(scale=0.1, size=n)),
        "rss": np.cumsum(rng.normal(size=n)) * 1e9,
        "wchar": np.where(rng.random(n) < 0.8, np.nan, rng.random(n)),
    }
    check_shape(detect(time, metrics, method=method, clock=clock), time)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_where_nothing_recurs_nothing_is_found(method: str) -> None:
    time = 1.7e9 + 0.1 * np.arange(2400)
    shapes = [np.full(2400, 0.4), idle(2400)]
    if method != "paper":  # which says how many it needs
        shapes.append(np.arange(3.0) % 2)
    for values in shapes:
        found = detect(time[: values.size], {"x": values}, method=method)
        assert (found.verdict, found.period_s, found.epochs) == ("none", None, ())


@pytest.mark.parametrize(
    ("method", "settings_", "words"),
    [
        ("oracle", {}, "unknown method 'oracle': choose from paper, track"),
        ("track", {"metric": "dram"}, "metric 'dram' is not in the trace.*dram_active"),
        ("track", {"metric": ["power", "pwoer"]}, "'pwoer'"),
        ("track", {"metric": []}, "no metric named"),
        ("track", {"clock": "sun"}, "unknown clock 'sun'"),
        ("track", {"clock": "work"}, "work clock needs one of"),
        ("track", {"prominence": 0.1}, "method 'track' has no parameter 'prominence'"),
        ("track", {"abstain_below": 60}, "abstain_below is 60"),
        ("track", {"shortest_epoch_s": -1}, "shortest_epoch_s is -1"),
        ("paper", {"passes": 0}, "passes is 0"),
        ("paper", {"window_divisor": 0}, "window_divisor is 0"),
        ("paper", {"window_divisor": 2000}, "at least 4000 samples"),
        ("paper", {"window_divisor": 1}, "window of 3001 samples is longer than the trace of 3000"),
    ],
)
def test_refuses(method: str, settings_: dict[str, object], words: str) -> None:
    time = 0.1 * np.arange(3000)
    with pytest.raises(InputError, match=words) as caught:
        detect(time, {"dram_active": np.sin(time), "power": np.cos(time)}, method=method, **settings_)
    assert "\n" not in str(caught.value)


def test_a_damaged_time_does_not_fill_the_memory() -> None:
    time = np.concatenate([[0.0], 1.7e9 + np.arange(24)])  # the first cannot be read
    metrics = {"gpu_utilization": np.full(25, 0.01), "loss": np.concatenate([[5.0], np.arange(24)])}
    assert detect(time, metrics).verdict == "none"
