"""From uneven samples to the even grid of normalised channels that the tracker works on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from ...clock import Clock
from ...signals import Signals

#: Finest grid step [s]: the product samples at 10 Hz.
STEP_S = 0.1

#: Busy is a 3 s mean above 12 % of the 90th percentile; pauses below 15 s belong to the busy stretch.
BUSY_MEAN_S, BUSY_SHARE, PAUSE_S = 3.0, 0.12, 15.0

#: A hole this long, and of so many steps, parts the trace; shorter ones are bridged by interpolation.
HOLE_S, HOLE_STEPS = 300.0, 100

#: Two periods of the shortest kind that the search knows, at its coarsest.
FEWEST_SAMPLES = 40


@dataclass(frozen=True)
class Grid:
    """Evenly spaced, normalised channels over the trace's longest busy stretch.

    Attributes:
        start: clock reading of the first sample.
        step: clock seconds between samples.
        values: (m, n) one row per varying metric, each of mean 0 and standard deviation 1.
    """

    start: float
    step: float
    values: NDArray[np.float64]

    def reading(self, index: NDArray[np.floating]) -> NDArray[np.float64]:
        """Clock readings at (fractional) sample indices."""
        return np.asarray(self.start + self.step * index, dtype=np.float64)


def build(signals: Signals, clock: Clock) -> Grid | None:
    """The grid of a trace, or None where nothing varies or fewer than 40 samples are busy.

    The step is 0.1 s, or the median sampling interval where that is longer; on the work clock as many samples, evenly spaced in
    work.
    """
    step = max(STEP_S, float(np.median(np.diff(signals.time))))
    first, last = _busy_stretch(signals.time, signals.metrics[signals.main()], step)
    count = int((last - first) / step) + 1
    if count < FEWEST_SAMPLES:
        return None
    low, high = clock.at(np.array([first, last]))
    reading = np.linspace(low, high, count)
    rows = []
    for name, values in signals.metrics.items():
        row = _normalised(clock.resample(name, values, reading))
        if row is not None:
            rows.append(row)
    return Grid(float(low), float((high - low) / (count - 1)), np.array(rows)) if rows else None


def _busy_stretch(time: NDArray[np.float64], activity: NDArray[np.float64], step: float) -> tuple[float, float]:
    """First and last unix second of the longest stretch without a hole and without a pause of 15 s."""
    holes = np.flatnonzero(np.diff(time) > max(HOLE_S, HOLE_STEPS * step))
    cuts = np.concatenate([[0], holes + 1, [time.size]])
    longest = int(np.argmax(np.diff(cuts)))
    time, activity = time[cuts[longest] : cuts[longest + 1]], activity[cuts[longest] : cuts[longest + 1]]
    even = np.arange(time[0], time[-1] + step / 2, step)
    raw = np.interp(even, time, activity)
    width = max(1, round(BUSY_MEAN_S / step))
    level = uniform_filter1d(raw, width, mode="nearest")
    threshold = BUSY_SHARE * np.percentile(level, 90)
    busy = np.flatnonzero(level > threshold)
    if not busy.size:
        return float(time[0]), float(time[-1])
    ends = np.flatnonzero(np.diff(busy) > PAUSE_S / step)
    starts = busy[np.concatenate([[0], ends + 1])]
    stops = busy[np.concatenate([ends, [busy.size - 1]])]
    longest = int(np.argmax(stops - starts))
    # The mean smears both ends by up to its width: the first and last busy samples themselves are the ends.
    low, high = max(0, starts[longest] - width), min(even.size, stops[longest] + width + 1)
    exact = low + np.flatnonzero(raw[low:high] > threshold)
    return (float(even[exact[0]]), float(even[exact[-1]])) if exact.size else (float(even[low]), float(even[high - 1]))


def _normalised(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Outliers clipped, long tails compressed, mean 0, standard deviation 1; None if it does not vary."""
    low, high = np.percentile(values, [1, 99])
    margin = 0.25 * (high - low)
    clipped = np.clip(values, low - margin, high + margin)
    if low >= 0 and high > 8 * np.median(clipped):
        scale = high if high > 0 else 1.0
        clipped = np.log1p(clipped / scale * 100)
    spread = clipped.std()
    if not spread > 1e-9 * max(1e-300, float(np.abs(clipped).max())):
        return None
    return np.asarray((clipped - clipped.mean()) / spread)
