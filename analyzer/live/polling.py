"""Polls the telemetry sources, each at its own pace, into one bounded queue."""

from __future__ import annotations

import contextlib
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.telemetry import NodeReport, Rows, TelemetryError, TelemetrySource

log = logging.getLogger(__name__)

MOST_THREADS = 16

MOST_WAITING = 200_000
"""Samples (rows of a GPU) that may wait for the detectors: some 40 MB; what 64 GPUs report in five minutes."""

_LONGEST_PAUSE_S = 60.0  # between two polls of a source that fails
_LONGEST_WAIT_S = 60.0  # for room in the queue; then what was read is dropped
_JITTER = 0.1  # share of a pause: sources that began together shall not be polled together for ever


@dataclass(eq=False)
class Polled:
    """A source, and when it is to be polled next.

    Attributes:
        source: the source.
        status: how it is.
        due: of the monotonic clock; infinity while a poll runs.
        failed: polls in a row.
    """

    source: TelemetrySource
    status: SourceStatus
    due: float = 0.0
    failed: int = 0


Item = tuple[Polled, Rows | NodeReport]


class Polling:
    """A thread that says when, and a few that ask: a source that is slow or dead holds up no other.

    A poll's answer waits for room in the queue, so a source is not polled again before its last answer was taken.
    """

    def __init__(self, sources: Sequence[TelemetrySource]) -> None:
        self._polled = [Polled(source, SourceStatus(source.kind, source.name)) for source in sources]
        self._stop = threading.Event()
        self._room = threading.Condition()
        self._queue: deque[Item] = deque()
        self._waiting = 0  # samples in the queue
        self.dropped = 0
        self._due: SimpleQueue[Polled] = SimpleQueue()
        # Not an executor's: at the end of the process nobody waits for a poll that hangs.
        self._threads = [threading.Thread(target=self._poll_due, daemon=True) for _ in range(min(MOST_THREADS, len(sources)))]
        self._scheduler = threading.Thread(target=self._schedule, name="polling", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        for thread in (self._scheduler, *self._threads):
            thread.start()

    def stop(self) -> None:
        """Poll no more, and let go of the sources; a poll that runs is not waited for."""
        self._stop.set()
        with self._room:
            self._room.notify_all()
        for polled in self._polled:
            polled.source.close()

    @property
    def statuses(self) -> list[SourceStatus]:
        """How the sources are."""
        return [polled.status for polled in self._polled]

    @property
    def waiting(self) -> int:
        """Samples that wait."""
        return self._waiting

    def get(self, timeout: float) -> Item | None:
        """What was read next, oldest first; None if nothing came within ``timeout`` seconds."""
        with self._room:
            if not self._queue:
                self._room.wait(timeout)
            if not self._queue:
                return None
            item = self._queue.popleft()
            self._waiting -= _size(item[1])
            self._room.notify_all()
            return item

    def _schedule(self) -> None:
        while not self._stop.wait(0.05):
            now = time.monotonic()
            for polled in self._polled:
                if polled.due <= now:
                    polled.due = math.inf
                    self._due.put(polled)

    def _poll_due(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(Empty):
                self._poll(self._due.get(timeout=1.0))

    def _poll(self, polled: Polled) -> None:
        began, status = time.monotonic(), polled.status
        try:
            status.polls += 1
            self._put(polled, polled.source.poll())
            polled.failed = 0
            status.up, status.error = True, ""
        except Exception as error:  # in any case the others continue
            polled.failed += 1
            status.errors += 1
            expected = isinstance(error, TelemetryError)
            # What is expected names its source itself.
            said = str(error) if expected else f"{status.kind} {status.name}: {type(error).__name__}: {error}"
            status.up, status.error = False, said
            if polled.failed == 1 or not expected:
                log.warning("%s", said, exc_info=None if expected else error)
        status.clock_offset_s, status.problems = polled.source.clock_offset_s, tuple(polled.source.problems)
        pause = polled.source.interval_s * 2 ** min(polled.failed, 10)
        pause = pause if not polled.failed else min(pause, max(_LONGEST_PAUSE_S, polled.source.interval_s))
        polled.due = max(time.monotonic(), began + pause * random.uniform(1 - _JITTER, 1 + _JITTER))

    def _put(self, polled: Polled, answer: Sequence[Rows | NodeReport]) -> None:
        newest = [float(data.time[-1]) if isinstance(data, Rows) else data.report.last_sample for data in answer if _size(data)]
        if moments := [moment for moment in newest if moment is not None]:
            polled.status.newest = max(*moments, polled.status.newest or max(moments))
        if polled.status.newest is not None:
            polled.status.lag_s = time.time() - polled.status.newest
        for data in answer:
            self._enqueue((polled, data))

    def _enqueue(self, item: Item) -> None:
        size, patient_until = _size(item[1]), time.monotonic() + _LONGEST_WAIT_S
        with self._room:
            # What is larger than the queue goes in alone.
            while self._waiting and self._waiting + size > MOST_WAITING:
                left = patient_until - time.monotonic()
                if self._stop.is_set() or left <= 0:
                    self.dropped += size
                    return
                self._room.wait(min(left, 1.0))
            self._queue.append(item)
            self._waiting += size
            self._room.notify_all()


def _size(data: Rows | NodeReport) -> int:
    return int(data.time.size) if isinstance(data, Rows) else 1
