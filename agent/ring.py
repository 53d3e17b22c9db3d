"""The bounded memory of one device: its newest samples, every one of them."""

import threading
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Metric

Column = NDArray[np.float32 | np.float64]


class Ring:
    """The newest ``capacity`` rows of one device, safe for one writer and any number of readers.

    ``dropped``: rows that gave way because the clock was set back to before their time; ``set_back_to``: the time of the first
    row after that, None where it never happened.

    Gauges are kept as float32: half the memory, and a memory size of 80 GB is still exact to 4 KiB. Counters are kept as
    float64: after a month a GPU's energy counter is at 10⁹ J, where float32 steps by 64 J, more than a tick adds.
    """

    def __init__(self, capacity: int, metrics: Sequence[Metric]) -> None:
        counters = np.array([metric.kind == "counter" for metric in metrics], dtype=bool)
        self._gauge_positions, self._counter_positions = np.flatnonzero(~counters), np.flatnonzero(counters)
        self._time = np.zeros(capacity)
        self._gauges = np.zeros((capacity, len(self._gauge_positions)), dtype=np.float32)
        self._counters = np.zeros((capacity, len(self._counter_positions)))
        self._columns: dict[str, Column] = {}
        for table, positions in ((self._gauges, self._gauge_positions), (self._counters, self._counter_positions)):
            self._columns |= {metrics[position].name: table[:, column] for column, position in enumerate(positions.tolist())}
        self._names = tuple(metric.name for metric in metrics)
        # Row numbers count from the first row ever; row n is in slot n % capacity.
        self._start = 0
        self._end = 0
        # They were numbered, so a reader's cursor counts them.
        self.dropped = 0
        self.set_back_to: float | None = None
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """Most rows held at once."""
        return len(self._time)

    def extend(self, time: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Add rows: ``time`` [rows] (unix seconds) and ``values`` [rows, metrics], NaN where there is none.

        Rows at or after the time of a later one are dropped, so that time always increases even when the clock was set back.
        """
        backwards = np.flatnonzero(np.diff(time) <= 0) + 1
        for first, last in pairwise((0, *backwards.tolist(), len(time))):
            self._append(time[first:last], values[first:last])

    def _append(self, time: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        with self._lock:
            while self._end > self._start and self._time[(self._end - 1) % self.capacity] >= time[0]:
                self._end -= 1
                self.dropped += 1
                self.set_back_to = float(time[0])
            self._end += len(time)
            self._start = max(self._start, self._end - self.capacity)
            time, values = time[-self.capacity :], values[-self.capacity :]
            slots = np.arange(self._end - len(time), self._end) % self.capacity
            self._time[slots] = time
            self._gauges[slots] = values[:, self._gauge_positions]
            self._counters[slots] = values[:, self._counter_positions]

    def read(
        self, start: float = -np.inf, stop: float = np.inf, metrics: Sequence[str] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return the times in ``[start, stop)`` (unix seconds, increasing) and the columns (all, or those named) as copies.

        Raises KeyError for a metric that the ring does not hold.
        """
        columns = {name: self._columns[name] for name in (self._names if metrics is None else metrics)}
        while True:
            with self._lock:
                rows, dropped = np.arange(self._start, self._end), self.dropped
            # Copied without the lock: a day of rows takes longer than a tick.
            time = self._time[rows % self.capacity]
            first, last = np.searchsorted(time, [start, stop])
            slots = rows[first:last] % self.capacity
            chosen = {name: column[slots] for name, column in columns.items()}
            with self._lock:
                overwritten = max(0, self._start - int(rows[first])) if len(slots) else 0
                if dropped == self.dropped:
                    return time[first:last][overwritten:], {name: column[overwritten:] for name, column in chosen.items()}

    def since(self, cursor: int) -> tuple[int, int, NDArray[np.float64], dict[str, Column]]:
        """Return the rows that came after the ``cursor`` of an earlier call; 0 is before the first row ever.

        In front of times and columns, as of `read`: where to go on, and how many rows were overwritten before they were read.
        """
        with self._lock:
            end = self._end + self.dropped
            # A cursor of another ring (a device's rows were moved to a larger one) may lie beyond the end.
            first = min(cursor, end) - self.dropped
            lost = max(0, self._start - max(first, 0))
            slots = np.arange(max(first, self._start), self._end) % self.capacity
            columns = {name: self._columns[name][slots] for name in self._names}
            return end, lost, self._time[slots], columns

    @property
    def oldest(self) -> float | None:
        """Time of the oldest row held (unix seconds), None while empty."""
        with self._lock:
            return float(self._time[self._start % self.capacity]) if self._end > self._start else None
