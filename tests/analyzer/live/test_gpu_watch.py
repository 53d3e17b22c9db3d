"""One GPU watched while its jobs run, against its whole trace looked at afterwards, and against the truth."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.jobs.sources import profile_of
from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.live.known_epochs import KnownEpochs, News
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import EpochRecord
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import Detection, Epoch
from epochcast.regressor import Catalog
from lab.simulator import SimulatedTrace, simulate, simulate_class

from .conftest import FEW, Played, device, joined, of, rows

Play = Callable[[], Played]


@cache
def whole_job(seed: int = 1, epochs: int = 12, epoch_s: float = 12.0) -> SimulatedTrace:
    return simulate(seed, epochs=epochs, epoch_s=epoch_s, validation_s=0.1 * epoch_s)


@cache
def job(seed: int = 1, epochs: int = 12, epoch_s: float = 12.0) -> SimulatedTrace:
    return of(whole_job(seed, epochs, epoch_s))


def check_epochs(found: list[EpochRecord], trace: SimulatedTrace, within_s: float = 1.0) -> None:
    """Every epoch found is a true one, and none is there twice. The last ends with the job, which says so only by resting."""
    for epoch in found:
        nearest = int(np.argmin(np.abs(trace.epoch_starts - epoch.start)))
        assert abs(trace.epoch_starts[nearest] - epoch.start) <= within_s
        nexts = trace.epoch_starts[trace.epoch_starts > trace.epoch_starts[nearest]]
        end = nexts[0] if nexts.size and nexts[0] - trace.epoch_ends[nearest] < 5 else trace.epoch_ends[nearest]
        assert abs(end - epoch.end) <= within_s
    for one, other in pairwise(found):
        assert other.start >= one.end - 1e-6


def test_ends_with_the_profile_of_the_whole_trace(play: Play, catalog: Catalog) -> None:
    trace = whole_job()
    report = play().played(trace)
    whole, found = profile_of(Trace(pd.DataFrame({"time": trace.time, **trace.metrics}), gpu=trace.gpu), catalog)
    assert report.detection.verdict == found.verdict == "epochs"
    assert report.detection.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.02)
    assert report.detection.confidence == pytest.approx(found.confidence, abs=0.1)
    assert report.profile is not None
    assert (report.profile.gpu, report.profile.simulated) == (whole.gpu, True)
    assert report.profile.epoch_s == pytest.approx(whole.epoch_s, rel=0.02)
    assert report.profile.first_epoch_excluded
    assert set(report.profile.metrics) == set(whole.metrics)
    for name, statistics in whole.metrics.items():
        spread = statistics["max"] - statistics["min"]
        assert report.profile.metrics[name]["mean"] == pytest.approx(statistics["mean"], rel=0.01, abs=0.01 * spread), name


@pytest.mark.parametrize("again", [False, True])
def test_what_is_held_but_idle_in_a_job_is_counted_sample_by_sample(play: Play, again: bool) -> None:
    """Two seconds at the begin of each of 12 epochs; a restart loses those since the newest profile."""
    trace = whole_job()
    idle = np.zeros(trace.time.size, dtype=bool)
    for start in trace.epoch_starts:
        idle |= (trace.time > start) & (trace.time <= start + 2)
    metrics = {name: trace.metrics[name] for name in FEW}
    metrics |= {"memory_used": np.full(idle.size, 5 * 2.0**30), "gr_engine_active": np.where(idle, 0.0, 0.9)}
    trace, played = replace(trace, metrics=metrics), play()
    reports = []
    for number, report in enumerate(played.play(trace)):
        reports.append(report)
        if again and number == 30:
            played.restart()
    counted = [one.profile.held_idle_s for one in reports if one.profile is not None]
    assert all(later >= earlier for earlier, later in pairwise(counted) if later is not None and earlier is not None)
    assert counted[-1] == pytest.approx(2 * 12, abs=0.5) if not again else 2 * 10 <= counted[-1] < 2 * 12


def test_every_epoch_is_told_once_with_its_own_profile(play: Play) -> None:
    trace, played = job(), play()
    seen = [report.epochs_seen for report in played.play(trace)]
    check_epochs(played.epochs, trace)
    assert len(played.epochs) == 12 == seen[-1]
    assert seen == sorted(seen)
    for epoch in played.epochs[1:]:
        inside = (trace.time >= epoch.start) & (trace.time < epoch.end)
        assert epoch.profile is not None
        assert epoch.profile.epoch_s == pytest.approx(epoch.seconds)
        assert epoch.profile.metrics["power"]["mean"] == pytest.approx(np.nanmean(trace.metrics["power"][inside]), rel=0.01)


def test_epochs_are_told_while_they_come(play: Play) -> None:
    """Once there is an answer, an epoch is told before the next one is over."""
    trace = job()
    late = []
    for report in play().play(trace):
        if report.epochs and report.last_sample is not None and report.last_sample < trace.epoch_ends[-1]:
            late.append((report.last_sample - report.epochs[-1].end) / 12.0)
    assert late
    assert max(late) < 1.7


@pytest.mark.parametrize("cut_s", [100.0, 131.0])
def test_a_restart_loses_no_epoch_and_tells_none_twice(play: Play, cut_s: float) -> None:
    """With nothing but the store and the last 60 s that an agent still holds."""
    trace, played = job(), play()
    cut = int(10 * cut_s)
    before = played.played(trace, last=cut)
    assert before.detection.verdict == "epochs"
    played.restart()
    assert played.watch.report().epochs_seen == before.epochs_seen
    assert played.watch.report().profile == before.profile
    seen, profiles = [], []
    for report in played.play(trace, first=cut - 600):
        seen.append(report.epochs_seen)
        profiles.append(report.profile)
        assert report.detection.verdict == "epochs"  # it is the same job: what was known of it is still so
        assert report.job_since == before.job_since
    assert seen == sorted(seen)
    assert seen[-1] == 12
    assert None not in profiles
    check_epochs(played.epochs, trace)
    assert len(played.epochs) == 12
    assert {epoch.job_since for epoch in played.epochs} == {before.job_since}
    assert len(report.epochs) == 12


def test_a_restart_without_any_history_leaves_out_what_it_did_not_see_whole(play: Play) -> None:
    trace, played = job(), play()
    played.played(trace, last=1000)
    seen = len(played.epochs)
    played.restart()
    played.played(trace, first=1060)
    check_epochs(played.epochs, trace)
    assert seen + 1 < len(played.epochs) < 12


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ((145.0, 200.0), None),  # the part of the second epoch that this watch heard
        ((160.0, 300.0), (200.0, 300.0)),
        ((210.0, 300.0), (210.0, 300.0)),
    ],
)
def test_what_an_earlier_watch_saw_whole_stays_as_it_was(found: tuple[float, float], told: tuple[float, float] | None) -> None:
    known = KnownEpochs([EpochRecord(start, start + 100.0, 0.9, 0.0) for start in (0.0, 100.0)], 2)

    def record(epoch: Epoch, _first: float) -> EpochRecord:
        return EpochRecord(epoch.start, epoch.end, epoch.confidence, 0.0)

    news = known.settle([Epoch(*found, 0.9)], heard_since=145.0, hertz=10.0, record=record)
    assert [(epoch.start, epoch.end) for epoch in news.epochs] == ([] if told is None else [told])


def test_an_epoch_that_had_begun_before_anybody_listened_is_not_told(play: Play) -> None:
    trace, played = job(), play()
    first = int(np.argmax(trace.time > trace.epoch_starts[1] + 5.0))
    report = played.played(trace, first=first)
    check_epochs(played.epochs, trace)
    assert report.profile is not None
    assert report.profile.epochs == len(played.epochs) >= 9


def test_jobs_are_told_apart(play: Play) -> None:
    one, other = job(), job(2, 14, 8.0)
    trace, played = joined(one, other, pause_s=4.0), play()
    reports = list(played.play(trace))
    check_epochs(played.epochs, trace)
    began = sorted({epoch.job_since for epoch in played.epochs})
    assert len(began) == 2
    assert [sum(epoch.job_since == since for epoch in played.epochs) for since in began] == [12, 14]
    last = reports[-1]
    assert last.job_since == began[1] == pytest.approx(trace.epoch_starts[12], abs=3.0)
    assert len(last.epochs) == 14
    assert last.epochs_seen == 26
    assert last.profile is not None
    assert last.profile.epochs == 13
    assert last.detection.period_s == pytest.approx(8.0, rel=0.04)
    idle = [report for report in reports if report.state == "idle" and report.job_since == began[0]]
    assert idle, "the GPU rested"
    assert idle[-1].profile is not None  # the job before it is still told of


def test_steps_give_seconds_without_epochs(play: Play) -> None:
    trace, played = joined(of(simulate_class("llm_steps", 3)), pause_s=30.0), play()
    report = played.played(trace, portion=50)
    assert report.detection.verdict == "steps"
    assert played.epochs == []
    assert report.profile is not None
    assert (report.profile.unit, report.profile.epoch_s) == ("cycle", pytest.approx(report.detection.period_s, rel=0.01))


def test_work_without_a_cycle_gives_a_profile_for_ratios(play: Play) -> None:
    trace = of(simulate(4, kind="serving", epochs=5, epoch_s=20.0))
    reports = list(play().play(trace))
    assert all(report.profile is None for report in reports[:14])
    last = reports[-1]
    found = last.detection
    assert (found.verdict, found.period_s, found.confidence) == ("none", None, 0.0)
    assert last.profile is not None
    assert (last.profile.unit, last.profile.epoch_s) == (None, None)
    assert last.profile.metrics["sm_active"]["mean"] == pytest.approx(trace.metrics["sm_active"][130:-130].mean(), rel=0.05)


def test_unsure_epochs_are_not_told_and_give_a_profile_without_seconds(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("jobs.detected_profile", "live.gpu_watch"):
        monkeypatch.setattr(f"epochcast.analyzer.{module}.LEAST_CONFIDENCE", 1.1)
    played = play()
    report = played.played(job())
    assert report.detection.verdict == "epochs"
    assert report.detection.period_s == pytest.approx(12.0, rel=0.05)
    assert (played.epochs, report.epochs, report.epochs_seen) == ([], (), 0)
    assert report.profile is not None
    assert (report.profile.epoch_s, report.profile.unit) == (None, None)
    assert report.profile.epochs > 0


@pytest.mark.parametrize(("name", "source"), [("AMD EPYC 7763", "host"), ("A thing that nobody knows", "replay")])
def test_without_a_known_gpu_there_are_epochs_but_no_profiles(catalog: Catalog, name: str, source: str) -> None:
    watch, trace, news = GpuWatch(device(name=name, source=source), catalog), job(epochs=8), News()
    for at in range(0, trace.time.size, 200):
        part = slice(at, at + 200)
        values = {"cpu_utilization": trace.metrics["sm_active"][part], "rss": trace.metrics["dram_active"][part]}
        news += watch.take(Rows(device(name=name, source=source), trace.time[part], values, 10.0))
    assert watch.report().detection.verdict == "epochs"
    assert len(news.epochs) >= 6
    assert all(epoch.profile is None for epoch in news.epochs)
    assert watch.report().profile is None


def test_rows_that_come_twice_or_late_are_counted_and_ignored(catalog: Catalog) -> None:
    trace = job()
    once, twice = GpuWatch(device(), catalog), GpuWatch(device(), catalog)
    for at in range(0, 1000, 100):
        once.take(rows(trace, at, at + 100))
        twice.take(rows(trace, max(0, at - 50), at + 100))
    assert twice.report().dropped == 450
    assert replace(twice.report(), samples=1000, dropped=0) == once.report()


@pytest.mark.parametrize("shift_s", [4000.0, -1e6])
def test_a_hole_or_a_clock_that_was_set_begins_anew(play: Play, shift_s: float) -> None:
    """What was found before stays; what comes is found as by a new watch."""
    trace, played = job(epochs=8), play()
    played.played(trace, portion=100)
    before = played.epochs
    shift = trace.time[-1] - trace.time[0] + shift_s
    again = replace(
        trace, time=trace.time + shift, epoch_starts=trace.epoch_starts + shift, epoch_ends=trace.epoch_ends + shift
    )
    report = played.played(again, portion=100)
    assert report.epochs_seen == 16
    assert len(report.epochs) == 8
    assert {epoch.start for epoch in before} < {epoch.start for epoch in played.epochs}
    check_epochs([epoch for epoch in played.epochs if epoch not in before], again)


def test_metrics_that_end_are_replaced_by_those_that_there_are(catalog: Catalog) -> None:
    """DCGM went away, NVML is read instead."""
    watch, trace = GpuWatch(device(), catalog), of(whole_job(epochs=20), ("dram_active", "sm_active", "pcie_rx", "power"))
    fast = ("dram_active", "sm_active", "pcie_rx")
    for at in range(0, trace.time.size, 100):
        part = rows(trace, at, at + 100)
        gone = {} if at < 1000 else {name: np.full(part.time.size, np.nan) for name in fast}
        watch.take(replace(part, values={**part.values, **gone}))
    assert watch.report().detection.period_s == pytest.approx(np.median(np.diff(trace.epoch_starts)), rel=0.03)
    assert watch.report().epochs[-1].end > trace.epoch_ends[-2] - 2


def test_a_metric_that_comes_later_is_used_from_the_next_job_on(catalog: Catalog) -> None:
    """NVML's alone for the first job; DCGM is there from its fourth epoch on."""
    names = ("dram_active", "sm_active", "power", "gpu_utilization", "memory_utilization")
    trace = joined(of(whole_job(epochs=8), names), of(whole_job(2, 8), names), pause_s=4.0)
    watch, epochs = GpuWatch(device(), catalog), []
    late = {"dram_active", "sm_active"}
    for at in range(0, trace.time.size, 100):
        part = rows(trace, at, at + 100)
        values = {name: column for name, column in part.values.items() if at >= 600 or name not in late}
        epochs += watch.take(replace(part, values=values)).epochs
        if at == 800:
            assert "dram_active" not in watch._metrics
    assert "dram_active" in watch._metrics
    second = [epoch for epoch in epochs if epoch.start > trace.epoch_ends[7]]
    check_epochs(second, trace)
    assert len(second) == 8
    assert watch.report().profile is not None
    assert watch.report().profile.first_epoch_excluded


