"""The watcher as a child of the service: started, started again when it ends or hangs, and ended with the service.

Every second it sends how it is through a pipe, which needs neither disk nor network: both may be what it has to report.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from epochcast.analyzer.live.health import WatcherReport
from epochcast.analyzer.live.watcher import LONGEST_TURN_S
from epochcast.analyzer.telemetry.settings import SourceSettings
from epochcast.common import logs
from epochcast.regressor.pipelines import Pipeline

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0

# Alive for so long, it is well again, and the next pause is the first one.
_WELL_S = 60.0

# For what it still writes into the store.
_END_S = 5.0

_REPORT_S = 1.0

# Without a report for so long it hangs: some of its threads still runs while a search or a slow disk holds up the others.
_SILENT_S = 20.0


class WatcherProcess:
    """Keeps one watcher running.

    Attributes:
        restarts: times that it was started again.
    """

    def __init__(
        self,
        sources: Sequence[SourceSettings],
        state: Path,
        keep_days: float,
        gpus: Path | None,
        pipeline: Pipeline = "default",
    ) -> None:
        self.restarts = 0
        self._arguments = (tuple(sources), state, keep_days, gpus, pipeline)
        self._stop = threading.Event()
        self._process: BaseProcess | None = None
        self._report = WatcherReport()
        self._reported_at: float | None = None  # by the monotonic clock
        self._thread = threading.Thread(target=self._keep, name="watcher", daemon=True)

    @property
    def problem(self) -> str:
        """Why no telemetry is read now; empty while it is."""
        process = self._process
        if process is None or not process.is_alive():
            return "the watcher process is not running, so no new telemetry is read; the service's log says why"
        if (silent_s := self._silent_s) > _SILENT_S / 2:
            return f"the watcher has not reported for {silent_s:.0f} s, so no new telemetry is read; it will be restarted"
        return ""

    @property
    def report(self) -> WatcherReport:
        """What it last reported; while it does not run, its sources are down and their samples grow older."""
        health, sources = self._report
        if not (problem := self.problem):
            return self._report
        silent_s = self._silent_s
        return WatcherReport(
            health,
            [
                replace(source, up=False, error=problem, lag_s=None if source.lag_s is None else source.lag_s + silent_s)
                for source in sources
            ],
        )

    @property
    def _silent_s(self) -> float:
        return 0.0 if self._reported_at is None else time.monotonic() - self._reported_at

    def start(self) -> None:
        """Start it, and from then on again whenever it ends."""
        self._thread.start()

    def stop(self) -> None:
        """End it, by force where it does not end within seconds."""
        self._stop.set()
        process = self._process
        if process is not None:
            process.terminate()
            process.join(_END_S)
            if process.is_alive():
                process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        context = multiprocessing.get_context("spawn")
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            began = self._reported_at = time.monotonic()
            reports, sender = context.Pipe(duplex=False)
            process = context.Process(target=watch, args=(sender, *self._arguments), name="epochcast-watcher", daemon=True)
            try:
                process.start()
            except OSError as error:  # no memory, no more processes
                log.error("the watcher cannot be started: %s", error)
            else:
                self._process = process
                sender.close()  # or the pipe would not end with the process
                if self._stop.is_set():  # asked to end meanwhile
                    process.terminate()
                self._listen(process, reports)
            reports.close()
            if self._stop.is_set():
                return
            if time.monotonic() - began > _WELL_S:
                pause_s = _FIRST_PAUSE_S
            log.error("the watcher ended (exit code %s); restarting it in %.0f s", process.exitcode, pause_s)
            self._stop.wait(pause_s)
            self.restarts += 1
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _listen(self, process: BaseProcess, reports: Connection) -> None:
        """Take its reports until it has ended; end it where it hangs."""
        turn_s = 0.0
        while process.is_alive():
            try:
                if reports.poll(_REPORT_S):
                    report, self._reported_at = reports.recv(), time.monotonic()
                    if report.health is not None:  # until then the one before it is the newest that is known
                        self._report, turn_s = report, report.health.turn_s
            except (EOFError, OSError):  # it ends
                process.join(_END_S)
            if self._silent_s > _SILENT_S or turn_s > LONGEST_TURN_S:
                log.error("the watcher hangs (last report %.0f s ago, %.0f s in one round); ending it", self._silent_s, turn_s)
                process.kill()
                process.join()


def watch(
    reports: Connection,
    sources: Sequence[SourceSettings],
    state: Path,
    keep_days: float,
    gpus: Path | None,
    pipeline: Pipeline,
) -> None:
    """Run a watcher until SIGTERM, or until the process that started this one is gone."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the service too, which ends this process
    logs.setup()
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()
    report: list[Callable[[], WatcherReport]] = [WatcherReport]
    threading.Thread(target=_send, args=(reports, report), daemon=True).start()

    from epochcast.analyzer.live.state_store import StateStore
    from epochcast.analyzer.live.watcher import Watcher
    from epochcast.analyzer.telemetry.settings import opened
    from epochcast.regressor.gpus import load_catalog

    store = StateStore(state)
    try:
        watcher = Watcher(opened(sources), store, catalog=load_catalog(gpus), keep_days=keep_days, pipeline=pipeline)
        report[0] = lambda: watcher.report
        watcher.run(stop)
    finally:
        store.close()


def _send(reports: Connection, report: Sequence[Callable[[], WatcherReport]]) -> None:
    with contextlib.suppress(OSError):  # the service is gone
        while True:
            reports.send(report[0]())
            time.sleep(_REPORT_S)


def _stop_with_parent(stop: threading.Event) -> None:
    # A service that was killed cannot end its watcher, and two of them must not write one store.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        stop.set()
