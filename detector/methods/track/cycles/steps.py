"""The steps within a longer cycle: strict repetition at a few readings each."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import best_third, prominent_peaks, running_mean
from epochcast.detector.methods.track.periods import autocorrelation, vertex
from epochcast.detector.signals import Signals

Array = NDArray[np.float64]

#: A step has so many readings at least, fewer look like a longer one (NVML renews utilisation every 0.2 s, read or not). It is
#: this share of the cycle around it at most.
FEWEST, LARGEST = 5, 1 / 6

#: Samples that are looked at, and octaves of lengths.
MOST, OCTAVES = 4096, 5

#: It shows by so much in the autocorrelation, at twice its length by this share of that, and by this share of what any shows.
SHOWN, AGAIN, NEARLY = 0.25, 0.3, 0.8


def step(signals: Signals, names: list[str], boundaries: Array) -> tuple[float, float] | None:
    """Period of the steps [s] within cycles, and the autocorrelation that shows it, 0..1; None where none shows.

    It may be that of several steps, where every so many wait for their data.

    Args:
        signals: the trace.
        names: of the metrics to look at.
        boundaries: (k,) unix seconds of the longer cycle's.
    """
    interval = float(np.median(np.diff(signals.time)))
    period = float(np.median(np.diff(boundaries)))
    changes = max(np.count_nonzero(np.diff(signals.metrics[name])) for name in names) if names else 0
    fewest = int(np.ceil(FEWEST * (signals.time.size - 1) / max(1, changes)))
    longest = int(LARGEST * period / interval)
    if longest <= fewest:
        return None
    first, last = np.searchsorted(signals.time, [boundaries[0], boundaries[-1]])
    middle = (first + last) // 2
    first, last = max(first, middle - MOST // 2), min(last, middle + MOST // 2)
    even = np.arange(signals.time[first], signals.time[last - 1], interval)
    table = np.array([np.interp(even, signals.time[first:last], signals.metrics[name][first:last]) for name in names])
    table = table[table.std(axis=1) > 0]
    if not table.size or table.shape[1] < 4 * longest:
        return None
    # Slow changes hide short steps: each octave is looked at without what is slower than it.
    octaves = (longest >> octave for octave in range(OCTAVES))
    shown = [candidate for most in octaves if most > fewest and (candidate := _repetition(table, fewest, most)) is not None]
    lag, height = max(shown, key=lambda candidate: candidate[1], default=(0.0, 0.0))
    return (lag * interval, height) if shown else None


def _repetition(table: Array, fewest: int, most: int) -> tuple[float, float] | None:
    """The shortest lag of `fewest` to `most` samples at which the rows of a table, (m, n), clearly repeat, and how much."""
    each = autocorrelation(table - running_mean(table, max(most, 2 * fewest)), 2 * most + 2)
    fused = best_third(each)
    peaks = prominent_peaks(fused[: most + 2], 0.1)
    for peak in peaks[(peaks >= fewest) & (peaks <= most)]:
        double = fused[2 * peak - 1 : 2 * peak + 2].max()
        if fused[peak] >= SHOWN and double >= AGAIN * fused[peak] and fused[peak] >= NEARLY * fused[peaks].max():
            return vertex(fused, int(peak)), float(fused[peak])
    return None
