"""Detection while the job runs: the same answers as offline, for any portions, in bounded memory."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from epochcast.detector import Detection, Epoch, InputError, detect
from epochcast.detector.epochs import JobEpochs
from epochcast.detector.stream import Stream, heard
from epochcast.detector.stream.heard import KEPT
from epochcast.detector.stream.present_job import STEPS_AFTER
from lab.evaluate.detection import boundary_f1
from lab.simulator import SimulatedTrace, simulate

METRICS = ("dram_active", "power")
Rows = tuple[np.ndarray, dict[str, np.ndarray]]


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch, searches: dict[tuple[object, ...], Detection]) -> None:
    """The same search twice costs once: what is tested here is what the stream searches for, and when."""

    def once(time: np.ndarray, metrics: dict[str, np.ndarray], **parameters: object) -> Detection:
        key = (time.tobytes(), *((name, row.tobytes()) for name, row in metrics.items()))
        if key not in searches:
            searches[key] = detect(time, metrics, **parameters)
        return searches[key]

    monkeypatch.setattr(heard, "detect", once)


@pytest.fixture(scope="module")
def searches() -> dict[tuple[object, ...], Detection]:
    return {}


def rows(trace: SimulatedTrace, first: int = 0, last: int | None = None, shift: float = 0.0) -> Rows:
    return trace.time[first:last] + shift, {name: trace.metrics[name][first:last] for name in METRICS}


def portions(given: Rows, edges: np.ndarray) -> Iterator[Rows]:
    time, metrics = given
    for first, last in pairwise([0, *edges, time.size]):
        yield time[first:last], {name: values[first:last] for name, values in metrics.items()}


def feed(target: Stream, given: Rows, portion: int = 10) -> list[Detection | None]:
    """The answers after every portion."""
    return [target.update(*part) for part in portions(given, np.arange(portion, given[0].size, portion))]


def boundaries(found: Detection | None) -> np.ndarray:
    assert found is not None
    assert found.epochs
    return np.array([*[epoch.start for epoch in found.epochs], found.epochs[-1].end])


def job(seed: int = 0, epochs: int = 8, epoch_s: float = 8.0, **settings: float) -> SimulatedTrace:
    return simulate(seed, epochs=epochs, epoch_s=epoch_s, validation_s=0.1 * epoch_s, gap_s=0.3, **settings)


@pytest.mark.parametrize(("epochs", "epoch_s"), [(7, 16.0), (8, 8.0), (12, 6.0)])
def test_ends_with_the_offline_answer(epochs: int, epoch_s: float) -> None:
    trace = job(1, epochs, epoch_s)
    answers = feed(Stream(METRICS), rows(trace))
    offline = detect(*rows(trace))
    assert answers[-1] is not None
    assert answers[-1].verdict == offline.verdict == "epochs"
    assert answers[-1].period_s == pytest.approx(offline.period_s, rel=0.01)
    assert boundary_f1(boundaries(offline), boundaries(answers[-1]), 0.05 * epoch_s) >= 0.9
    distance = [np.abs(boundaries(offline) - mark).min() for mark in boundaries(answers[-1])]
    assert np.median(distance) <= 0.1


def test_tells_epochs_while_they_come_and_takes_none_back() -> None:
    trace = job(3, 8, 8.0)
    told = [answer for answer in feed(Stream(METRICS), rows(trace)) if answer is not None and answer.verdict == "epochs"]
    first = next(i for i, answer in enumerate(told) if len(answer.epochs) >= 1)
    counts = [len(answer.epochs) for answer in told[first:]]
    assert counts == sorted(counts)
    assert len(set(counts)) >= 4
    true = np.median(np.diff(trace.epoch_starts))
    assert all(answer.period_s == pytest.approx(true, rel=0.1) for answer in told)


@pytest.mark.parametrize("portion", [1, 100, 100_000])
def test_the_answer_does_not_depend_on_the_portions(portion: int) -> None:
    given = rows(job(3))
    by_the_second = feed(Stream(METRICS), given)[-1]
    assert feed(Stream(METRICS), given, portion)[-1] == by_the_second


def test_nor_on_random_portions() -> None:
    given = rows(job(3))
    edges = np.sort(np.random.default_rng(0).choice(np.arange(1, given[0].size), 40, replace=False))
    target = Stream(METRICS)
    last = [target.update(*part) for part in portions(given, edges)][-1]
    assert last == feed(Stream(METRICS), given)[-1]


def test_memory_is_bounded() -> None:
    target = Stream(METRICS, step_s=1.0)
    time = np.arange(12_000.0)
    level = np.where(time % 12 < 9, 0.8, 0.2) + np.random.default_rng(0).normal(0, 0.02, time.size)
    target.update(time[:500], {"dram_active": level[:500]})
    before = target.nbytes
    answer = target.update(time[500:], {"dram_active": level[500:]})
    assert answer is not None
    assert answer.period_s == pytest.approx(12, rel=0.01)
    assert target.nbytes <= before + 2 * 8 * KEPT
    assert 900 < len(answer.epochs) < KEPT
    assert target.nbytes < 1_000_000


def test_speaks_only_when_two_searches_in_a_row_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    periods = iter([8.0, 16.0, 8.0, 8.16])
    searched: list[float] = []

    def scripted(time: np.ndarray, *_: object, **__: object) -> Detection:
        searched.append(period := next(periods, 8.0))
        epochs = tuple(Epoch(time[-1] - (4 - i) * period, time[-1] - (3 - i) * period, 0.9) for i in range(4))
        return Detection("epochs", period, None, epochs, 0.9, "track", "work", jobs=(JobEpochs(period, epochs, 0.9),))

    monkeypatch.setattr(heard, "detect", scripted)
    target = Stream(METRICS)
    for part in portions(rows(job(0)), np.arange(10, 800, 10)):
        answer = target.update(*part)
        assert (answer is not None) == (len(searched) >= 4)
    assert answer is not None
    assert answer.period_s == 8.16 or len(searched) > 4


def test_a_new_job_after_a_pause() -> None:
    first, second = job(4, 6, 8.0), job(5, 6, 13.0)
    target = Stream(METRICS)
    assert feed(target, rows(first))[-1] is not None
    end = float(first.time[-1] - second.time[0])
    feed(target, rows(second, last=100, shift=end + 0.1))
    assert target.state == "idle"
    kept = target.detection
    assert kept is not None
    assert kept.period_s == pytest.approx(np.median(np.diff(first.epoch_starts)), rel=0.05)
    answers = feed(target, rows(second, first=100, shift=end + 0.1))
    assert None in answers
    assert answers[-1] is not None
    assert answers[-1].period_s == pytest.approx(np.median(np.diff(second.epoch_starts)), rel=0.05)
    assert answers[-1].epochs[0].start > first.time[-1]


def test_a_new_job_without_a_pause() -> None:
    first, second = job(6, 8, 8.0, lead_s=1.0), job(7, 8, 14.0, lead_s=1.0)
    target = Stream(METRICS)
    feed(target, rows(first))
    answers = feed(target, rows(second, shift=float(first.time[-1] - second.time[0]) + 0.1))
    assert None in answers
    assert answers[-1] is not None
    assert answers[-1].period_s == pytest.approx(np.median(np.diff(second.epoch_starts)), rel=0.05)
    assert answers[-1].epochs[0].end > first.time[-1]


def test_a_short_hole_is_bridged_and_a_long_one_begins_anew() -> None:
    trace = job(3, 12, 10.0)
    target = Stream(METRICS)
    feed(target, rows(trace, last=700))
    assert target.detection is not None
    feed(target, rows(trace, first=760, last=1000))
    assert target.detection is not None
    assert target.detection.verdict == "epochs"
    target.update(*rows(trace, first=1000, last=1010, shift=400.0))
    assert (target.detection, target.state) == (None, "searching")


@pytest.mark.parametrize("place", [0.1, 0.5, 0.95])
def test_in_a_hole_a_job_goes_on_as_before_it_and_no_boundary_is_told(place: float) -> None:
    """It is five epochs long; at 0.95 the device rests, in validation, when it begins and when it ends."""
    trace, target = job(3, 24, 8.0), Stream((*METRICS, "energy"))
    begin = trace.epoch_starts[9] + place * 8.0
    end = begin + float(trace.epoch_starts[14] - trace.epoch_starts[9])
    names = (*METRICS, "energy")
    seen = [(trace.time <= begin), (trace.time >= end)]
    parts = [(trace.time[each], {name: trace.metrics[name][each] for name in names}) for each in seen]
    feed(target, parts[0])
    since, before = target.working_since, target.detection
    assert before is not None
    answers = feed(target, parts[1])
    assert target.working_since == since
    assert all(answer is not None and answer.verdict == "epochs" for answer in answers)
    answer = answers[-1]
    assert answer is not None and answer.period_s == pytest.approx(float(np.diff(trace.epoch_starts).mean()), rel=0.02)
    marks = np.array([(epoch.start, epoch.end) for epoch in answer.epochs])
    assert not ((marks > begin) & (marks < end)).any()
    assert np.abs(trace.epoch_starts[:, None, None] - marks[:-1]).min(axis=0).max() < 0.5
    assert len(marks) >= 24 - 6 - 1  # the last one ends with the job, which has not rested for long
    whole = Stream(names)
    both = np.concatenate([part[0] for part in parts])
    whole.update(both, {name: np.concatenate([part[1][name] for part in parts]) for name in names})
    assert whole.detection == answer, "also if it all comes at once"


def test_survives_jitter_missing_samples_and_empty_readings() -> None:
    trace = job(9, 6, 10.0)
    rng = np.random.default_rng(0)
    kept = rng.random(trace.time.size) > 0.1
    time = (trace.time + rng.uniform(-0.03, 0.03, trace.time.size))[kept]
    metrics = {name: np.where(rng.random(time.size) < 0.1, np.nan, trace.metrics[name][kept]) for name in METRICS}
    metrics["power"][:200] = np.nan
    answer = feed(Stream([*METRICS, "never_read"]), (time, metrics))[-1]
    assert answer is not None
    assert answer.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.03)


@pytest.mark.parametrize("kind", ["serving", "idle"])
def test_abstains_without_training(kind: str) -> None:
    answers = feed(Stream(METRICS), rows(simulate(3, kind=kind)))
    assert {None if answer is None else answer.verdict for answer in answers} <= {None, "none"}


def test_short_cycles_are_steps_once_the_device_rests() -> None:
    """Until then they may be those of an epoch that has not shown."""
    trace = simulate(6, epochs=20, epoch_s=2.5, step_s=0.1, validation_s=0.3, gap_s=0.2, checkpoint_s=0.1)
    target = Stream(METRICS)
    assert {None if answer is None else answer.verdict for answer in feed(target, rows(trace))} <= {None, "none"}
    time = trace.time[-1] + np.arange(1, 200) / 10
    answer = feed(target, (time, {name: np.zeros(time.size) for name in METRICS}))[-1]
    assert answer is not None
    assert (answer.verdict, answer.epochs) == ("steps", ())
    assert answer.step_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.05)


def test_closed_it_answers_as_the_whole_trace() -> None:
    """A machine that is given back as its job ends sends no rest."""
    trace = simulate(6, epochs=20, epoch_s=2.5, step_s=0.1, validation_s=0.3, gap_s=0.2, checkpoint_s=0.1)
    time, values = rows(trace, last=int(10 * (trace.epoch_ends[-1] - trace.time[0])))
    target = Stream(METRICS)
    feed(target, (time, values))
    assert target.detection is None or target.detection.verdict == "none"
    answer, whole = target.close(), detect(time, values)
    assert answer is not None and answer.step_s is not None
    assert (answer.verdict, whole.verdict) == ("steps", "steps")
    assert answer.step_s == pytest.approx(whole.step_s, rel=0.01)
    assert Stream(METRICS).close() is None


def test_a_job_of_steps_alone_is_called_so_in_the_end() -> None:
    time = np.arange(0, 1.3 * STEPS_AFTER) / 10
    level = np.where(time % 2 < 1.5, 0.8, 0.2) + np.random.default_rng(0).normal(0, 0.02, time.size)
    answers = feed(Stream(["dram_active"]), (time, {"dram_active": level}), 100)
    first = next(i for i, answer in enumerate(answers) if answer is not None and answer.verdict == "steps")
    assert 100 * (first + 1) >= STEPS_AFTER
    assert answers[-1] is not None
    assert answers[-1].step_s == pytest.approx(2.0, rel=0.02)


def test_readings_half_a_minute_apart_are_followed(real_trace: Any) -> None:
    """Constants of seconds once parted such telemetry at every sample."""
    time, metrics, labels = real_trace("wandb_boostcampaitech2_object-detection-level2-cv-15_19s5w4br")
    answer = feed(Stream(tuple(metrics), step_s=30.12), (time, metrics), 1)[-1]
    assert answer is not None
    assert answer.verdict == "epochs"
    assert answer.period_s == pytest.approx(np.median(np.diff(labels["epoch_starts"])), rel=0.02)


def test_rests_longer_than_150_samples_belong_to_the_job_if_they_recur(real_trace: Any) -> None:
    """The job's last cycles rest for 50 s, and offline they do not part it."""
    time, metrics, labels = real_trace("h100_ckpt1_gpu0")
    target = Stream(tuple(metrics))
    answer = feed(target, (time, metrics))[-1]
    assert answer is not None
    assert answer.period_s == pytest.approx(np.median(np.diff(labels["epoch_starts"])), rel=0.05)
    assert target.working_since is not None
    assert target.working_since < time[0] + 120


