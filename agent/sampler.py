"""The sampling loop: deadlines on the 0.1 s grid of unix time, lateness measured, missed ticks counted, never made up for."""

import logging
import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence

from epochcast.agent.governor import Governor
from epochcast.agent.sources import Row, Source, Tick
from epochcast.agent.store import BLOCK, DeviceStore, nothing_new
from epochcast.agent.ticks_first import ticks_first

log = logging.getLogger(__name__)

# A difference between wall clock and monotonic clock that changes by this many seconds at once was a clock being set.
CLOCK_STEP = 0.05
# Two clock readings further apart than this (seconds) were interrupted in between and compare nothing.
CLOCK_READ_TIME = 0.001
ERROR_LOG_INTERVAL_S = 60.0
# Between two looks at whether to stop.
LONGEST_SLEEP_S = 0.2


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._stopped = False

    # Unix seconds, seconds of a clock that is never set, CPU seconds of the calling thread.
    # The functions themselves: each is called several times a tick.
    unix = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    cpu = staticmethod(time.thread_time)

    def wait(self, seconds: float) -> bool:
        """Sleep; return true when asked to stop."""
        # Not an Event's wait: that takes a third more CPU time, and ten waits a second are a fifth of what the agent costs.
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_SLEEP_S))
        return self._stopped

    def stop(self) -> None:
        """End the present wait soon and all later ones at once."""
        self._stopped = True


class Histogram:
    """Counts of durations by upper bound (seconds), as Prometheus understands it."""

    BOUNDS = (0.001, 0.0025, 0.01, 0.05, 0.1, math.inf)

    def __init__(self) -> None:
        self.counts = [0] * len(self.BOUNDS)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.sum += seconds


