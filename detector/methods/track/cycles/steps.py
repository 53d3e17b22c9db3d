"""The steps within a longer cycle: strict repetition at a few readings each."""

import numpy as np
from numpy.typing import NDArray

from ....peaks import prominent_peaks
from ....signals import Signals
from ..periods import autocorrelation, level

Array = NDArray[np.float64]

#: A step has so many readings at least, fewer look like a longer one (NVML renews utilisation every 0.2 s, read or not). It is
#: this share of the cycle around it at most.
FEWEST, LARGEST = 5, 1 / 6

#: Samples that are looked at.
MOST = 4096

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
    lags = 2 * longest + 2
    each = autocorrelation(table - level(table, max(longest, 2 * fewest)), lags)
    third = max(1, -(-each.shape[0] // 3))
    fused = np.sort(each, axis=0)[-third:].mean(axis=0)
    peaks = prominent_peaks(fused[: longest + 2], 0.1)
    for peak in peaks[(peaks >= fewest) & (peaks <= longest)]:
        double = fused[2 * peak - 1 : 2 * peak + 2].max()
        if fused[peak] >= SHOWN and double >= AGAIN * fused[peak] and fused[peak] >= NEARLY * fused[peaks].max():
            before, at, after = fused[peak - 1 : peak + 2]
            bend = before - 2 * at + after
            return (peak + (0.5 * (before - after) / bend if bend < 0 else 0.0)) * interval, float(at)
    return None
