"""All GPUs of all telemetry sources: polls, detects, and writes what is found to the store."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.known_epochs import KNOWN, News, superseded
from epochcast.analyzer.live.polling import Polled, Polling
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.telemetry import ENDED_S, NodeReport, Rows, TelemetrySource
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, Report
from epochcast.regressor import Catalog
from epochcast.regressor.pipelines import Pipeline

log = logging.getLogger(__name__)

# Seconds between two writes to the store; a GPU with nothing new but samples is written every so many.
_WRITE_S, _REPORT_S = 1.0, 5.0

# A GPU that is silent for so long: another source may report it.
_HANDOVER_S = 60.0

_PRUNE_S = 600.0

LONGEST_TURN_S = 60.0
"""A watcher that has been at one thing for longer hangs: its loop turns several times a second, a long search takes seconds."""

# Rows of one GPU between two turns: a recording of days would keep the watcher from telling and from ending for minutes.
_TURN_ROWS = 6000

# What the store raises because of the value that was to be written, and not because of the disk.
_UNFIT = (ValueError, TypeError, OverflowError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


@dataclass
class _Gpu:
    """What is known of a GPU here.

    Attributes:
        source: that is believed.
        heard: when it last reported it, by the monotonic clock.
        watch: its detector; None where a node's analyzer reports it, and of one that has long been silent.
        report: the newest.
        stored: the one in the store, which may have an older pulse; None where that is not known.
        news: not yet written.
        written: when it was, by the monotonic clock.
    """

    source: Polled
    heard: float
    watch: GpuWatch | None = None
    report: Report | None = None
    stored: Report | None = None
    news: News | None = None
    written: float = -np.inf


class Watcher:
    """Watches until it is asked to stop; failures are counted and retried."""

    def __init__(
        self,
        sources: Sequence[TelemetrySource],
        store: StateStore,
        *,
        catalog: Catalog,
        keep_days: float = 30.0,
        pipeline: Pipeline = "default",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make one that does nothing yet.

        Args:
            sources: of a GPU that two report, the first is believed, as long as it reports.
            store: for the results; the watch continues from what it holds of the GPUs.
            catalog: names of GPUs.
            keep_days: of epochs, and of GPUs that are gone.
            pipeline: how epochs are found.
            clock: seconds that never go back.
        """
        self._store = store
        self._catalog = catalog
        self._pipeline = pipeline
        self._keep_s = 86_400.0 * keep_days
        self._polling = Polling(sources)
        self._rank = {id(source): rank for rank, source in enumerate(sources)}
        self._gpus: dict[str, _Gpu] = {}
        self._health = WatcherHealth()
        self._clock = clock
        self._turned = clock()
        self._wrote = self._pruned = -np.inf
        self._generation = store.generation

    @property
    def reports(self) -> dict[str, Report]:
        """The newest report of every GPU heard of, by UUID."""
        return {uuid: gpu.report for uuid, gpu in list(self._gpus.items()) if gpu.report is not None}

    @property
    def sources(self) -> list[SourceStatus]:
        """How the sources are."""
        return self._polling.statuses

    @property
    def health(self) -> WatcherHealth:
        """How the watcher is."""
        watched = sum(gpu.watch is not None for gpu in list(self._gpus.values()))
        return replace(
            self._health,
            gpus=watched,
            backlog=self._polling.waiting,
            dropped=self._polling.dropped,
            turn_s=self._clock() - self._turned,
        )

    @property
    def report(self) -> WatcherReport:
        """How the watcher and its sources are."""
        return WatcherReport(self.health, self.sources)

    def run(self, stop: threading.Event) -> None:
        """Watch until ``stop`` is set; what was found by then is written."""
        self._polling.start()
        try:
            while not stop.is_set():
                item = self._polling.get(timeout=0.2)
                if item is not None:
                    self._hear_in_turns(*item, stop)
                self._turn()
        finally:
            self._polling.stop()
            self._write(np.inf)

    def _hear_in_turns(self, source: Polled, data: Rows | NodeReport, stop: threading.Event) -> None:
        for part in _in_turns(data):
            if not stop.is_set():
                self._hear(source, part)
                self._turn()

    def _turn(self) -> None:
        """What is to be done from time to time."""
        now = self._turned = self._clock()
        if now - self._wrote >= _WRITE_S:
            self._wrote = now
            self._let_go(now)
            self._write(now)
        if now - self._pruned >= _PRUNE_S:
            self._pruned = now
            with self._counted():
                self._store.forget_older(self._keep_s)

    def _hear(self, source: Polled, data: Rows | NodeReport) -> None:
        """Take in what a source reports of one GPU, if it is believed."""
        uuid = data.device.uuid if isinstance(data, Rows) else data.report.device.uuid
        now = self._clock()
        gpu = self._gpus.get(uuid)
        if gpu is None:
            gpu = self._gpus[uuid] = _Gpu(source, now)
        elif gpu.source is not source:
            better = self._rank[id(source.source)] < self._rank[id(gpu.source.source)]
            if not better and now - gpu.heard < max(_HANDOVER_S, 3 * gpu.source.source.interval_s):
                return
            log.info("%s is now read from %s %s", uuid, source.status.kind, source.status.name)
            self._write_gpus([gpu], now)  # a new detector goes on from what the store has
            gpu = self._gpus[uuid] = _Gpu(source, now)
        # A node repeats its report while its agent is silent: that is no news of the GPU.
        if isinstance(data, Rows) or gpu.report is None or data.epochs or data.report.last_sample != gpu.report.last_sample:
            gpu.heard = now
        began = time.thread_time()
        try:
            if isinstance(data, Rows):
                self._detect(gpu, data)
            else:
                self._pass_on(gpu, data)
        except Exception:  # one GPU's trouble, say values that nobody thought of, is not that of the others
            log.exception("the data from %s %s about %s cannot be used", source.status.kind, source.status.name, uuid)
            source.status.errors += 1
            gpu.watch = None
        self._health.cpu_s += time.thread_time() - began

    def _detect(self, gpu: _Gpu, rows: Rows) -> None:
        if gpu.watch is None:
            before: Report | None = None
            known: list[EpochRecord] = []
            with self._counted():  # what an earlier watch reported
                # Both or none: with the report alone, epochs that it has counted would count again.
                uuid = rows.device.uuid
                before, known = self._store.report(uuid), self._store.epochs(uuid, limit=KNOWN, profiles=False)
            gpu.watch = GpuWatch(rows.device, self._catalog, before=before, known=known, pipeline=self._pipeline)
        self._note(gpu, gpu.watch, gpu.watch.take(rows))
        if rows.ended:  # another file of the GPU may follow within the minute
            gpu.heard -= ENDED_S - _HANDOVER_S

    def _note(self, gpu: _Gpu, watch: GpuWatch, news: News) -> None:
        """What a detector knows now, to be written."""
        state = None if gpu.report is None else (gpu.report.state, gpu.report.detection.verdict, gpu.report.job_since)
        if news.epochs or news.instead_of:
            gpu.news = (gpu.news or News()) + news
        gpu.report = watch.report()
        if state != (gpu.report.state, gpu.report.detection.verdict, gpu.report.job_since):
            gpu.written = -np.inf  # publish it at the next write

    def _pass_on(self, gpu: _Gpu, data: NodeReport) -> None:
        """What a node's analyzer found, as it is."""
        gpu.watch, gpu.report = None, data.report
        if data.epochs:
            since = min(epoch.start for epoch in data.epochs)
            known = [] if gpu.news is None else [*gpu.news.epochs]
            with self._counted():
                known += self._store.epochs(data.report.device.uuid, since=since, limit=10 * KNOWN, profiles=False)
            gpu.news = (gpu.news or News()) + News(data.epochs, tuple(superseded(known, data.epochs)))
            gpu.written = -np.inf

    def _let_go(self, now: float) -> None:
        """Close detectors that hear nothing any more, and free their memory; a new one will go on from what the store has."""
        for gpu in self._gpus.values():
            if now - gpu.heard > ENDED_S:
                gpu.stored = None  # the store may forget it
                if gpu.watch is not None:
                    self._note(gpu, gpu.watch, gpu.watch.close())
                    gpu.watch, gpu.written = None, -np.inf

    def _write(self, now: float) -> None:
        if self._store.generation != self._generation:  # an empty file took the place of a damaged one
            self._generation = self._store.generation
            for gpu in self._gpus.values():
                gpu.stored = None
                if gpu.report is not None and now - gpu.heard <= ENDED_S:
                    gpu.news = News(gpu.report.epochs) + (gpu.news or News())
        due = [
            gpu
            for gpu in self._gpus.values()
            if gpu.news is not None or (gpu.heard > gpu.written and now - gpu.written >= _REPORT_S)
        ]
        self._write_gpus(due, now)

    def _write_gpus(self, gpus: Sequence[_Gpu], now: float) -> None:
        """Write GPUs detected here and those that nodes report apart; what could not be written is kept for next time."""
        for by_node in (False, True):
            part = [gpu for gpu in gpus if gpu.report is not None and (gpu.source.source.kind == "node") is by_node]
            self._write_part(part, now, by_node=by_node)

    def _write_part(self, part: Sequence[_Gpu], now: float, *, by_node: bool) -> None:
        with self._counted():
            stored = True
            try:
                self._store.write_gpus([_change(gpu) for gpu in part], by_node=by_node)
            except _UNFIT as error:  # of one GPU, say a value that is no number: it must hold up no other
                if len(part) > 1:
                    for gpu in part:
                        self._write_part([gpu], now, by_node=by_node)
                    return
                log.error("the state of %s cannot be written: %s", _change(part[0]).report.device.uuid, error)
                self._health.store_errors += 1
                stored = False
            for gpu in part:
                gpu.stored, gpu.news, gpu.written = gpu.report if stored else None, None, now
            if part and self._health.store_error:
                self._health.store_error = ""
                log.warning("the state %s can be written again", self._store.path)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Go on where the store fails, but count it, and say so once."""
        try:
            yield
        except sqlite3.Error as error:
            self._health.store_errors += 1
            if not self._health.store_error:
                log.error("the state %s: %s; epochs stay in memory meanwhile", self._store.path, error)
            self._health.store_error = str(error)


def _in_turns(data: Rows | NodeReport) -> Iterator[Rows | NodeReport]:
    """The data in pieces, between which the watcher can do something else."""
    if not isinstance(data, Rows) or data.time.size <= _TURN_ROWS:
        yield data
        return
    for first in range(0, data.time.size, _TURN_ROWS):
        piece = slice(first, first + _TURN_ROWS)
        values = {name: column[piece] for name, column in data.values.items()}
        yield replace(data, time=data.time[piece], values=values, ended=data.ended and piece.stop >= data.time.size)


def _change(gpu: _Gpu) -> GpuChange:
    assert gpu.report is not None
    news = gpu.news or News()
    return GpuChange(gpu.report, news.epochs, news.instead_of, only_pulse=gpu.report.is_like(gpu.stored))
