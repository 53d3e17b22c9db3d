"""The sampling loop: absolute deadlines on the 0.1 s grid of unix time, late ticks counted, missed ones never made up for."""

import logging
import math
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from .sources import Source, Tick
from .store import DeviceStore

log = logging.getLogger(__name__)

# A difference between wall clock and monotonic clock that changes by this many seconds at once was a clock being set.
CLOCK_STEP = 0.05
# Two clock readings further apart than this (seconds) were interrupted in between and compare nothing.
CLOCK_READ_TIME = 0.001
ERROR_LOG_INTERVAL_S = 60.0


class Clock(Protocol):
    """The time, as the sampler needs it."""

    def unix(self) -> float:
        """Return unix seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set."""
        ...

    def wait(self, seconds: float) -> bool:
        """Sleep; return true when told to stop."""
        ...

    def stop(self) -> None:
        """End the present wait and all later ones at once."""
        ...


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def unix(self) -> float:
        """Return unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some moment before the agent started."""
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Sleep; return true when told to stop."""
        return self._stopped.wait(seconds)

    def stop(self) -> None:
        """End the present wait and all later ones at once."""
        self._stopped.set()


class Histogram:
    """Counts of durations by upper bound (seconds), as Prometheus understands it."""

    BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 1.0, math.inf)

    def __init__(self) -> None:
        self.counts = [0] * len(self.BOUNDS)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.sum += seconds


class Sampler:
    """Reads a source into the stores of its devices until stopped or until the source has finished.

    Everything public is a figure about the sampler itself, written by its thread alone.
    """

    def __init__(self, source: Source, stores: Sequence[DeviceStore], clock: Clock) -> None:
        self.source = source
        self.stores = stores
        self.clock = clock
        self.missed_ticks = 0
        self.clock_steps = 0
        self.read_errors = 0
        self.tick_seconds = Histogram()
        self.lateness_seconds = Histogram()
        self.last_sample_time: float | None = None
        self.last_success: float | None = None
        # Not the source's own word: it has finished when it hands out its last rows, before they can be read here.
        self.finished = False
        self._recent = deque[float](maxlen=101)
        self._offset = clock.unix() - clock.monotonic()
        self._slow_second: int | None = None
        self._logged_at = -math.inf
        self._unlogged = 0

    def run(self) -> None:
        """Sample; returns when the clock was stopped or the source has finished."""
        clock, hertz = self.clock, self.source.hertz
        start: float | None = None
        # Tick n is due at n / hertz of unix time.
        n = math.floor((clock.monotonic() + self._offset) * hertz) + 1
        while not self.source.finished:
            deadline = n / hertz - self._offset
            if clock.wait(max(0.0, deadline - clock.monotonic())):
                return
            now = clock.monotonic()
            # Later than a whole interval: go on with the newest tick that is due. No burst would bring back what was missed.
            newest = max(n, math.floor((now + self._offset) * hertz))
            self._miss(newest - n)
            n = newest
            deadline = n / hertz - self._offset
            if start is None:
                start = deadline
            self.lateness_seconds.add(max(0.0, now - deadline))
            self._read(n / hertz, now - start, now)
            self.tick_seconds.add(clock.monotonic() - now)
            n = n + 1 if not self._clock_was_set() else math.floor((clock.monotonic() + self._offset) * hertz) + 1
        self.finished = True

    @property
    def effective_hertz(self) -> float:
        """Ticks per second over the last hundred ticks, 0 before the second one; it falls while a tick is overdue."""
        recent = tuple(self._recent)
        if len(recent) < 2:
            return 0.0
        return (len(recent) - 1) / (max(recent[-1], self.clock.monotonic() - 1 / self.source.hertz) - recent[0])

    def _read(self, tick_time: float, elapsed: float, now: float) -> None:
        # The first tick of each second reads the slow tier too, whichever tick that is: a missed one must not cost a second.
        second = math.floor(elapsed)
        slow, self._slow_second = second != self._slow_second, second
        self._recent.append(now)
        heard = set()
        try:
            for row in self.source.read(Tick(tick_time, elapsed, slow)):
                self.stores[row.device].add(row.time, row.values, now)
                # In this order: whoever saw a sample's time must find the agent healthy.
                self.last_success = now
                self.last_sample_time = row.time
                heard.add(row.device)
        except Exception as error:
            # Whatever a source does wrong, the others' samples and the next tick matter more.
            self.read_errors += 1
            self._log_error(error, now)
        else:
            self.last_success = now
        if self.source.recorded_rows is None:
            for position, store in enumerate(self.stores):
                store.missed_ticks += position not in heard

    def _miss(self, ticks: int) -> None:
        self.missed_ticks += ticks
        if self.source.recorded_rows is None:
            for store in self.stores:
                store.missed_ticks += ticks

    def _clock_was_set(self) -> bool:
        """Follow the wall clock; return whether it jumped."""
        before = self.clock.monotonic()
        unix = self.clock.unix()
        if self.clock.monotonic() - before > CLOCK_READ_TIME:
            return False
        change = unix - before - self._offset
        self._offset += change
        if abs(change) < CLOCK_STEP:
            return False
        self.clock_steps += 1
        log.warning("the wall clock was set by %+.3f s; sampling goes on at the new time", change)
        return True

    def _log_error(self, error: Exception, now: float) -> None:
        if now - self._logged_at < ERROR_LOG_INTERVAL_S:
            self._unlogged += 1
            return
        log.error(
            "source %r: %s: %s (%d more since the last such line)",
            self.source.name,
            type(error).__name__,
            error,
            self._unlogged,
        )
        self._logged_at, self._unlogged = now, 0
