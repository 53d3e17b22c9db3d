"""The error figures of detections, against slow versions and by hand."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.detector import Detection, Epoch, InputError, JobEpochs
from epochcast.detector.labels import Labels
from lab.evaluate import detection as evaluation

from .. import naive

MARKS = st.lists(st.floats(0, 100), max_size=9, unique=True)
TIME = np.arange(0.0, 101.0)
NOTHING = Detection("none", None, None, (), 0.3, "track", "wall")


@given(MARKS, MARKS, st.floats(0, 20))
def test_boundary_f1_is_that_of_the_largest_matching(truth: list[float], found: list[float], near: float) -> None:
    matched = naive.matched_boundaries(truth, found, near)
    wanted = 2 * matched / (len(truth) + len(found)) if truth or found else 1.0
    assert evaluation.boundary_f1(truth, found, near) == pytest.approx(wanted)


@given(MARKS, MARKS, st.floats(0, 20))
def test_boundary_error_is_that_of_each_others_nearest(truth: list[float], found: list[float], reach: float) -> None:
    pairs = []
    for a in truth:
        b = min(found, key=lambda mark: abs(mark - a), default=None)
        if b is not None and min(truth, key=lambda mark: abs(mark - b)) == a and abs(a - b) <= reach:
            pairs.append(abs(a - b))
    expected = float(np.median(pairs)) if pairs else None
    assert evaluation.boundary_error(truth, found, reach) == expected


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


TWO = Labels.from_json(
    {
        "epoch_starts": [10, 30, 50, 70],
        "epoch_ends": [30, 50, 70, 90],
        "epoch_starts2": [5, 13, 21, 29],
        "training": True,
        "cls": "two_jobs",
    }
)


@pytest.mark.parametrize(("starts", "true"), [([5.0, 13.0, 21.0], 8), ([10.0, 30.0, 50.0], 20), ([10.0, 24.0, 38.0], 20)])
def test_with_two_jobs_the_answer_is_scored_against_the_nearer(starts: list[float], true: float) -> None:
    row = evaluation.score_trace("a", detection(starts), TWO, TIME, {"dram_active": TIME % 20})
    assert row.true_period == true
    assert row.right is (true == starts[1] - starts[0])
    assert row.baseline_error == pytest.approx(25), "10 s is nearer to 8 s than to 20 s"
    assert (row.cls, row.jobs, row.jobs_found) == ("two_jobs", 2, 0)


@pytest.mark.parametrize("clock", ["wall", "work"])
def test_both_jobs_are_found_only_if_both_are_reported(clock: str) -> None:
    main, second = [10.0, 30.0, 50.0, 70.0, 90.0], [5.0, 13.0, 21.0, 29.0]
    jobs = tuple(
        JobEpochs(float(np.median(np.diff(starts))), tuple(Epoch(a, b, 0.9) for a, b in pairwise(starts)), 0.9)
        for starts in (main, second, main)
    )
    for reported, count in ((jobs[:1], 1), (jobs[:2], 2), (jobs[::2], 1), (jobs, 2)):
        found = detection(main, clock, period_work=20.0, jobs=reported)
        assert evaluation.score_trace("a", found, TWO, TIME, {"cpu": np.ones(101)}).jobs_found == count


@pytest.mark.parametrize("shift", [-3600, 85, 1e9])
def test_labels_of_another_clock_are_refused(shift: float) -> None:
    truth = labels([10 + shift, 30 + shift, 50 + shift, 70 + shift], 90 + shift)
    with pytest.raises(InputError, match="labels and trace must be on the same clock"):
        evaluation.score_trace("a", detection([10.0, 30.0, 50.0]), truth, TIME, {"dram_active": TIME % 20})


def test_a_method_that_refuses_a_trace_has_no_answer_for_it() -> None:
    row = evaluation.evaluate_trace("a", TIME, {"power": TIME % 20}, labels([10, 30, 50], 70), method="paper", clock="work")
    assert (row.verdict, row.error, row.clock) == ("none", None, "wall")
    assert row.reason is not None
    assert "work clock needs" in row.reason
    assert evaluation.summarise([row])["refused"] == 1
    with pytest.raises(InputError, match="unknown method"):
        evaluation.evaluate_trace("a", TIME, {"power": TIME % 20}, labels([10, 30, 50], 70), method="magic")


def answer(name: str, confidence: float, period: float) -> evaluation.TraceScore:
    found = detection([10.0, 10 + period, 10 + 2 * period], confidence=confidence)
    return evaluation.score_trace(name, found, labels([10, 30, 50], 70), TIME, {"dram_active": TIME % 20})


def test_what_a_confidence_is_worth() -> None:
    rows = [
        answer("a", 0.95, 20),
        answer("b", 0.9, 20),
        answer("c", 0.72, 20),
        answer("d", 0.74, 30),
        evaluation.score_trace("e", NOTHING, labels([10, 30, 50], 70), TIME, {"dram_active": TIME % 20}),
        evaluation.score_trace("f", detection([1.0, 2.0], confidence=0.73), Labels((), (), False), TIME, {"dram_active": TIME}),
    ]
    table = {line["threshold"]: line for line in evaluation.by_threshold(rows)}
    assert table[0.7] == {"threshold": 0.7, "answers": 4, "coverage": 0.8, "precision": 0.75, "false_alarms": 1}
    assert table[0.9] == {"threshold": 0.9, "answers": 2, "coverage": 0.4, "precision": 1.0, "false_alarms": 0}
    reliable = evaluation.reliability(rows)
    low, high = reliable["bins"]
    assert (low["low"], low["high"], low["n"]) == (0.7, 0.8, 3)
    assert low["confidence"] == pytest.approx(0.73)
    assert low["right"] == pytest.approx(1 / 3), "a false alarm is a wrong answer"
    assert (high["n"], high["right"]) == (2, 1.0)
    assert reliable["ece"] == pytest.approx((3 * (0.73 - 1 / 3) + 2 * (1 - 0.925)) / 5)


@pytest.mark.parametrize(
    ("marks", "boundaries", "score", "lag"),
    [
        ([0, 10, 20, 30], [3, 13, 23, 33], 1.0, -3.0),  # marks lead by 3 s
        ([0, 10, 20, 30], [-8, 2, 12, 22, 32, 42], 1.0, -2.0),  # what lies beyond the marks does not count
        ([0, 10, 20, 30], [2, 12, 27], 2 * 2 / 7, -2.0),
        ([0, 10, 20, 30], [], 0.0, 0.0),
        ([0, 10, 20], [-1, 11, 19], 1.0, 0.0),  # no difference is 0, and yet a lag of 0 matches all
    ],
)
def test_one_lag_of_the_marks_is_forgiven(marks: list[float], boundaries: list[float], score: float, lag: float) -> None:
    f1, shift = evaluation.lagged_boundary_f1(marks, boundaries, 1.0, 5.0)
    assert f1 == pytest.approx(score)
    assert shift == pytest.approx(lag, abs=1.0)


def test_true_regimes_are_runs_of_like_epochs() -> None:
    """As labelled for the H100 job: 40, 41, 40, 41, 52 and four times about 79.5 s; 131, 133, 252, 27 s have none."""
    lengths = [40.2, 41, 39.9, 41, 52.2, 79.6, 79.5, 79.7, 79.3]
    bounds = np.concatenate([[0.0], np.cumsum(lengths)])
    changing = Labels(tuple(bounds[:-1]), tuple(bounds[1:]), True)
    regimes = evaluation.true_regimes(changing)
    assert [period for _, _, period in regimes] == pytest.approx([40.6, 79.55], abs=0.01)
    assert regimes[0][:2] == pytest.approx((0.0, 162.1))
    never = np.concatenate([[0.0], np.cumsum([131.0, 133, 252, 27])])
    assert evaluation.true_regimes(Labels(tuple(never[:-1]), tuple(never[1:]), True)) == []


def test_summary() -> None:
    truth, metrics = labels([10, 30, 50, 70], 90), {"dram_active": TIME % 20}
    short = labels([10, 20, 30, 40], 50)
    idle = Labels((), (), False)
    loop = Labels((), (), False, steps=True)
    rows = [
        evaluation.score_trace("right", detection([10.0, 30.0, 50.0, 70.0, 90.0]), truth, TIME, metrics),
        evaluation.score_trace("wrong", detection([10.0, 50.0, 90.0]), truth, TIME, metrics),
        evaluation.score_trace("abstained", NOTHING, truth, TIME, metrics),
        evaluation.score_trace("false alarm", detection([10.0, 30.0, 50.0]), idle, TIME, metrics),
        evaluation.score_trace("quiet", NOTHING, idle, TIME, metrics),
        evaluation.score_trace("stepped", detection([1.0, 2.0], verdict="steps", epochs=()), idle, TIME, metrics),
        evaluation.score_trace("loop", detection([1.0, 2.0], verdict="steps", epochs=()), loop, TIME, metrics),
        evaluation.score_trace("loop as epochs", detection([1.0, 2.0]), loop, TIME, metrics),
    ]
    assert evaluation.summarise(rows) == pytest.approx(
        {
            "n": 3,
            "answered": 2,
            "steps": 0,
            "coverage": 2 / 3,
            "mape": 50.0,
            "median_ape": 50.0,
            "rmse": np.sqrt(20**2 / 2),
            "r2": None,
            "within_5": 1 / 3,
            "confident_wrong": 1,
            "confident_wrong_8": 1,
            "within_5_by_repository": None,
            "epochs_right": 1 / 3,
            "ends_right": 2 / 3,
            "boundary_f1": (1 + 2 * 3 / 8 + 0) / 3,
            "boundary_f1_lagged": (1 + 2 * 3 / 8 + 0) / 3,
            "boundary_error_s": 0.0,
            "boundary_error_samples": 0.0,
            "baseline_mape": 50.0,
            "baseline_median_ape": 50.0,
            "baseline_rmse": 10.0,
            "baseline_r2": None,
            "baseline_within_5": 0.0,
            "n_two_jobs": 0,
            "both_jobs_found": 0,
            "n_other": 3,
            "false_alarms": 1,
            "n_step_loops": 2,
            "steps_right": 1,
            "steps_as_epochs": 1,
            "refused": 0,
            "cpu_s": None,
            "cpu_s_per_hour": None,
        }
    )
    two = [rows[0], evaluation.score_trace("short", detection([10.0, 22.0, 34.0]), short, TIME, metrics)]
    assert evaluation.summarise(two)["r2"] == pytest.approx(1 - 2**2 / (2 * 5**2))


def test_a_period_of_less_than_three_samples_is_not_resolved() -> None:
    for period, expected in ((2, False), (3, True)):
        truth = labels([10, 10 + period, 10 + 2 * period], 40)
        assert evaluation.resolved(evaluation.score_trace("a", NOTHING, truth, TIME, {"power": TIME % 3})) is expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epoch_ends": None}, "epoch_ends"),
        ({"epoch_starts": [1, float("nan")]}, "NaN or infinite"),
        ({"epoch_starts": [1, "x"]}, "not a number"),
        ({"epoch_ends": [2]}, "2 epoch_starts and 1 epoch_ends"),
        ({"epoch_starts": [1], "epoch_ends": [2]}, "at least 2"),
        ({"epoch_starts": [2, 1]}, "not increasing"),
        ({"training": "yes"}, "training is 'yes'"),
        ({"epoch_starts2": [1]}, "1 epoch_starts2"),
        ({"epoch_starts2": [1, 2], "epoch_ends2": [2]}, "2 epoch_starts2 and 1 epoch_ends2"),
        ({"steps": True}, "both training and steps"),
    ],
)
def test_refuses_labels(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Labels.from_json({"epoch_starts": [1, 2], "epoch_ends": [2, 3], "training": True, **changes})