@pytest.mark.parametrize("lead", [3.0, 4.7, 6.1])
def test_the_period_of_means_over_five_seconds_is_no_multiple_of_them(lead: float) -> None:
    """Scraped every second, a window's mean stays for five: the median length of an epoch of 24.1 s was 25."""
    rng = np.random.default_rng(int(10 * lead))
    fine = np.arange(0, 420, 0.1)
    phase = (fine - lead) % 24.1
    level = np.where(fine < lead, 0, np.where(phase < 20.5, 0.8, np.where(phase < 23.3, 0.45, 0.05)))
    time, columns = np.arange(6.0, 420.0), {}
    for name, noise in (("gpu_utilization", 0.02), ("power", 0.02)):
        windows = (level + rng.normal(0, noise, fine.size)).reshape(-1, 50).mean(axis=1)
        columns[name] = windows[(time // 5).astype(int) - 1]
    answer = feed(Stream(tuple(columns), step_s=1.0), (1.7e9 + time, columns), 1)[-1]
    assert answer is not None
    assert answer.period_s == pytest.approx(24.1, rel=0.01)


def test_where_the_period_changes_no_single_one_is_kept() -> None:
    first, second = job(6, 8, 8.0, lead_s=1.0), job(7, 10, 13.0, lead_s=1.0)
    target = Stream(METRICS)
    feed(target, rows(first, last=int(10 * (first.epoch_ends[-1] - first.time[0]))))
    begin = int(10 * (second.epoch_starts[0] - second.time[0]))
    answer = feed(target, rows(second, first=begin, shift=float(first.epoch_ends[-1] - second.epoch_starts[0])))[-1]
    assert answer is None or answer.verdict == "none" or answer.period_s == pytest.approx(13.0, rel=0.1)


def test_late_samples_are_dropped_and_counted() -> None:
    given = rows(job(3))
    clean, target = feed(Stream(METRICS), given), Stream(METRICS)
    for part in portions(given, np.arange(10, given[0].size, 10)):
        target.update(*part)
        target.update(part[0][-3:], {name: values[-3:] + 1 for name, values in part[1].items()})
    assert target.detection == clean[-1]
    assert target.dropped == 3 * -(-given[0].size // 10) - 3 * (given[0].size % 10 in (1, 2))


def test_a_clock_set_back_begins_anew() -> None:
    trace = job(3)
    target = Stream(METRICS)
    feed(target, rows(trace))
    assert target.detection is not None
    answer = feed(target, rows(trace, shift=-3600.0))[-1]
    assert answer is not None
    assert boundaries(answer).max() < trace.time[0]


@pytest.mark.parametrize(
    ("time", "values", "message"),
    [
        ([np.nan], {}, "time holds nan"),
        ([1.0], {"other": [1.0]}, "'other' is not one of this stream's"),
        ([1.0, 2.0], {"power": [1.0]}, "has 1 values for 2 times"),
        ([1.0], {"power": [np.inf]}, "holds inf"),
        ([1.0], {"power": ["x"]}, "not a number"),
        ([[1.0]], {}, "2 dimensions"),
    ],
)
def test_bad_updates_are_one_sentence_and_change_nothing(
    time: list[float], values: dict[str, list[float]], message: str
) -> None:
    given = rows(job(3))
    target = Stream(METRICS)
    feed(target, given)
    before = target.detection
    with pytest.raises(InputError, match=message):
        target.update(time, values)
    assert target.detection is before


@pytest.mark.parametrize(("metrics", "step_s"), [((), 0.1), (("a", "a"), 0.1), (("a",), 0.0)])
def test_bad_streams_are_refused(metrics: tuple[str, ...], step_s: float) -> None:
    with pytest.raises(InputError):
        Stream(metrics, step_s=step_s)


def test_says_since_when_it_hears_and_since_when_the_device_works() -> None:
    trace = job(2, 8, 8.0, lead_s=40.0)
    stream = Stream(METRICS)
    assert (stream.heard_since, stream.working_since) == (None, None)
    feed(stream, rows(trace))
    assert stream.heard_since == trace.time[0]
    assert stream.working_since == pytest.approx(trace.epoch_starts[0], abs=4.0)
    later = float(trace.time[-1] - trace.time[0]) + 1000.0  # after a hole
    feed(stream, rows(trace, shift=later))
    assert stream.heard_since == trace.time[0] + later
    assert stream.working_since == pytest.approx(trace.epoch_starts[0] + later, abs=4.0)


def test_a_device_that_only_blinks_has_never_worked() -> None:
    stream, time = Stream(["dram_active"]), np.arange(0.1, 120.0, 0.1)
    feed(stream, (time, {"dram_active": np.where(np.arange(time.size) % 50 < 10, 0.004, 0.0)}))
    assert stream.working_since is None
