"""Occupancy as the hardware counted it: means over time against plain sums, and what the command tells of a trace."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.counted_occupancy import bin_means
from epochcast.analyzer.traces.trace import make_trace, write_trace

NAN = float("nan")


def tick_by_tick(readings: list[float], edges: list[int]) -> list[float]:
    """Means of whole ticks, each of which has the value that is read next."""
    values = []
    for first, last in pairwise(edges):
        seen = []
        for tick in range(first + 1, last + 1):
            later = [value for value in readings[tick:] if value == value]
            if later and any(value == value for value in readings[:tick]):
                seen.append(later[0])
        values.append(sum(seen) / len(seen) if seen else NAN)
    return values


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, NAN]), min_size=4, max_size=11), st.data())
def test_agrees_with_a_walk_tick_by_tick(readings: list[float], data: Any) -> None:
    readings[0] = readings[1] = 0.5
    inner = data.draw(st.sets(st.integers(1, len(readings) - 1)))
    edges = sorted({0, *inner, len(readings)})
    means = bin_means(1e9 + np.arange(len(readings)), np.array(readings), 1e9 + np.array(edges))
    assert means == pytest.approx(tick_by_tick(readings, edges), nan_ok=True)


def test_nothing_is_known_of_a_hole() -> None:
    time = np.array([0.0, 1.0, 2.0, 3.0, 53.0, 54.0])
    means = bin_means(time, np.array([0.1, 0.2, 0.4, 0.6, 1.0, 0.8]), np.array([0.0, 2.0, 20.0, 50.0, 54.0]))
    assert means == pytest.approx([0.3, 0.6, NAN, 0.8], nan_ok=True)


def _trace(path: Path, **columns: Any) -> str:
    time = 1.7e9 + 0.1 * np.arange(101)
    frame = pd.DataFrame({"time": time, "power": 300.0, **columns})
    return str(write_trace(make_trace(frame, {"gpu": "NVIDIA H200"}, "made"), path))


HALF = np.where(np.arange(101) > 50, 1.0, 0.0)


@pytest.mark.parametrize(("name", "metric"), [("run.parquet", "gpu_utilization"), ("run.csv", "gr_engine_active")])
def test_a_trace_tells_its_counters(
    tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str], name: str, metric: str
) -> None:
    path = _trace(tmp_path / name, **{metric: np.where(np.arange(101) % 10 == 0, HALF, NAN), "sm_occupancy": 0.3 * HALF})
    answer = answered("occupancy-of", path)
    assert (answer["gpu"], answer["kernels"], answer["utilisation_metric"]) == ("NVIDIA H200", [], metric)
    assert answer["span_s"] == pytest.approx(10)
    assert (answer["mean"], answer["utilisation"], answer["max"]) == pytest.approx((0.15, 0.5, 0.3), rel=1e-6)
    assert answer["occupancy_of_the_span"] == answer["mean"]
    out = printed("occupancy-of", path)
    assert "NVIDIA H200: 10.0 s (trace of epochcast-agent, counted by the hardware)" in out
    assert f"a kernel ran 50.0 % of the time ({metric}); warp slots were 15.0 % full on average" in out


def test_a_trace_is_drawn_over_time(tmp_path: Path, printed: Callable[..., str]) -> None:
    path = _trace(tmp_path / "run.parquet", gpu_utilization=HALF, sm_occupancy=0.3 * HALF)
    printed("occupancy-of", path, "--timeline", tmp_path / "time.svg")
    text = (tmp_path / "time.svg").read_text()
    assert "GPU occupancy (counted by the hardware)" in text
    assert "NVIDIA H200, 10.0 s: gpu_utilization 50.0 %, occupancy 15.0 %" in text


BOTH = {"gpu_utilization": HALF, "sm_occupancy": HALF}


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ({"gpu_utilization": HALF, "sm_occupancy": NAN}, [], "holds no readings of 'sm_occupancy' over time"),
        ({"sm_occupancy": HALF}, [], "no readings of 'gpu_utilization' or 'gr_engine_active' over time"),
        (BOTH, ["--plot", "a.png"], "is a trace without kernels"),
        (BOTH, ["--gpu", "T4"], "is a trace without kernels"),
    ],
)
def test_bad_traces_are_one_sentence(
    tmp_path: Path, refused: Callable[..., str], columns: dict[str, Any], options: list[str], says: str
) -> None:
    assert says in refused("occupancy-of", _trace(tmp_path / "run.parquet", **columns), *options)


def test_a_damaged_trace_is_one_sentence(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "run.parquet").write_bytes(b"PAR1 and no more")
    assert "is not a readable Parquet file" in refused("occupancy-of", tmp_path / "run.parquet")
