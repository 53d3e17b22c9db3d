"""The bounded memory of one device: its newest samples, every one of them."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .catalog import Metric

Column = NDArray[np.float32 | np.float64]


class Ring:
    """The newest ``capacity`` rows of one device, safe for one writer and any number of readers.

    Gauges are kept as float32: half the memory, and a memory size of 80 GB is still exact to 4 KiB. Counters are kept as
    float64: after a month a GPU's energy counter stands at 10⁹ J, where float32 steps by 64 J, more than a tick adds.
    """

    def __init__(self, capacity: int, metrics: Sequence[Metric]) -> None:
        self._time = np.zeros(capacity)
        self._columns: list[Column] = [np.zeros(capacity, dtype=_dtype(metric)) for metric in metrics]
        self._positions = {metric.name: position for position, metric in enumerate(metrics)}
        # Row numbers count from the first row ever; row n lies in slot n % capacity.
        self._start = 0
        self._end = 0
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """Most rows held at once."""
        return len(self._time)

    def append(self, time: float, values: NDArray[np.float64]) -> None:
        """Add the row of ``time`` (unix seconds) with one value per metric, NaN where there is none.

        Rows at or after ``time`` are dropped first, so that time always increases even when the clock was set back.
        """
        with self._lock:
            while self._end > self._start and self._time[(self._end - 1) % self.capacity] >= time:
                self._end -= 1
            slot = self._end % self.capacity
            self._time[slot] = time
            for column, value in zip(self._columns, values, strict=True):
                column[slot] = value
            self._end += 1
            self._start = max(self._start, self._end - self.capacity)

    def read(
        self, start: float = -np.inf, stop: float = np.inf, metrics: Sequence[str] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return the times in ``[start, stop)`` (unix seconds, increasing) and the columns (all, or those named) as copies.

        Raises KeyError for a metric that the ring does not hold.
        """
        positions = self._positions if metrics is None else {name: self._positions[name] for name in metrics}
        with self._lock:
            slots = np.arange(self._start, self._end) % self.capacity
            time = self._time[slots]
            first, last = np.searchsorted(time, [start, stop])
            chosen = slots[first:last]
            return time[first:last], {name: self._columns[position][chosen] for name, position in positions.items()}

    @property
    def oldest(self) -> float | None:
        """Time of the oldest row held (unix seconds), None while empty."""
        with self._lock:
            return float(self._time[self._start % self.capacity]) if self._end > self._start else None


def _dtype(metric: Metric) -> type[np.float32] | type[np.float64]:
    return np.float64 if metric.kind == "counter" else np.float32
