"""What must not matter does not: when a trace was recorded, its clock's pace, units, the order of columns, lost samples."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.detector import Detection, detect
from lab.simulator import simulate_class

SIMULATED = (("short", 3), ("logged", 2), ("half_duty", 4))
REAL = ("gtx970_4_keras_90_1", "wandb_11291996_naver-bert-sentiment_qozohwal")
FOLDER = Path(os.environ.get("EPOCHCAST_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "real_traces"

Trace = tuple[np.ndarray, dict[str, np.ndarray]]
Answer = tuple[float | None, int]

MANY = 60

few = settings(max_examples=2, deadline=None, derandomize=True)


@cache
def traces() -> tuple[Trace, ...]:
    """A few short simulated traces, and real ones where they are."""
    held: list[Trace] = []
    for cls, seed in SIMULATED:
        trace = simulate_class(cls, seed)
        first = slice(0, 4000)
        held.append((trace.time[first], {name: values[first] for name, values in trace.metrics.items()}))
    for name in REAL:
        if (path := FOLDER / f"{name}.csv.gz").exists():
            table = pd.read_csv(path, comment="#")
            held.append((table.pop("time").to_numpy(), {column: table[column].to_numpy() for column in table}))
    return tuple(held)


def answer(time: np.ndarray, metrics: dict[str, np.ndarray]) -> Answer:
    """Period and number of epochs; which cycles are called steps is a matter of seconds, and left out."""
    found: Detection = detect(time, metrics, shortest_epoch_s=0.0)
    return found.period_s, len(found.epochs)


@cache
def answers() -> tuple[Answer, ...]:
    return tuple(answer(*trace) for trace in traces())


def test_most_of_these_traces_have_an_answer() -> None:
    assert sum(period is not None for period, _ in answers()) >= len(answers()) - 1


def same(one: Answer, other: Answer, *, scale: float = 1.0, off: float = 1e-3, more: int = 0) -> bool:
    """Whether two answers agree: periods to a share `off`, numbers of epochs to `more`."""
    if one[0] is None or other[0] is None:
        return one == other
    # Hundreds of steps are counted as far as they match, which the loss of samples changes.
    return abs(other[0] / scale / one[0] - 1) <= off and (one[1] > MANY or abs(one[1] - other[1]) <= more)


@few
@given(shift=st.sampled_from([0.037, -1e9, 1.7e9]) | st.floats(-1e9, 3e9))
def test_when_it_was_recorded(shift: float) -> None:
    for (time, metrics), before in zip(traces(), answers(), strict=True):
        assert same(before, answer(time + shift, metrics))


@few
@given(scale=st.sampled_from([3.0, 1 / 15]) | st.floats(0.01, 100))
def test_the_pace_of_the_clock(scale: float) -> None:
    for (time, metrics), before in zip(traces(), answers(), strict=True):
        # Counters are rates per second: they scale, too, and what is scaled is normalised.
        assert same(before, answer(time[0] + (time - time[0]) * scale, metrics), scale=scale)


@few
@given(factor=st.floats(1e-3, 1e3))
def test_units_of_what_is_no_ratio(factor: float) -> None:
    silent = 0
    for (time, metrics), before in zip(traces(), answers(), strict=True):
        changed = {name: values * (factor if np.nanmax(np.abs(values)) > 1 else 1) for name, values in metrics.items()}
        after = answer(time, changed)
        silent += after[0] is None and before[0] is not None
        assert after[0] is None or same(before, after)
    assert silent <= 1


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_columns(seed: int) -> None:
    order = np.random.default_rng(seed)
    for (time, metrics), before in zip(traces(), answers(), strict=True):
        names = order.permutation(list(metrics)).tolist()
        assert same(before, answer(time, {name: metrics[name] for name in names}), off=0)


@few
@given(share=st.floats(0.02, 0.12), seed=st.integers(0, 2**32 - 1))
def test_samples_lost_at_random(share: float, seed: int) -> None:
    """The same period and about as many epochs, or silence in at most one of them."""
    lost = np.random.default_rng(seed)
    silent = 0
    for (time, metrics), before in zip(traces(), answers(), strict=True):
        kept = lost.random(time.size) >= share
        after = answer(time[kept], {name: values[kept] for name, values in metrics.items()})
        silent += after[0] is None and before[0] is not None
        assert after[0] is None or before[0] is None or same(before, after, off=0.05, more=1 + before[1] // 10)
    assert silent <= 1
