"""All sources into one store: what fails is counted, and the rest goes on."""

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.live import polling
from epochcast.analyzer.live import watcher as module
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.live.watcher import Watcher
from epochcast.analyzer.telemetry import NodeReport, Rows, TelemetryError
from epochcast.analyzer.telemetry.gpu_report import NOTHING, EpochRecord, Report
from epochcast.detector import Detection
from epochcast.regressor import Catalog
from lab.simulator import SimulatedTrace, simulate

from ...processes import wait_until
from .conftest import UUID, device, of, rows
from .test_state_file import damage

Answer = Sequence[Rows | NodeReport] | Exception


class Scripted:
    """A source that answers what it was told to, then nothing."""

    def __init__(self, *answers: Answer, kind: str = "agent", name: str = "a", interval_s: float = 0.01) -> None:
        self.kind, self.name, self.interval_s = kind, name, interval_s
        self.clock_offset_s: float | None = None
        self.problems: tuple[str, ...] = ()
        self.answers = list(answers)
        self.closed = False

    def poll(self) -> Sequence[Rows | NodeReport]:
        answer = self.answers.pop(0) if self.answers else ()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    made = StateStore(tmp_path / "state.db")
    yield made
    made.close()


@pytest.fixture(scope="module")
def trace() -> SimulatedTrace:
    return of(simulate(1, epochs=12, epoch_s=12.0, validation_s=1.2))


def parts(trace: SimulatedTrace, portion: int = 300, uuid: str = UUID, first: int = 0) -> list[Answer]:
    return [[rows(trace, at, at + portion, uuid)] for at in range(first, trace.time.size, portion)]


def run(watcher: Watcher, until: Callable[[], bool]) -> None:
    """Let it run until something is so; no test waits longer than it must."""
    stop, failed = threading.Event(), []

    def target() -> None:
        try:
            watcher.run(stop)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=target)
    thread.start()
    try:
        wait_until(lambda: until() or not thread.is_alive())
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()
    assert not failed
    assert until(), "it did not come to pass"


def test_epochs_of_several_gpus_arrive_in_the_store(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    both = [[*one, *other] for one, other in zip(parts(trace), parts(trace, uuid="GPU-2"), strict=True)]
    source = Scripted(*both)
    watcher = Watcher([source], store, catalog=catalog)
    run(watcher, lambda: all(watcher.reports.get(u) and watcher.reports[u].samples == trace.time.size for u in (UUID, "GPU-2")))
    for uuid in (UUID, "GPU-2"):
        assert len(store.epochs(uuid)) == 12
        assert store.reports()[uuid].epochs_seen == 12
    (status,), health = watcher.sources, watcher.health
    assert (status.up, status.errors, status.newest) == (True, 0, trace.time[-1])
    assert (health.gpus, health.dropped, health.store_errors) == (2, 0, 0)
    assert health.cpu_s > 0
    assert source.closed


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TelemetryError("agent a does not answer"), "agent a does not answer"),
        (RuntimeError("a bug"), "agent broken: RuntimeError: a bug"),
    ],
)
def test_a_source_that_fails_is_counted_and_holds_up_no_other(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace, error: Exception, told: str
) -> None:
    broken, sound = Scripted(*[error] * 99, name="broken"), Scripted(*parts(trace), name="sound")
    watcher = Watcher([broken, sound], store, catalog=catalog)
    run(watcher, lambda: len(watcher.reports.get(UUID, EMPTY).epochs) == 12)
    statuses = {status.name: status for status in watcher.sources}
    assert statuses["broken"].up is False
    assert statuses["broken"].error == told, "one sentence, which names the source once"
    assert statuses["broken"].errors >= 1
    assert statuses["broken"].polls - statuses["broken"].errors in (0, 1)  # one may be under way
    assert statuses["sound"].up is True