def test_an_answer_that_is_taken_back_leaves_the_epochs_of_the_one_before(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two epochs are taken for one, and then found again, one of them to the sample where it was."""
    start = 1.7e9
    answers = [
        [10.0, 20.0, 30.0, 40.0],
        [10.0, 20.0, 40.0],
        [10.0, 20.0, 30.0, 39.0, 50.0],
        [10.0, 20.0, 30.0, 39.0, 50.0, 60.0],
    ]

    class Scripted:
        heard_since, working_since, state, nbytes = start, start + 9.0, "answered", 0

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def update(self, *_: object) -> Detection:
            marks = [start + mark for mark in answers.pop(0)]
            epochs = tuple(Epoch(*span, 0.9) for span in pairwise(marks))
            return Detection("epochs", 10.0, None, epochs, 0.9, "track", "wall")

    monkeypatch.setattr("epochcast.analyzer.live.gpu_watch.Stream", Scripted)
    watch, store, seen = GpuWatch(device(), catalog), {}, []
    for at in range(4):
        time = start + 20.0 * at + np.arange(1, 101) / 5.0
        news = watch.take(Rows(device(), time, {"dram_active": np.ones(100), "power": np.full(100, 60.0)}, 5.0))
        for gone in news.instead_of:
            del store[gone]
        store |= {epoch.start: epoch for epoch in news.epochs}
        seen.append(watch.report().epochs_seen)
    assert [(epoch.start - start, epoch.end - start) for epoch in sorted(store.values(), key=lambda one: one.start)] == [
        *[(10.0, 20.0), (20.0, 30.0), (30.0, 39.0), (39.0, 50.0), (50.0, 60.0)]
    ]
    assert seen == [3, 3, 4, 5]


def test_memory_of_a_watch_is_bounded(catalog: Catalog) -> None:
    watch, trace = GpuWatch(device(), catalog), simulate(3, kind="idle", epochs=60, epoch_s=20.0)

    def nbytes() -> int:
        assert watch._stream is not None
        samples = vars(watch._samples).values()
        return watch._stream.nbytes + sum(held.nbytes for held in samples if isinstance(held, np.ndarray))

    watch.take(rows(trace, last=1000))
    held = nbytes()
    watch.take(rows(trace, first=1000))
    assert nbytes() == held < 2.6e6


def test_a_source_of_one_reading_in_half_a_minute_will_do(catalog: Catalog) -> None:
    """The same job, thirty times as slow and read as much more seldom: constants of seconds knew nothing of it."""
    trace = of(simulate(1, epochs=12, epoch_s=60.0, validation_s=6.0, step_s=1.0))
    watch, time = GpuWatch(device(), catalog), trace.time[0] + 30 * (trace.time - trace.time[0])
    for at in range(0, trace.time.size, 10):
        watch.take(Rows(device(), time[at : at + 1], {name: c[at : at + 1] for name, c in trace.metrics.items()}, 1 / 30))
    report = watch.report()
    assert report.detection.verdict == "epochs"
    assert report.detection.period_s == pytest.approx(30 * float(np.median(np.diff(trace.epoch_starts))), rel=0.02)
    assert report.epochs_seen >= 10
    assert report.profile is not None
