"""When a GPU worked: the stretches of its activity between long pauses, by the detector's notions of work, pause and hole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from epochcast.detector.methods.track.grid import IDLE, PAUSE_SHARE, RATIOS
from epochcast.detector.stream.work import hole_s

Array = NDArray[np.float64]

SHORTEST_S = 60.0
"""Work that is shorter is no job to analyse: before a minute of it the service makes no profile either."""

PAUSE_S = 15.0
"""Rest that parts two jobs, at least; and eight bins where these are wide."""

# Working is a mean over so many seconds above this share of the usual level.
_BUSY_MEAN_S, _BUSY_SHARE = 3.0, 0.12

_MOST_BINS = 2**21
_ROWS, _READINGS, _SUMS = range(3)


class ActivityBins:
    """The mean of one metric in even bins, in bounded memory: a second each, and twice as wide whenever there are too many."""

    def __init__(self, width_s: float) -> None:
        """Start empty; bins are ``width_s`` wide at first."""
        self.width_s = width_s
        self.origin = 0.0
        self._size = 0
        self._bins = np.zeros((3, 1024))

    def add(self, time: Array, values: Array | None) -> None:
        """Take in rows, later than all before: ``time`` (n,) unix seconds, ``values`` (n,), None for no metric at all."""
        if not time.size:
            return
        if not self._size:
            self.origin = float(time[0])
        while (time[-1] - self.origin) / self.width_s >= _MOST_BINS:
            self._fold()
        bins = ((time - self.origin) / self.width_s).astype(np.int64)
        first, self._size = int(bins[0]), int(bins[-1]) + 1
        if self._size > self._bins.shape[1]:
            room = np.zeros((3, max(self._size, 2 * self._bins.shape[1])))
            room[:, : self._bins.shape[1]] = self._bins
            self._bins = room
        into, bins = self._bins[:, first : self._size], bins - first
        into[_ROWS] += np.bincount(bins, minlength=into.shape[1])
        if values is not None:
            read = ~np.isnan(values)
            into[_READINGS] += np.bincount(bins[read], minlength=into.shape[1])
            into[_SUMS] += np.bincount(bins[read], values[read], minlength=into.shape[1])

    @property
    def rows(self) -> Array:
        """Rows in each bin."""
        return self._bins[_ROWS, : self._size]

    def level(self) -> Array | None:
        """The mean in each bin, carried over bins without a reading; None if there never was one."""
        readings, sums = self._bins[_READINGS, : self._size], self._bins[_SUMS, : self._size]
        read = np.flatnonzero(readings)
        if not read.size:
            return None
        at = read[np.maximum(np.searchsorted(read, np.arange(self._size), side="right") - 1, 0)]
        return np.asarray(sums[at] / readings[at])

    def _fold(self) -> None:
        even = np.pad(self._bins, ((0, 0), (0, self._bins.shape[1] % 2)))
        self._bins = even[:, ::2] + even[:, 1::2]
        self._size = -(-self._size // 2)
        self.width_s *= 2


@dataclass(frozen=True)
class BusyStretch:
    """A stretch of work.

    Attributes:
        start, end: unix seconds, to a bin.
        threshold: the activity is above it where the GPU works; None where no metric shows it.
        rows: of the trace in it.
    """

    start: float
    end: float
    threshold: float | None
    rows: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


def worked(activity: ActivityBins, metric: str | None, step_s: float) -> tuple[list[BusyStretch], float | None]:
    """Part a trace where it pauses for 15 s and for longer than a fifth of the neighbouring work, and at holes of 300 s.

    Working is being above 12 % of the 90th percentile of what is not idle. What a strong job leaves is looked at once more: a
    weaker one before or after it works too. Where no ratio shows the activity, nothing is known of idleness.

    Args:
        activity: of the trace.
        metric: its name.
        step_s: seconds between rows.

    Returns:
        The stretches, oldest first, and seconds in none of them, without holes; None where that is not known.
    """
    width, rows, level = activity.width_s, activity.rows, activity.level()
    there = np.flatnonzero(rows)
    holes = np.flatnonzero(np.diff(there) * width > hole_s(step_s))
    parts = zip(
        there[np.concatenate([[0], holes + 1])].tolist(),
        (there[np.concatenate([holes, [there.size - 1]])] + 1).tolist(),
        strict=True,
    )
    busy: list[tuple[int, int, float | None]] = []
    for first, last in parts:
        if level is None or metric is None:
            busy.append((first, last, None))
        else:
            smooth = uniform_filter1d(level[first:last], max(1, round(_BUSY_MEAN_S / width)), mode="nearest")
            least = _BUSY_SHARE * IDLE if metric in RATIOS else 0.0
            busy += sorted((first + a, first + b, at) for a, b, at in _parted(smooth, width, least, again=metric in RATIOS))
    working = np.zeros(rows.size, dtype=bool)
    for a, b, _ in busy:
        working[a:b] = True
    tells = level is not None and metric in RATIOS
    stretches = [
        BusyStretch(activity.origin + a * width, activity.origin + b * width, threshold, int(rows[a:b].sum()))
        for a, b, threshold in busy
    ]
    return stretches, float(width * np.count_nonzero((rows > 0) & ~working)) if tells else None


def _parted(smooth: Array, width: float, least: float, *, again: bool) -> Iterator[tuple[int, int, float]]:
    """First bin, last bin + 1 and threshold of each stretch of work, in no order."""
    ranges = [(0, smooth.size)]
    while ranges:
        first, last = ranges.pop()
        busy = _busy(smooth[first:last], width, least)
        yield from ((first + a, first + b, threshold) for a, b, threshold in busy)
        if again and busy:
            edges = [first, *(first + edge for a, b, _ in busy for edge in (a, b)), last]
            ranges += [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if (b - a) * width >= SHORTEST_S]


def _busy(smooth: Array, width: float, least: float) -> list[tuple[int, int, float]]:
    working = smooth[smooth > _BUSY_SHARE * float(smooth.max(initial=0.0))]
    if not working.size:
        return []
    threshold = _BUSY_SHARE * float(np.percentile(working, 90))
    if threshold < least:
        return []
    busy = np.flatnonzero(smooth > threshold)
    pauses = np.flatnonzero(np.diff(busy) > max(1.0, max(PAUSE_S, 8 * width) / width))
    starts, stops = busy[np.concatenate([[0], pauses + 1])], busy[np.concatenate([pauses, [busy.size - 1]])] + 1
    # A pause that is short compared with what it parts belongs to the job: an upload, an evaluation on the CPU.
    lengths = stops - starts
    apart = starts[1:] - stops[:-1] > PAUSE_SHARE * np.minimum(lengths[:-1], lengths[1:])
    starts, stops = starts[np.concatenate([[True], apart])], stops[np.concatenate([apart, [True]])]
    return [(int(a), int(b), threshold) for a, b in zip(starts, stops, strict=True)]
