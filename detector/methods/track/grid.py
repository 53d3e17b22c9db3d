"""From uneven samples to the even grid of normalised channels that the tracker works on.

Nothing here knows a second: lengths are in samples of the trace, or shares of it, so that the same trace read at another pace,
or with its times stretched, is the same grid.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import ACTIVITY, Clock
from epochcast.detector.filters import running_mean
from epochcast.detector.methods.track.fold import Folding
from epochcast.detector.signals import Signals

#: Grid steps per sample of the trace, at most, and as many only while the grid has no more than so many steps: a cycle of few
#: samples still needs bins to place its boundaries in. By choice.
OVERSAMPLING, MOST_STEPS = 4, 16_000

#: Times are taken to this share of a sample: what is left of the last digits of unix seconds must not decide anything.
#: By choice.
TIME_DIGITS = 3

#: Busy is a mean above this share of the 90th percentile, over so many samples, or this part of the trace if that is less. A
#: process that holds the device and does nothing yet raises power by a quarter (GTX 970). Samples and part by choice.
BUSY_SHARE, BUSY_SAMPLES, BUSY_PART = 0.3, 30, 0.01

#: A pause parts the trace if it is longer than this share of the shorter one of the stretches that it parts, and more than so
#: many times as long as the pause of the given rank, the longest first: what recurs belongs to the job (loading, evaluation).
#: By choice (decision 0036).
PAUSE_SHARE, PAUSE_RATIO, PAUSE_RANK = 0.2, 2.0, 4

#: Events are rare if so many percent [of the samples] are near the median. By choice.
RARE = 95

#: Traffic of disks: the kernel's flusher moves it (every 5 s), or any other process, as often as the job. A process's own has a
#: page at its first change after each flush: a job that prints at every step showed epochs of 5.2 s (`beside_lstm_steps`).
DISKS = frozenset({"disk_read", "disk_write", "process_disk_read", "process_disk_write"})

#: Metrics read so much less often than the fastest lag behind what happened. By choice.
SLOWER = 2.5

#: A stretch with more steps than this for each of its rows is a hole, or has a damaged time: nearly all of its grid would be
#: made up, and it might not fit into memory. By choice.
MOST_STEPS_PER_ROW = 100

#: Readings this many samples apart have a hole between them: one missing is none. By choice.
HOLE = 2.5

#: A device that is active for less than this share of the time does not train, despite short activity. Only ratios show this.
#: By choice.
IDLE = 0.01
RATIOS = frozenset({"dram_active", *ACTIVITY})

#: Fewest samples of work that are searched: noise repeats as well in fewer. By choice.
FEWEST_SAMPLES = 24

#: A metric is clipped to these percentiles and this share of their distance beyond; one whose upper percentile is so many times
#: its median is compressed as log(1 + 100 x). Research notes; the 100 by choice.
INSIDE, BEYOND, LONG_TAIL, COMPRESSION = (1, 99), 0.25, 8, 100


@dataclass(frozen=True)
class Grid:
    """Evenly spaced, normalised channels over one busy stretch of a trace.

    Attributes:
        start: clock reading of the first sample.
        step: clock seconds between samples.
        over: grid samples per sample of the trace.
        quantum: grid samples between two changes of the metric that changes most often: boundaries are known to that.
        values: (m, n) one row per varying metric, each of mean 0 and standard deviation 1.
        readings: (k,) places of the trace's own samples within the stretch, in samples of the grid.
    """

    start: float
    step: float
    over: int
    quantum: float
    values: NDArray[np.float64]
    readings: NDArray[np.float64]

    def reading(self, index: NDArray[np.floating]) -> NDArray[np.float64]:
        """Clock readings at (fractional) sample indices."""
        return np.asarray(self.start + self.step * index, dtype=np.float64)

    @property
    def lag(self) -> float:
        """How far behind a change the first grid sample after it is, on average.

        A sample of the trace averages the interval that ends at its time; in between the grid is interpolated.
        """
        return (self.over + 1) / 2

    @cached_property
    def folding(self) -> Folding:
        """The trace's samples on an even grid: one that is missing is interpolated, a hole is not."""
        values = self.values[:, :: self.over]
        at, places = self.readings / self.over, np.arange(values.shape[1])
        after = np.searchsorted(at, places).clip(1, at.size - 1)
        near = np.minimum(np.abs(at[after] - places), np.abs(at[after - 1] - places)) < 0.5
        return Folding(values, near | (at[after] - at[after - 1] <= HOLE))

    def part(self, first: int, last: int) -> "Grid":
        """The grid from sample `first` up to `last`, excluded."""
        inside = (self.readings >= first) & (self.readings < last)
        return Grid(
            float(self.reading(np.array([first]))[0]),
            self.step,
            self.over,
            self.quantum,
            self.values[:, first:last],
            self.readings[inside] - first,
        )