def test_a_source_that_failed_is_asked_again(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    answers = parts(trace)
    source = Scripted(answers[0], TelemetryError("away"), TelemetryError("away"), *answers[1:])
    watcher = Watcher([source], store, catalog=catalog)
    run(watcher, lambda: len(watcher.reports.get(UUID, EMPTY).epochs) == 12)
    (status,) = watcher.sources
    assert (status.up, status.error, status.errors) == (True, "", 2)


def test_a_source_that_hangs_holds_up_no_other(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    release = threading.Event()

    class Hanging(Scripted):
        def poll(self) -> Sequence[Rows | NodeReport]:
            release.wait(60)
            return ()

    watcher = Watcher([Hanging(name="hangs"), Scripted(*parts(trace))], store, catalog=catalog)
    try:
        run(watcher, lambda: len(watcher.reports.get(UUID, EMPTY).epochs) == 12)
    finally:
        release.set()


def test_rows_that_nobody_can_use_cost_nothing_else(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    good = parts(trace)
    bad = replace(rows(trace, 0, 100, "GPU-bad"), values={"power": np.full(100, 1e200)})
    ragged = replace(rows(trace, 0, 100, "GPU-ragged"), values={"power": np.zeros(3)})
    watcher = Watcher([Scripted([bad, ragged], *good)], store, catalog=catalog)
    run(watcher, lambda: len(watcher.reports.get(UUID, EMPTY).epochs) == 12)
    assert watcher.sources[0].errors == 1  # the ragged one; what no hardware reads is no reading
    assert watcher.reports["GPU-bad"].detection.verdict == "none"


def test_a_full_disk_is_counted_and_nothing_is_lost(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first writes fail; once the disk has room again, all epochs are written."""
    monkeypatch.setattr(module, "_WRITE_S", 0.1)
    write, failures = store.write_gpus, []

    def full(*arguments: object, **named: object) -> None:
        if len(failures) < 4:
            failures.append(1)
            raise sqlite3.OperationalError("database or disk is full")
        write(*arguments, **named)

    monkeypatch.setattr(store, "write_gpus", full)
    watcher = Watcher([Scripted(*parts(trace))], store, catalog=catalog)
    run(watcher, lambda: len(store.epochs(UUID)) == 12)
    health = watcher.health
    assert (health.store_errors, health.store_error) == (4, "")


class Hand:
    """A watcher whose clock and answers a test moves by hand."""

    def __init__(self, store: StateStore, catalog: Catalog, *sources: Scripted) -> None:
        self.now = 1000.0
        self.watcher = Watcher(sources, store, catalog=catalog, clock=lambda: self.now)
        self._polled = {polled.source.name: polled for polled in self.watcher._polling._polled}

    def tell(self, source: str, told: Rows | NodeReport, after_s: float = 0.0) -> None:
        self.now += after_s
        self.watcher._hear(self._polled[source], told)
        self.watcher._turn()


@pytest.mark.parametrize("silent_s", [30.0, 90.0])
def test_of_a_gpu_that_two_sources_tell_the_first_is_believed(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace, silent_s: float
) -> None:
    hand = Hand(store, catalog, Scripted(name="first"), Scripted(name="second", kind="prometheus"))
    hand.tell("second", rows(trace, 0, 100))
    hand.tell("first", rows(trace, 0, 200), after_s=2)  # the better one, as soon as it tells
    assert hand.watcher.reports[UUID].samples == 200
    hand.tell("second", rows(trace, 0, 300), after_s=silent_s)
    assert hand.watcher.reports[UUID].last_sample == (trace.time[199] if silent_s < 60 else trace.time[299])


def test_a_source_that_is_seldom_asked_is_not_silent_meanwhile(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace
) -> None:
    hand = Hand(store, catalog, Scripted(name="first", interval_s=40.0), Scripted(name="second"))
    hand.tell("first", rows(trace, 0, 200))
    hand.tell("second", rows(trace, 0, 300), after_s=90)
    assert hand.watcher.reports[UUID].last_sample == trace.time[199]
    hand.tell("second", rows(trace, 0, 300), after_s=40)
    assert hand.watcher.reports[UUID].last_sample == trace.time[299]


def test_a_silent_gpu_keeps_its_report_and_frees_its_memory(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    hand = Hand(store, catalog, Scripted(), Scripted(name="b"))
    for part in parts(trace, 500)[:3]:
        hand.tell("a", part[0])
    before = hand.watcher.reports[UUID]
    assert before.detection.verdict == "epochs"
    assert hand.watcher.health.gpus == 1
    hand.tell("b", rows(trace, 0, 10, "GPU-2"), after_s=2)
    hand.tell("b", rows(trace, 10, 20, "GPU-2"), after_s=700)
    assert hand.watcher.health.gpus == 1  # the other one's
    closed = hand.watcher.reports[UUID]  # all of the job was searched once more
    assert (closed.detection.verdict, closed.job_since, closed.samples) == ("epochs", before.job_since, before.samples)
    assert closed.detection.period_s == pytest.approx(before.detection.period_s, rel=0.02)
    assert store.reports()[UUID] == closed
    hand.tell("a", rows(trace, 1500, None))
    after = hand.watcher.reports[UUID]  # goes on from the store
    assert (after.detection.verdict, after.job_since) == ("epochs", before.job_since)
    assert after.epochs_seen >= before.epochs_seen


def test_a_finished_file_is_searched_as_a_whole(store: StateStore, catalog: Catalog, trace: SimulatedTrace) -> None:
    """Of four epochs: searches while it is read do not yet agree."""
    hand = Hand(store, catalog, Scripted())
    hand.tell("a", replace(rows(trace, 0, 600), ended=True))
    assert hand.watcher.reports[UUID].detection.verdict == "none"
    hand.tell("a", rows(trace, 0, 10, "GPU-2"), after_s=61)
    assert (hand.watcher.reports[UUID].detection.verdict, hand.watcher.health.gpus) == ("epochs", 1)


def record(start: float, end: float) -> EpochRecord:
    return EpochRecord(start, end, 0.9, 0.0)


EMPTY = Report(device(), "idle", NOTHING, None, 0)
FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")


def test_what_a_node_tells_goes_through(store: StateStore, catalog: Catalog) -> None:
    hand = Hand(store, catalog, Scripted(kind="node", name="n"))
    report = replace(EMPTY, state="answered", detection=FOUND, epochs_seen=2, last_sample=25.0)
    hand.tell("n", NodeReport(report, (record(0, 10), record(10, 20))))
    assert store.reports() == {UUID: report}
    assert all(heard.by_node for heard in store.heard().values())
    hand.tell("n", NodeReport(replace(report, epochs_seen=3), (record(10.2, 20), record(20, 30))), after_s=5)
    assert [(epoch.start, epoch.end) for epoch in store.epochs(UUID)] == [(0, 10), (10.2, 20), (20, 30)]
    hand.tell("n", NodeReport(replace(report, epochs_seen=3), (record(0, 10), record(10.2, 20))), after_s=5)  # told twice
    assert len(store.epochs(UUID)) == 3
    hand.tell("n", NodeReport(replace(report, epochs_seen=4), (record(30, 40),)))  # not written yet ...
    hand.tell("n", NodeReport(replace(report, epochs_seen=4), (record(30.2, 40.2),)))  # ... when it is found again
    hand.tell("n", NodeReport(replace(report, epochs_seen=4)), after_s=5)
    assert [epoch.start for epoch in store.epochs(UUID)] == [0, 10.2, 20, 30.2]
    assert hand.watcher.health.gpus == 0


def test_a_node_whose_agent_is_silent_tells_nothing_of_the_gpu(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace
) -> None:
    hand = Hand(store, catalog, Scripted(kind="node", name="n"), Scripted(name="a"))
    stale = NodeReport(replace(EMPTY, state="answered", detection=FOUND, last_sample=25.0))
    hand.tell("n", stale)
    told = store.heard()[UUID].at
    for _ in range(8):  # the node answers, and always the same
        hand.tell("n", stale, after_s=10)
    assert store.heard()[UUID].at == told
    hand.tell("a", rows(trace, 0, 100))
    assert hand.watcher.reports[UUID].samples == 100  # who has samples is believed in its place
    hand.tell("n", NodeReport(replace(stale.report, last_sample=26.0)), after_s=1)
    assert store.heard()[UUID].at > told


def test_of_a_report_that_has_not_changed_only_the_pulse_is_written(store: StateStore, catalog: Catalog) -> None:
    hand = Hand(store, catalog, Scripted(kind="node", name="n"))
    report = replace(EMPTY, last_sample=25.0, samples=1)
    hand.tell("n", NodeReport(report))
    ((written, *_),) = store.changed_reports(0)
    report = replace(report, last_sample=30.0, samples=51)
    hand.tell("n", NodeReport(report), after_s=5)
    assert store.changed_reports(written) == [] and store.reports() == {UUID: report}
    hand.tell("n", NodeReport(replace(report, state="searching", last_sample=31.0)), after_s=5)
    assert len(store.changed_reports(written)) == 1


def test_a_value_that_cannot_be_stored_holds_up_no_other_gpu(store: StateStore, catalog: Catalog) -> None:
    hand = Hand(store, catalog, Scripted(kind="node", name="n"))
    for uuid, bad in (("GPU-1", {"static": {"tdp": object()}}), ("GPU-2", {}), ("GPU-3", {})):
        report = replace(EMPTY, device=replace(device(uuid), **bad), last_sample=25.0)
        epochs = (replace(record(0, 10), confidence=float("nan")), record(10, 20)) if uuid == "GPU-3" else (record(0, 10),)
        hand.watcher._hear(hand._polled["n"], NodeReport(report, epochs))
    hand.watcher._turn()
    assert set(store.reports()) == {"GPU-2"}
    assert len(store.epochs("GPU-2")) == 1
    assert hand.watcher.health.store_errors == 2
    hand.tell("n", NodeReport(replace(EMPTY, device=device("GPU-3"), last_sample=26.0)), after_s=5)
    assert set(store.reports()) == {"GPU-2", "GPU-3"}  # what cannot be stored is not tried for ever
    assert hand.watcher.health.store_errors == 2


def test_between_the_parts_of_a_long_recording_the_watcher_tells(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TURN_ROWS", 500)
    turns = []
    watcher = Watcher([Scripted([rows(trace)])], store, catalog=catalog)
    monkeypatch.setattr(watcher, "_turn", lambda: turns.append(sum(one.samples for one in watcher.reports.values())))
    run(watcher, until=lambda: turns[-1:] == [trace.time.size])
    assert {500, 1000} <= set(turns)


def test_a_source_that_goes_on_failing_is_asked_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling.time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(polling.random, "uniform", lambda low, high: 1.0)
    source = Scripted(*[TelemetryError("down")] * 7, interval_s=1.0)
    (polled,) = polling.Polling([source])._polled
    pauses = []
    for _ in range(8):
        polling.Polling([])._poll(polled)
        pauses.append(polled.due - 1000.0)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 1]


def test_what_waits_is_bounded(catalog: Catalog, trace: SimulatedTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll's answer waits for room; where none comes, it is dropped and counted."""
    monkeypatch.setattr(polling, "MOST_WAITING", 250)
    monkeypatch.setattr(polling, "_LONGEST_WAIT_S", 0.2)
    source = Scripted(*parts(trace, 100)[:6])
    queue = polling.Polling([source])
    queue.start()

    def full() -> bool:
        assert queue.waiting <= 250
        return queue.dropped >= 400

    wait_until(full)
    assert (queue.dropped, queue.waiting) == (400, 200)
    assert sum(item[1].time.size for item in iter(lambda: queue.get(0.01), None)) == 200
    assert queue.waiting == 0
    queue.stop()


def test_what_the_watcher_knows_is_written_into_the_empty_file(
    store: StateStore, catalog: Catalog, trace: SimulatedTrace
) -> None:
    hand = Hand(store, catalog, Scripted())
    hand.tell("a", rows(trace, 0, 1000))
    known = hand.watcher.reports[UUID]
    assert known.epochs and store.reports() == {UUID: known}
    damage(store.path)
    hand.tell("a", rows(trace, 1000, 1010), after_s=6)
    assert hand.watcher.health.store_errors == 1
    hand.tell("a", rows(trace, 1010, 1020), after_s=6)
    hand.tell("a", rows(trace, 1020, 1030), after_s=6)
    assert store.reports()[UUID] == hand.watcher.reports[UUID]
    assert {epoch.start for epoch in store.epochs(UUID)} >= {epoch.start for epoch in known.epochs}
    assert hand.watcher.health.store_error == ""
