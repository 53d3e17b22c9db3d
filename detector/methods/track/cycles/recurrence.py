"""Where a longer cycle has its boundaries: at regular saves, or at every k-th boundary of the shorter one."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import runs
from epochcast.detector.methods.track.cycles.activity import TraceActivity
from epochcast.detector.signals import Signals

Array = NDArray[np.float64]

#: A longer cycle is this much longer at least, and has at most so many of the shorter one.
LONGER, MOST = 1.5, 10

#: What recurs at its boundaries is so clear that its lower percentile is above the higher one of what is at the others, by so
#: many samples and standard deviations.
OWN, OTHERS, SAMPLES, CLEAR = 20, 95, 3, 0.5

#: Saves are regular if this share of their distances is that close to the median; a second one within a tenth of a cycle is the
#: same.
REGULAR, NEAR, SAME_SAVE = 0.6, 0.15, 0.1

#: Fewest boundaries. Of ten, three are the highest of some turn by chance in one trace of twenty.
FEWEST = 4

#: Standard deviation of a normal distribution per median absolute deviation.
NORMAL_MAD = 1.48


def saves_of(signals: Signals, does: TraceActivity, boundaries: Array) -> Array | None:
    """Ends of the saves [unix s] within cycles; None unless they are regular and further apart than the cycles."""
    if does.saves is None:
        return None
    period = float(np.median(np.diff(boundaries)))
    inside = (signals.time > boundaries[0] - period / 2) & (signals.time <= boundaries[-1] + period / 2)
    starts, stops = runs(does.saves & inside)
    begins, ends = signals.time[starts], signals.time[stops - 1]
    ends = ends[np.append(begins[1:] - ends[:-1] > SAME_SAVE * period, True)[: ends.size]]
    if ends.size < FEWEST:
        return None
    distances = np.diff(ends)
    usual = float(np.median(distances))
    regular = float(np.mean(np.abs(distances / usual - 1) <= NEAR)) >= REGULAR
    return ends if regular and usual > LONGER * period else None


def recurring(signals: Signals, does: TraceActivity, boundaries: Array, span: tuple[float, float]) -> Array | None:
    """Every k-th of the boundaries, where the device rests for longer or the cycle before takes longer; None for no k.

    Args:
        signals: the trace.
        does: what the device does in it.
        boundaries: (n,) unix seconds; the first and the last one, where the job may begin and end, are not compared.
        span: from when to when around a boundary a rest belongs to it [s].
    """
    interval = float(np.median(np.diff(signals.time)))
    rest = np.concatenate([[0.0], np.cumsum(does.rests) * interval])
    first, last = (np.searchsorted(signals.time, boundaries[1:-1] + side, side="right") for side in span)
    for values in (rest[last] - rest[first], np.diff(boundaries)[:-1]):
        turn = _turn(values, interval)
        if turn is not None and values[turn].size >= FEWEST:
            return np.asarray(boundaries[1:-1][turn])
    return None


def _turn(values: Array, interval: float) -> slice | None:
    """Every k-th of the values [s], 2 <= k <= 10, where these are clearly above all others; None where none are."""
    n = values.size
    for count in range(2, min(MOST, n // 3) + 1):
        turn = np.arange(n) % count
        medians = np.array([np.median(values[turn == k]) for k in range(count)])
        first = int(medians.argmax())
        own, others = values[turn == first], values[turn != first]
        scatter = NORMAL_MAD * float(np.median(np.abs(others - np.median(others))))
        if np.percentile(own, OWN) > np.percentile(others, OTHERS) + max(SAMPLES * interval, CLEAR * scatter):
            return slice(first, None, count)
    return None
