"""A hole in the telemetry of a job that goes on, or of which another one comes after it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from epochcast.analyzer.live.same_job import Hole
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, Owner, Report
from epochcast.detector import Epoch
from lab.simulator import SimulatedTrace, simulate

from ..jobs.made_reports import report
from .conftest import Played, device, joined, of, rows

Play = Callable[[], Played]
EPOCH_S = 18.0
ADA, OTHER = (Owner(4000, "python", "ada"),), (Owner(5000, "python", "ada"),)


@cache
def job(seed: int = 0, epochs: int = 17, epoch_s: float = EPOCH_S) -> SimulatedTrace:
    return of(simulate(seed, epochs=epochs, epoch_s=epoch_s, validation_s=0.1 * epoch_s))


def moved(trace: SimulatedTrace, seconds: float) -> SimulatedTrace:
    """The trace so much later."""
    times = {name: getattr(trace, name) + seconds for name in ("time", "epoch_starts", "epoch_ends")}
    return replace(trace, **times)


def play_rows(
    played: Played, trace: SimulatedTrace, inside: np.ndarray, owners: tuple[Owner, ...] | None = None
) -> Iterator[Report]:
    """Play some rows of a trace, one after another, a second at a time."""
    places = np.flatnonzero(inside)
    for at in range(places[0], places[-1] + 1, 10):
        yield played.take(replace(rows(trace, at, min(at + 10, places[-1] + 1)), owners=owners))


def unseen(trace: SimulatedTrace, begin: float, end: float) -> np.ndarray:
    """Which of the true epochs reach into a hole."""
    return (trace.epoch_starts < end) & (np.append(trace.epoch_starts[1:], trace.epoch_ends[-1]) > begin)


def check(found: list[EpochRecord], trace: SimulatedTrace, begin: float, end: float, lost: int) -> None:
    """All are true, none has a boundary that nobody saw, and at most so many next to the hole are not found."""
    starts = trace.epoch_starts
    true = np.array([starts, np.append(starts[1:], trace.epoch_ends[-1])]).T
    which = []
    for epoch in found:
        away = np.abs(true - (epoch.start, epoch.end)).max(axis=1)
        assert away.min() < 0.5, f"{epoch.start - starts[0]:.1f} to {epoch.end - starts[0]:.1f} s is no epoch"
        assert not begin < epoch.start < end and not begin < epoch.end < end
        which.append(int(away.argmin()))
    assert which == sorted(set(which))
    missing = set(np.flatnonzero(~unseen(trace, begin, end)).tolist()) - set(which)
    assert len(missing) <= lost, f"not found: {missing}"


@pytest.mark.parametrize("restart", [False, True], ids=["watched", "restarted"])
@pytest.mark.parametrize(("hole_s", "after", "owners"), [(47.0, 8, None), (47.0, 8, ADA), (600.0, 6, None), (3300.0, 6, ADA)])
def test_a_job_goes_on_after_a_hole(
    play: Play, hole_s: float, after: int, owners: tuple[Owner, ...] | None, restart: bool
) -> None:
    trace = job(1, 7 + int(hole_s / EPOCH_S) + 1 + after)
    begin = trace.epoch_starts[7] + 0.4 * EPOCH_S
    played = play()
    *_, before = play_rows(played, trace, trace.time <= begin, owners)
    assert before.detection.verdict == "epochs"
    if restart:
        played.restart()
    reports = list(play_rows(played, trace, trace.time >= begin + hole_s, owners))
    assert {report.job_since for report in reports} == {before.job_since}
    assert all(report.detection.verdict == "epochs" and report.profile for report in reports)
    assert {epoch.job_since for epoch in played.epochs} == {before.job_since}
    # The detector starts again after a long hole and after a restart: it takes the first epochs that it sees for cut off.
    check(played.epochs, trace, begin, begin + hole_s, lost=0 if hole_s < 300 and not restart else 2)
    seen = [report.epochs_seen for report in reports]
    assert seen == sorted(seen) and seen[-1] == len(played.epochs)
    assert len(reports[-1].epochs) == len(played.epochs)


@pytest.mark.parametrize("hole_s", [47.0, 600.0])
def test_a_hole_in_a_backlog_is_a_hole(play: Play, hole_s: float) -> None:
    trace, live, backlog = job(1, 48), play(), play()
    begin = trace.epoch_starts[7] + 0.4 * EPOCH_S
    seen = (trace.time <= begin) | (trace.time >= begin + hole_s)
    list(play_rows(live, trace, trace.time <= begin))
    *_, report = play_rows(live, trace, trace.time >= begin + hole_s)
    part = Rows(device(), trace.time[seen], {name: column[seen] for name, column in trace.metrics.items()}, 10.0)
    assert backlog.take(part).job_since == report.job_since
    spans = [np.array([(epoch.start, epoch.end, epoch.job_since) for epoch in played.epochs]) for played in (live, backlog)]
    assert spans[0] == pytest.approx(spans[1], abs=0.3)
    check(backlog.epochs, trace, begin, begin + hole_s, lost=0 if hole_s < 300 else 2)


@pytest.mark.parametrize(
    ("place", "hole_s"),
    [(0.05, 47.0), (0.3, 20.0), (0.6, 200.0), (0.85, 20.0), (0.85, 47.0), (0.97, 200.0), (0.97, 47.0)],
)
def test_wherever_a_hole_begins_no_boundary_is_invented_in_it(play: Play, place: float, hole_s: float) -> None:
    """At 0.85 and 0.97 of an epoch it validates: what is idle before and after a hole need not be idle in it."""
    trace = job(2, 22)
    begin = trace.epoch_starts[8] + place * EPOCH_S
    played = play()
    *_, before = play_rows(played, trace, trace.time <= begin)
    *_, after = play_rows(played, trace, trace.time >= begin + hole_s)
    assert after.job_since == before.job_since
    check(played.epochs, trace, begin, begin + hole_s, lost=0)


@pytest.mark.parametrize(("hole_s", "late_s"), [(47.0, 25.0), (600.0, 0.0)])
def test_another_process_is_another_job(play: Play, hole_s: float, late_s: float) -> None:
    """Also if its job is the same training again, and if the processes are read some time after the samples."""
    first, played = job(3), play()
    begin = first.epoch_starts[7] + 0.4 * EPOCH_S
    *_, before = play_rows(played, first, first.time <= begin, ADA)
    second = moved(job(4), begin + hole_s - job(4).epoch_starts[2])
    since = second.epoch_starts[2]
    list(play_rows(played, second, (second.time >= since) & (second.time < since + late_s + 0.1)))
    *_, after = play_rows(played, second, second.time >= since + late_s + 0.1, OTHER)
    assert before.job_since is not None and after.job_since == pytest.approx(since, abs=1.0)
    for epoch in played.epochs:
        assert epoch.job_since == (before.job_since if epoch.end <= begin else after.job_since)
    assert 12 <= len(after.epochs) <= 15


@pytest.mark.parametrize(("epoch_s", "apart"), [(25.0, 0.0), (EPOCH_S, 0.5)], ids=["other length", "out of phase"])
@pytest.mark.parametrize("restart", [False, True], ids=["watched", "restarted"])
def test_without_owners_other_epochs_are_another_job(play: Play, epoch_s: float, apart: float, restart: bool) -> None:
    first, second, played = job(5), job(6, 17, epoch_s), play()
    begin = first.epoch_starts[9] + 0.4 * EPOCH_S
    *_, before = play_rows(played, first, first.time <= begin)
    if restart:
        played.restart()
    period = float(np.diff(first.epoch_starts)[1:9].mean())
    second = moved(second, first.epoch_starts[9] + (20 + apart) * period - second.epoch_starts[2])
    since = begin + 20 * period
    reports = list(play_rows(played, second, second.time >= since))
    assert reports[0].job_since == before.job_since, "as long as nothing speaks against it"
    assert reports[-1].job_since == pytest.approx(since, abs=1.0)
    assert {epoch.job_since for epoch in played.epochs} == {before.job_since, reports[-1].job_since}
    assert all((epoch.job_since == before.job_since) == (epoch.end <= begin) for epoch in played.epochs)
    assert len(reports[-1].epochs) >= 12


def test_without_owners_work_that_shows_no_epochs_is_another_job(play: Play) -> None:
    first, played = job(7), play()
    *_, before = play_rows(played, first, first.time <= first.epoch_starts[8])
    serving = of(simulate(4, kind="serving", epochs=14, epoch_s=20.0))
    serving = moved(serving, first.epoch_starts[8] + 600 - serving.time[150])
    reports = list(play_rows(played, serving, serving.time >= serving.time[150]))
    assert reports[0].job_since == before.job_since
    assert reports[-1].job_since == pytest.approx(serving.time[150], abs=1.0)
    assert reports[-1].detection.verdict == "none"


@pytest.mark.parametrize("rest_s", [0.0, 30.0], ids=["not seen", "seen"])
def test_a_gpu_that_was_seen_idle_has_ended_its_job(play: Play, rest_s: float) -> None:
    """The same processes or not: what was seen counts before what was not."""
    trace, played = joined(job(8), job(8), pause_s=700.0), play()
    end = trace.epoch_ends[16]
    *_, before = play_rows(played, trace, trace.time <= (end + rest_s if rest_s else trace.epoch_starts[16]), ADA)
    assert (before.state == "idle") == (rest_s > 0)
    hole_end = trace.epoch_starts[17] + (end - trace.epoch_starts[17]) * 0.2
    reports = list(play_rows(played, trace, trace.time >= hole_end, ADA))
    assert reports[30].state == "idle", "it rests after the hole, too"
    assert reports[30].job_since == before.job_since, "until another job comes, this is the last one"
    assert reports[-1].job_since == pytest.approx(trace.epoch_starts[17], abs=5.0)
    assert len(reports[-1].epochs) >= 16


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (Owner(1), Owner(1), True),
        (Owner(1), Owner(2), False),
        (Owner(1, container="c"), Owner(2, container="c"), True),
        (Owner(1, container="c"), Owner(1, container="d"), False),
        (Owner(1, slurm_job="7"), Owner(2, slurm_job="7"), True),
        (Owner(1, slurm_job="7", container="c"), Owner(1, slurm_job="8", container="c"), False),
        (Owner(1, pod="p"), Owner(1), True),
        (Owner(1), Owner(1, "nv-hostengine"), None),
    ],
)
def test_owners_say_whether_it_is_the_same_job(before: Owner, after: Owner, kept: bool | None) -> None:
    assert Hole(0.0, 47.0, (before,)).kept_by((after,)) is kept
    assert Hole(0.0, 47.0, ()).kept_by((after,)) is None


@pytest.mark.parametrize(
    ("hole_s", "length", "phase", "kept"),
    [
        (600.0, 30.0, 0.0, True),
        (600.0, 30.0, 0.1, True),
        (600.0, 30.0, 0.5, False),
        (600.0, 34.0, 0.0, False),
        (120.0, 30.0, 0.5, True),  # the stream would have seen another job
        (120.0, 34.0, 0.0, False),
    ],
)
def test_epochs_say_whether_it_is_the_same_job(hole_s: float, length: float, phase: float, kept: bool) -> None:
    before = report(period=30.0)
    end = before.epochs[-1].end
    starts = end + 30 * (np.ceil(hole_s / 30) + phase) + length * np.arange(4)
    epochs = [Epoch(start, start + length, 0.9) for start in starts]
    assert Hole(end, end + hole_s, ()).kept_by_epochs(before, epochs) is kept


def test_the_less_even_epochs_are_the_less_phase_says() -> None:
    before, rng = report(period=30.0, epochs=10), np.random.default_rng(0)
    ends = np.cumsum(rng.normal(30, 1.0, 11)) + before.epochs[0].start
    uneven = replace(before, epochs=tuple(EpochRecord(*span, 0.9, 0.0) for span in pairwise(ends)))
    for each, kept in ((before, False), (uneven, True)):
        start = each.epochs[-1].end + 40.3 * 30
        epochs = [Epoch(start + 30 * n, start + 30 * (n + 1), 0.9) for n in range(4)]
        assert Hole(each.epochs[-1].end, start, ()).kept_by_epochs(each, epochs) is kept
