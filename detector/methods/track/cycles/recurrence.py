"""Where a longer cycle has its boundaries: at regular saves, or at every k-th boundary of the shorter one."""

import numpy as np
from numpy.typing import NDArray

from ....signals import Signals
from .activity import Activity

Array = NDArray[np.float64]

#: A longer cycle is this much longer at least, and has at most so many of the shorter one.
LONGER, MOST = 1.5, 10

#: What recurs at its boundaries is so clear that its lower percentile is above the higher one of what is at the others, and so
#: large [samples].
OWN, OTHERS, SAMPLES = 20, 95, 3

#: Saves are regular if this share of their distances is that close to the median; a second one within a tenth of a cycle is the
#: same.
REGULAR, NEAR, SAME_SAVE = 0.6, 0.15, 0.1

#: Fewest boundaries.
FEWEST = 4


def saves_of(signals: Signals, does: Activity, boundaries: Array) -> Array | None:
    """Ends of the saves [unix s] within cycles; None unless they are regular and further apart than the cycles."""
    if does.saves is None:
        return None
    period = float(np.median(np.diff(boundaries)))
    inside = (signals.time > boundaries[0] - period / 2) & (signals.time <= boundaries[-1] + period / 2)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], does.saves & inside, [False]]).astype(np.int8)))
    begins, ends = signals.time[edges[::2]], signals.time[edges[1::2] - 1]
    ends = ends[np.append(begins[1:] - ends[:-1] > SAME_SAVE * period, True)[: ends.size]]
    if ends.size < 3:
        return None
    distances = np.diff(ends)
    usual = float(np.median(distances))
    regular = float(np.mean(np.abs(distances / usual - 1) <= NEAR)) >= REGULAR
    return ends if regular and usual > LONGER * period else None


def recurring(signals: Signals, does: Activity, boundaries: Array) -> Array | None:
    """Every k-th of the boundaries, where the device rests for longer or the cycle before takes longer; None for no k."""
    interval = float(np.median(np.diff(signals.time)))
    # What belongs to a boundary lies within half a cycle of it.
    middles = np.concatenate([boundaries[:1], (boundaries[1:] + boundaries[:-1]) / 2, boundaries[-1:]])
    place = np.searchsorted(middles, signals.time, side="right") - 1
    inside = (place >= 0) & (place < boundaries.size)
    rests = np.bincount(place[inside], does.rests[inside], boundaries.size) * interval
    lengths = np.diff(boundaries, prepend=boundaries[0] - np.median(np.diff(boundaries)))
    for values in (rests, lengths):
        turn = _turn(values) if np.ptp(values) >= SAMPLES * interval else None
        if turn is not None and boundaries[turn].size >= FEWEST:
            return np.asarray(boundaries[turn])
    return None


def _turn(values: NDArray[np.floating]) -> slice | None:
    """Every k-th of the values, 2 <= k <= 10, where these are above all others; None where none are."""
    n = values.size
    for count in range(2, min(MOST, n // 3) + 1):
        turn = np.arange(n) % count
        means = np.array([np.median(values[turn == k]) for k in range(count)])
        first = int(means.argmax())
        own, others = values[turn == first], values[turn != first]
        if np.percentile(own, OWN) > np.percentile(others, OTHERS):
            return slice(first, None, count)
    return None
