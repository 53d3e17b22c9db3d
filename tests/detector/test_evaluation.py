"""The error figures, against slow versions and by hand."""

from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.detector import Detection, Epoch, InputError, evaluation
from epochcast.detector.evaluation import Labels

MARKS = st.lists(st.floats(0, 100), max_size=9, unique=True)
TIME = np.arange(0.0, 101.0)


@given(MARKS, MARKS, st.floats(0, 20))
def test_boundary_f1_is_that_of_the_largest_matching(
    naive: ModuleType, truth: list[float], found: list[float], near: float
) -> None:
    matched = naive.matched_boundaries(truth, found, near)
    wanted = 2 * matched / (len(truth) + len(found)) if truth or found else 1.0
    assert evaluation.boundary_f1(truth, found, near) == pytest.approx(wanted)


def test_boundary_f1_pairs_one_to_one() -> None:
    assert evaluation.boundary_f1([10.0, 20.0], [9.9, 10.1, 20.0], 0.5) == pytest.approx(4 / 5)


def test_period_error() -> None:
    assert evaluation.period_error(11, 10) == pytest.approx(10)
    assert evaluation.period_error(5, 10) == pytest.approx(50)
    with pytest.raises(InputError, match="must be positive"):
        evaluation.period_error(0, 10)


def detection(starts: list[float], clock: str = "wall", **changes: object) -> Detection:
    epochs = tuple(Epoch(a, b, 0.9) for a, b in pairwise(starts))
    period = float(np.median(np.diff(starts)))
    fields = {"verdict": "epochs", "period_s": period, "period_work": None, "epochs": epochs, "confidence": 0.9}
    return Detection(**{**fields, "method": "track", "clock": clock, **changes})


def labels(starts: list[float], end: float) -> Labels:
    return Labels.from_json({"epoch_starts": starts, "epoch_ends": [*starts[1:], end], "training": True, "foreign": 1})


def test_score_on_the_wall_clock() -> None:
    found = detection([10.0, 31.5, 50.0, 71.0, 90.0], period_s=21.0)
    row = evaluation.score_trace("a", found, labels([10, 30, 50, 70], 90), TIME, {"dram_active": TIME % 20})
    assert (row.true_period, row.found_period, row.baseline_period) == (20, 21, 10)
    assert row.error == pytest.approx(5)
    assert row.baseline_error == pytest.approx(50)
    assert row.boundary_f1 == pytest.approx(4 / 5), "31.5 is more than 5 % of a period off, 71.0 is not"


def test_score_on_the_work_clock_maps_the_truth() -> None:
    # Half the speed from 50 s on: epochs of 10 s of work last 10 s, then 20 s.
    cpu = np.where(TIME <= 50, 1.0, 0.5)
    truth = labels([10, 20, 30, 40, 50, 70], 90)
    found = detection([10.0, 20.0, 30.0, 40.0, 50.0, 70.0, 90.0], "work", period_work=10.0)
    row = evaluation.score_trace("a", found, truth, TIME, {"cpu": cpu})
    assert row.true_period == pytest.approx(10)
    assert row.error == pytest.approx(0)
    assert row.baseline_period == pytest.approx(7.5)
    assert row.boundary_f1 == 1


def test_summary() -> None:
    truth, metrics = labels([10, 30, 50, 70], 90), {"dram_active": TIME % 20}
    short = labels([10, 20, 30, 40], 50)
    nothing = Detection("none", None, None, (), 0.1, "track", "wall")
    idle = Labels((), (), False)
    rows = [
        evaluation.score_trace("right", detection([10.0, 30.0, 50.0, 70.0, 90.0]), truth, TIME, metrics),
        evaluation.score_trace("wrong", detection([10.0, 50.0, 90.0]), truth, TIME, metrics),
        evaluation.score_trace("abstained", nothing, truth, TIME, metrics),
        evaluation.score_trace("false alarm", detection([10.0, 30.0, 50.0]), idle, TIME, metrics),
        evaluation.score_trace("quiet", nothing, idle, TIME, metrics),
        evaluation.score_trace("stepped", detection([1.0, 2.0], verdict="steps", epochs=()), idle, TIME, metrics),
    ]
    assert evaluation.summarise(rows) == pytest.approx(
        {
            "n": 3,
            "answered": 2,
            "coverage": 2 / 3,
            "mape": 50.0,
            "median_ape": 50.0,
            "rmse": np.sqrt(20**2 / 2),
            "r2": None,
            "within_5": 1 / 3,
            "boundary_f1": (1 + 2 * 3 / 8 + 0) / 3,
            "baseline_mape": 50.0,
            "baseline_median_ape": 50.0,
            "baseline_within_5": 0.0,
            "n_other": 3,
            "false_alarms": 1,
        }
    )
    two = [rows[0], evaluation.score_trace("short", detection([10.0, 22.0, 34.0]), short, TIME, metrics)]
    assert evaluation.summarise(two)["r2"] == pytest.approx(1 - 2**2 / (2 * 5**2))


def test_summary_without_answers_has_no_error() -> None:
    nothing = Detection("none", None, None, (), 0.0, "track", "wall")
    row = evaluation.score_trace("a", nothing, labels([10, 30, 50], 70), TIME, {"dram_active": TIME % 20})
    line = evaluation.summarise([row])
    assert (line["mape"], line["median_ape"], line["coverage"], line["within_5"]) == (None, None, 0, 0)


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"epoch_starts": [1, 2], "training": True}, "no 'epoch_ends'"),
        ({"epoch_starts": [1, float("nan")], "epoch_ends": [2, 3], "training": True}, "NaN or infinite"),
        ({"epoch_starts": [1, "x"], "epoch_ends": [2, 3], "training": True}, "not a number"),
        ({"epoch_starts": [1, 2], "epoch_ends": [2], "training": True}, "2 epoch_starts and 1 epoch_ends"),
        ({"epoch_starts": [1], "epoch_ends": [2], "training": True}, "at least 2"),
        ({"epoch_starts": [2, 1], "epoch_ends": [2, 3], "training": True}, "not increasing"),
    ],
)
def test_refuses_labels(given_: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Labels.from_json(given_)


def test_refuses_an_empty_summary() -> None:
    with pytest.raises(InputError, match="no trace"):
        evaluation.summarise([])
