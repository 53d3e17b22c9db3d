"""From uneven samples to the even grid of normalised channels that the tracker works on."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...clock import ACTIVITY, Clock
from ...filters import running_mean
from ...signals import Signals

#: Finest grid step [s]: the product samples at 10 Hz.
STEP_S = 0.1

#: Grid steps per reading of a slower source: a cycle of few readings still needs bins to place its boundaries in.
OVERSAMPLING = 4

#: Busy is a 3 s mean above 12 % of the 90th percentile; pauses below 15 s belong to the busy stretch.
BUSY_MEAN_S, BUSY_SHARE, PAUSE_S = 3.0, 0.12, 15.0

#: So do pauses of up to this share of the shorter one of the stretches that they part.
PAUSE_SHARE = 0.2

#: A hole this long, and of so many steps, parts the trace; shorter ones are bridged by interpolation.
HOLE_S, HOLE_STEPS = 300.0, 100

#: Events are rare if so many percent [of the samples] are near the median.
RARE = 95

#: Metrics of the whole machine's disks: the kernel's flusher moves them (every 5 s), or any other process, as often as the job.
DISKS = frozenset({"disk_read", "disk_write"})

#: Metrics read so much less often than the fastest lag behind what happened.
SLOWER = 2.5

#: A device that is active for less than this share of the time does not train, whatever blinks on it. Only ratios tell.
IDLE = 0.01
RATIOS = frozenset({"dram_active", *ACTIVITY})

#: Two periods of the shortest kind that the search knows, at its coarsest.
FEWEST_SAMPLES = 40


@dataclass(frozen=True)
class Grid:
    """Evenly spaced, normalised channels over the trace's longest busy stretch.

    Attributes:
        start: clock reading of the first sample.
        step: clock seconds between samples.
        values: (m, n) one row per varying metric, each of mean 0 and standard deviation 1.
        readings: (k,) clock readings of the trace's own samples within the stretch.
        raw: (m, k) the metrics there, as they are.
    """

    start: float
    step: float
    values: NDArray[np.float64]
    readings: NDArray[np.float64]
    raw: NDArray[np.float64]

    def reading(self, index: NDArray[np.floating]) -> NDArray[np.float64]:
        """Clock readings at (fractional) sample indices."""
        return np.asarray(self.start + self.step * index, dtype=np.float64)


def build(signals: Signals, clock: Clock, stretch: tuple[float, float]) -> Grid | None:
    """The grid of a stretch of a trace, or None where nothing varies or fewer than 40 samples are busy.

    The step is 0.1 s, or the median sampling interval where that is longer; on the work clock as many samples, evenly spaced in
    work.

    Args:
        signals: the trace.
        clock: on which the grid is even.
        stretch: unix seconds, see `busy_stretches`.
    """
    step = max(STEP_S, _interval(signals) / OVERSAMPLING)
    first, last = stretch
    if signals.main() in RATIOS and signals.metrics[signals.main()].mean() < IDLE:
        return None
    count = int((last - first) / step) + 1
    if count < FEWEST_SAMPLES:
        return None
    low, high = clock.at(np.array([first, last]))
    reading = np.linspace(low, high, count)
    inside = (signals.time >= first) & (signals.time <= last)
    rows = {
        name: row
        for name, values in signals.metrics.items()
        if (row := _normalised(clock.resample(name, values, reading))) is not None
    }
    names = _prompt(list(rows), signals)
    if not names:
        return None
    values = np.array([rows[name] for name in names])
    raw = np.array([signals.metrics[name][inside] for name in names])
    return Grid(float(low), float((high - low) / (count - 1)), values, clock.reading[inside], raw)


def _prompt(names: list[str], signals: Signals) -> list[str]:
    """The metrics that follow the job without delay; all where these are fewer than two."""
    fastest = min((signals.intervals[name] for name in names), default=0.0)
    prompt = [name for name in names if name not in DISKS and signals.intervals[name] <= SLOWER * fastest]
    return prompt if len(prompt) >= 2 else names


def _interval(signals: Signals) -> float:
    return max(STEP_S, float(np.median(np.diff(signals.time))))


def busy_stretches(signals: Signals) -> list[tuple[float, float]]:
    """First and last unix second of every stretch without a hole or a pause of 15 s, the longest first; never empty."""
    step, time, activity = _interval(signals), signals.time, signals.metrics[signals.main()]
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(time) > max(HOLE_S, HOLE_STEPS * step)) + 1, [time.size]])
    found: list[tuple[float, float]] = []
    for begin, end in pairwise(cuts.tolist()):
        found += _busy(time[begin:end], activity[begin:end], step)
    return sorted(found, key=lambda stretch: stretch[0] - stretch[1])


def _busy(time: NDArray[np.float64], activity: NDArray[np.float64], step: float) -> list[tuple[float, float]]:
    """The busy stretches of a trace without holes; the whole of it where it is never busy."""
    even = np.arange(time[0], time[-1] + step / 2, step)
    raw = np.interp(even, time, activity)
    width = max(1, round(BUSY_MEAN_S / step))
    level = running_mean(raw, width)
    high = float(np.percentile(level, 90))
    busy = np.flatnonzero(level > BUSY_SHARE * high)
    if not busy.size:
        return [(float(time[0]), float(time[-1]))]
    ends = np.flatnonzero(np.diff(busy) > PAUSE_S / step)
    starts = busy[np.concatenate([[0], ends + 1])]
    stops = busy[np.concatenate([ends, [busy.size - 1]])]
    # A pause that is short beside what it parts belongs to the job: an upload, an evaluation on the CPU.
    lengths = stops - starts
    apart = starts[1:] - stops[:-1] > PAUSE_SHARE * np.minimum(lengths[:-1], lengths[1:])
    starts, stops = starts[np.concatenate([[True], apart])], stops[np.concatenate([apart, [True]])]
    found = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        # The mean smears both ends by up to its width: the first and last busy samples themselves are the ends.
        low, top = max(0, start - width), min(even.size, stop + width + 1)
        # Some metrics (power) rest far above zero: at the ends a level near the lowest is rest, too; within, maybe validation.
        floor = float(level[low:top].min())
        exact = low + np.flatnonzero(raw[low:top] > floor + BUSY_SHARE * max(high - floor, 0.0))
        found.append(
            (float(even[exact[0]]), float(even[exact[-1]])) if exact.size else (float(even[low]), float(even[top - 1]))
        )
    return found


def _normalised(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Outliers clipped, long tails compressed, mean 0, standard deviation 1; None if it does not vary."""
    row = _rare_events(values)
    if row is None:
        low, high = np.percentile(values, [1, 99])
        margin = 0.25 * (high - low)
        row = np.clip(values, low - margin, high + margin)
        if low >= 0 and high > 8 * np.median(row):
            scale = high if high > 0 else 1.0
            row = np.log1p(row / scale * 100)
    spread = row.std()
    if not spread > 1e-9 * max(1e-300, float(np.abs(row).max())):
        return None
    return np.asarray((row - row.mean()) / spread)


def _rare_events(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """A metric that hardly moves but for at least two events (bytes written at a checkpoint): how far it is from its median, on
    a logarithmic scale; None for any other metric.
    """
    distance = np.abs(values - np.median(values))
    usual = float(np.percentile(distance, RARE))
    events = distance > 20 * usual
    height = float(np.median(distance[events])) if np.count_nonzero(events) >= 2 else 0.0
    if not usual < 0.01 * height:
        return None
    return np.asarray(np.log1p(100 * np.minimum(distance / height, 10)))