class Sampler:
    """Reads a source into the stores of its devices until stopped or until the source has finished.

    Everything public is a figure about the sampler itself, written by its thread alone. ``missed_ticks``: ticks that were
    too late; ``governed_ticks``: ticks that the governor left out. ``last_sample_time``: unix seconds of the newest sample;
    ``lateness_seconds``: from when a tick was due to when it began. ``started``, ``last_success``, ``last_tick``: moments of
    the monotonic clock, of the last tick without error and of any.
    """

    def __init__(self, source: Source, stores: Sequence[DeviceStore], clock: SystemClock, tick_budget: float) -> None:
        self.source = source
        self.stores = stores
        self.clock = clock
        self.governor = Governor(source.hertz, tick_budget * max(1, len(stores)))
        self.missed_ticks = 0
        self.governed_ticks = 0
        self.clock_steps = 0
        self.read_errors = 0
        self.tick_seconds = Histogram()
        self.lateness_seconds = Histogram()
        self.last_sample_time: float | None = None
        self.last_success: float | None = None
        self.started = self.last_tick = clock.monotonic()
        # Not the source's own word: it has finished when it hands out its last rows, before they can be read here.
        self.finished = False
        # Moment and rows of the last hundred reads.
        self._recent = deque[tuple[float, int]](maxlen=101)
        self._counted_until: float | None = None
        # What was read and not yet given to the stores: (moment, rows) of each tick.
        self._in_hand = deque[tuple[float, Sequence[Row]]]()
        self._handing = threading.Lock()
        for store in stores:
            store.refresh = self.hand_over
        self._offset = clock.unix() - clock.monotonic()
        self._slow_second: int | None = None
        self._rare_minute: int | None = None
        # A source that hands out rows after their time is counted by the rows' own times: how far each device's are counted.
        self._counted: list[int | None] = [None] * len(stores)
        self._noted_at = self.started
        self._logged_at = -math.inf
        self._unlogged = 0

    def take_over(self, old: "Sampler") -> None:
        """Go on counting where the sampler of the same source stood before it was reopened."""
        self.missed_ticks, self.governed_ticks = old.missed_ticks, old.governed_ticks
        self.clock_steps, self.read_errors = old.clock_steps, old.read_errors
        self.tick_seconds, self.lateness_seconds = old.tick_seconds, old.lateness_seconds

    def run(self) -> None:
        """Sample; returns when the clock was stopped or the source has finished."""
        source, monotonic, hertz = self.source, self.clock.monotonic, self.source.hertz
        governed = source.regular and source.lag == 0  # nobody's driver is disturbed by the others
        start: float | None = None
        # Tick n is due at n / hertz of unix time.
        n = math.floor((monotonic() + self._offset) * hertz) + 1
        while not source.finished:
            step = self.governor.divisor
            taken = -(-n // step) * step
            left_out, n = taken - n, taken
            deadline = n / hertz - self._offset
            # Up to half an interval later where the source needs its rest: still nearest to this tick.
            moment = max(deadline, min(source.ready_at, deadline + 0.5 / hertz))
            if self.clock.wait(max(0.0, moment - monotonic())):
                break
            now = monotonic()
            # Before a newer tick takes this one's place: that is where the longest waits are.
            self.lateness_seconds.add(max(0.0, now - deadline))
            self.governed_ticks += left_out
            # Later than a whole interval: go on with the newest tick that is due. No burst would bring back what was missed.
            newest = math.floor((now + self._offset) * hertz) // step * step
            if newest > n:
                self._miss(newest - n)
                n = newest
                deadline = n / hertz - self._offset
            if start is None:
                start = deadline
                self._count_interruption(n / hertz)
            cpu = self.clock.cpu()
            self._read(n / hertz, now - start, now)
            cpu = self.clock.cpu() - cpu
            self.last_tick = end = monotonic()
            self.tick_seconds.add(end - now)
            if governed:
                # CPU time: waiting for a CPU or a lock is no cost, and a lower rate would not end it.
                self.governor.record(cpu, now)
            if len(self._in_hand) >= BLOCK:
                self.hand_over()
            n = n + 1 if not self._clock_was_set() else math.floor((monotonic() + self._offset) * hertz) + 1
        self.hand_over()
        self.finished = source.finished

    @property
    def target_hertz(self) -> float:
        """Rows per second that the governor allows now."""
        return self.governor.hertz if self.source.lag == 0 else 1 / self.source.interval

    @property
    def effective_hertz(self) -> float:
        """Rows per second over the last hundred reads, 0 before the second one; it falls while a tick is overdue."""
        recent = tuple(self._recent)
        if len(recent) < 2:
            return 0.0
        end = max(recent[-1][0], self.clock.monotonic() - 1 / self.governor.hertz)
        return sum(rows for _, rows in recent[1:]) / (end - recent[0][0])

    def _read(self, tick_time: float, elapsed: float, now: float) -> None:
        # The first tick of each second reads the slow tier too, whichever tick that is: a missed one must not cost a second.
        second, minute = math.floor(elapsed), math.floor(elapsed / 60)
        slow, self._slow_second = second != self._slow_second, second
        rare, self._rare_minute = minute != self._rare_minute, minute
        try:
            with ticks_first:
                rows = self.source.read(Tick(now + self._offset, elapsed, slow, rare))
        except Exception as error:
            # If a source fails, the others' samples and the next tick matter more.
            self.read_errors += 1
            self._log_error(error, now)
            rows = ()
        else:
            # In this order: a client that saw a sample's time must find the agent healthy.
            self.last_success = now
        self._note_xids()
        if rows:
            self._in_hand.append((now, rows))
            self.last_sample_time = rows[-1].time
        self._counted_until = tick_time
        if self.source.lag:
            self._take_note_late(tick_time, now, rows)
        else:
            self._recent.append((now, 1))
            if len(rows) < len(self.stores) and self.source.regular:
                heard = {row.device for row in rows}
                for position, store in enumerate(self.stores):
                    store.missed_ticks += position not in heard

    def _note_xids(self) -> None:
        for position, code in self.source.take_xids():
            store = self.stores[position]
            store.xids[code] += 1
            store.last_xid = code
            log.error("GPU %s (%s): the driver reports Xid %d", store.device.label, store.device.uuid, code)

    def _take_note_late(self, tick_time: float, now: float, rows: Sequence[Row]) -> None:
        """Count what came and what was missed of a source whose rows come after their time."""
        # One of DCGM's rounds may be several rows.
        heard = Counter(device for device, _ in {(row.device, round(row.time / self.source.interval)) for row in rows})
        self._recent.append((now, max(heard.values(), default=0)))
        if self.source.regular:
            # However the clocks were set: no more ticks were missed than there were since rows could last have come.
            most = math.ceil((now - self._noted_at + 2 * self.source.lag) / self.source.interval)
            self._noted_at = now
            for row in rows:
                self._count_until(row.device, row.time, 1, most)
            for position in range(len(self.stores)):
                self._count_until(position, tick_time - self.source.lag, 0, most)

    def hand_over(self) -> None:
        """Give the stores the rows that are in hand.

        A tick leaves it to the readers: many rows at once cost less, because the code is then in the cache.
        """
        with self._handing:
            while self._in_hand:
                now, rows = self._in_hand.popleft()
                for row in rows:
                    self.stores[row.device].add(row.time, row.values, now)

    def settle(self) -> None:
        """Note, once it has stopped, up to which tick each store is complete or counted."""
        self.hand_over()
        self._note_xids()
        for (position, metric), blanks in self.source.blanks.items():
            self.stores[position].blanks[metric] += blanks
        self.source.blanks.clear()
        for store in self.stores:
            # Closed before its first tick, it counts from where the one before it stood.
            if self._counted_until is not None:
                store.counted_until = self._counted_until
            # And let go of each other: else both would live until the next collection of cycles.
            store.refresh = nothing_new

    def _miss(self, ticks: int) -> None:
        # Of a slower rate's grid, only each divisor-th would have been taken.
        missed = ticks // self.governor.divisor
        self.missed_ticks += missed
        self.governed_ticks += ticks - missed
        if self.source.regular and self.source.lag == 0:
            for store in self.stores:
                store.missed_ticks += missed

    def _count_interruption(self, tick_time: float) -> None:
        """Count the ticks that passed while the source was reopened."""
        if self.source.regular:
            for store in self.stores:
                if store.counted_until is not None:
                    store.missed_ticks += max(0, round((tick_time - store.counted_until) / self.source.interval) - 1)

    def _count_until(self, position: int, time: float, rows: int, most: int) -> None:
        """Count as missed the ticks between the last row counted and ``time`` (unix seconds), at which there are ``rows``."""
        tick = round(time / self.source.interval)
        counted = self._counted[position]
        if counted is None:
            self._counted[position] = tick if rows else None
        elif tick > counted:
            self.stores[position].missed_ticks += min(tick - counted - rows, most)
            self._counted[position] = tick

    def _clock_was_set(self) -> bool:
        """Follow the wall clock; return whether it jumped."""
        before = self.clock.monotonic()
        change = self.clock.unix() - before - self._offset
        if abs(change) < CLOCK_READ_TIME:  # a drift to follow once it is worth it, or an interruption between the two readings
            return False
        if self.clock.monotonic() - before > CLOCK_READ_TIME:
            return False
        self._offset += change
        if abs(change) < CLOCK_STEP:
            return False
        self.clock_steps += 1
        self._counted = [None] * len(self.stores)
        log.warning("the wall clock was set by %+.3f s; sampling continues at the new time", change)
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
