"""The watcher as a child of the service: started, started again when it ends, and ended with the service."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from ...common import logs
from ..telemetry.settings import SourceSettings

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0

# Alive for so long, it is well again, and the next pause is the first one.
_WELL_S = 60.0

# For what it still writes into the store.
_END_S = 5.0


class WatcherProcess:
    """Keeps one watcher running.

    Attributes:
        restarts: times that it was started again.
    """

    def __init__(self, sources: Sequence[SourceSettings], state: Path, keep_days: float, gpus: Path | None) -> None:
        self.restarts = 0
        self._arguments = (tuple(sources), state, keep_days, gpus)
        self._stop = threading.Event()
        self._process: BaseProcess | None = None
        self._thread = threading.Thread(target=self._keep, name="watcher", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether it runs now."""
        process = self._process
        return process is not None and process.is_alive()

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
            began = time.monotonic()
            process = context.Process(target=watch, args=self._arguments, name="epochcast-watcher", daemon=True)
            try:
                process.start()
            except OSError as error:  # no memory, no more processes
                log.error("the watcher cannot be started: %s", error)
            else:
                self._process = process
                if self._stop.is_set():  # asked to end meanwhile
                    process.terminate()
                process.join()
            if self._stop.is_set():
                return
            if time.monotonic() - began > _WELL_S:
                pause_s = _FIRST_PAUSE_S
            log.error("the watcher ended (exit code %s); restarting it in %.0f s", process.exitcode, pause_s)
            self._stop.wait(pause_s)
            self.restarts += 1
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def watch(sources: Sequence[SourceSettings], state: Path, keep_days: float, gpus: Path | None) -> None:
    """Run a watcher until SIGTERM, or until the process that started this one is gone."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the service too, which ends this process
    logs.setup()
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()

    from ...regressor.gpus import load_catalog
    from ..live.state_store import StateStore
    from ..live.watcher import Watcher
    from ..telemetry.settings import opened

    store = StateStore(state)
    try:
        Watcher(opened(sources), store, catalog=load_catalog(gpus), keep_days=keep_days).run(stop)
    finally:
        store.close()


def _stop_with_parent(stop: threading.Event) -> None:
    # A service that was killed cannot end its watcher, and two of them must not write one store.
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        stop.set()