def build(signals: Signals, clock: Clock, stretch: tuple[int, int]) -> Grid | None:
    """The grid of a stretch of a trace, or None where nothing varies, fewer than 24 samples are busy, or nearly all is a hole.

    On the work clock it has as many samples, evenly spaced in work.

    Args:
        signals: the trace.
        clock: on which the grid is even.
        stretch: first and last row, see `busy_stretches`.
    """
    if signals.main() in RATIOS and signals.metrics[signals.main()].mean() < IDLE:
        return None
    rows = slice(stretch[0], stretch[1] + 1)
    unit, places = _places(signals.time)
    length = float(places[stretch[1]] - places[stretch[0]])
    if rows.stop - rows.start < FEWEST_SAMPLES or length > MOST_STEPS_PER_ROW * (rows.stop - rows.start):
        return None
    over = int(np.clip(MOST_STEPS // length, 1, OVERSAMPLING))
    count = int(length * over) + 1
    # In seconds of work, the unit is the mean of a sample's.
    first, last = clock.reading[stretch[0]], clock.reading[stretch[1]]
    per_unit = unit if clock.name == "wall" else float(last - first) / length
    on = Clock(clock.name, signals.time, places if clock.name == "wall" else (clock.reading - first) / per_unit)
    even = on.reading[stretch[0]] + np.arange(count) * ((on.reading[stretch[1]] - on.reading[stretch[0]]) / (count - 1))
    channels = {}
    for name in sorted(signals.metrics):  # the order of columns must not decide anything
        row = on.resample(name, signals.metrics[name], even)
        if (rare := _rare_events(row)) is not None:
            channels[name] = (rare - rare.mean()) / rare.std()
        elif (scale := Scale(row)).varies:
            channels[name] = scale(row)
    names = _prompt(list(channels), signals)
    if not names:
        return None
    step = float(even[1] - even[0])
    raw = np.array([signals.metrics[name][rows] for name in names])
    changes = np.count_nonzero(np.diff(raw, axis=1), axis=1).max()
    return Grid(
        start=float(first),
        step=step * per_unit,
        over=over,
        quantum=over * (raw.shape[1] - 1) / max(1, changes),
        values=np.array([channels[name] for name in names]),
        readings=(on.reading[rows] - even[0]) / step,
    )


def _prompt(names: list[str], signals: Signals) -> list[str]:
    """The metrics that follow the job without delay; all where these are fewer than two."""
    fastest = min((signals.intervals[name] for name in names), default=0.0)
    prompt = [name for name in names if name not in DISKS and signals.intervals[name] <= SLOWER * fastest]
    return prompt if len(prompt) >= 2 else names


def _places(time: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Seconds per sample, the median, and each sample's place in samples from the first, to three digits."""
    unit = float(np.median(np.diff(time)))
    return unit, np.round((time - time[0]) / unit, TIME_DIGITS)


def busy_stretches(signals: Signals) -> list[tuple[int, int]]:
    """First and last row of every stretch without a long pause or hole, the longest first; never empty."""
    _, places = _places(signals.time)
    activity, n = signals.metrics[signals.main()], places.size
    width = max(1, min(BUSY_SAMPLES, round(BUSY_PART * n)))
    level = running_mean(activity, width)
    # Power and the like rest far above zero; a ratio that never falls to zero does not rest.
    floor = 0.0 if signals.main() in RATIOS else float(level.min())
    threshold = floor + BUSY_SHARE * (float(np.percentile(level, 90)) - floor)
    busy = np.flatnonzero(level > threshold)
    if not busy.size:
        return [(0, n - 1)]
    # The mean smears edges by up to its width: an edge of work is where the samples themselves are busy.
    gaps = np.flatnonzero(np.diff(places[busy]) > 1 + width)
    starts, stops = busy[np.append(0, gaps + 1)], busy[np.append(gaps, busy.size - 1)]
    pauses = places[starts[1:]] - places[stops[:-1]]
    if pauses.size > 1:
        usual = np.sort(pauses)[-min(PAUSE_RANK, pauses.size)]
        starts, stops = _parted(starts, stops, pauses > PAUSE_RATIO * usual)
    lengths = places[stops] - places[starts] + 1
    pauses = places[starts[1:]] - places[stops[:-1]]
    starts, stops = _parted(starts, stops, pauses > PAUSE_SHARE * np.minimum(lengths[:-1], lengths[1:]))
    stretches = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        low, top = max(0, start - width), min(n, stop + width + 1)
        exact = low + np.flatnonzero(activity[low:top] > threshold)
        stretches.append((int(exact[0]), int(exact[-1])) if exact.size else (low, top - 1))
    return sorted(stretches, key=lambda stretch: (places[stretch[0]] - places[stretch[1]], stretch))


def _parted(
    starts: NDArray[np.intp], stops: NDArray[np.intp], apart: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Stretches joined wherever they are not `apart`."""
    return starts[np.append(True, apart)], stops[np.append(apart, True)]


class Scale:
    """How a metric becomes a channel: outliers clipped, long tails compressed, mean 0, standard deviation 1; from (n,)."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        low, high = np.percentile(values, INSIDE)
        self._ends = low - BEYOND * (high - low), high + BEYOND * (high - low)
        self._tail = high if low >= 0 and high > LONG_TAIL * np.median(values) else None
        row = self._shaped(values)
        self.varies = bool(row.std() > 1e-9 * max(1e-300, float(np.abs(row).max())))
        self._mean, self._spread = row.mean(), row.std() if self.varies else np.inf

    def __call__(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """The channel of any values; 0 if those that it was learnt from do not vary."""
        return np.asarray((self._shaped(values) - self._mean) / self._spread)

    def _shaped(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        row = np.clip(np.asarray(values, dtype=np.float64), *self._ends)
        return row if self._tail is None else np.log1p(np.maximum(row, 0.0) / self._tail * COMPRESSION)


def _rare_events(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A metric that hardly moves but for at least two events (bytes written at a checkpoint): how far it is from its median, on
    a logarithmic scale; None for any other metric. What is high and what is nothing next to it is by choice.
    """
    distance = np.abs(values - np.median(values))
    usual = float(np.percentile(distance, RARE))
    events = distance > 20 * usual
    height = float(np.median(distance[events])) if np.count_nonzero(events) >= 2 else 0.0
    if not usual < 0.01 * height:
        return None
    return np.asarray(np.log1p(100 * np.minimum(distance / height, 10)))
