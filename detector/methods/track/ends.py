"""Where training begins and ends: the first epoch before the first boundary, and the last one after the last.

Boundaries are matched by their surroundings, which may differ around the first and the last. There the samples
show the end: training ends where they leave the range that they keep within the cycles (initialisation, idle), or where the
device rests for longer than it does within a cycle.
"""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import runs
from epochcast.detector.methods.track.grid import Grid

#: Within the cycles samples stay between these percentiles, and beyond by this share of their distance. By choice.
USUAL, MARGIN = (1.0, 99.0), 0.15

#: The device rests below this share of the way from its lowest to its usual level. By choice.
RESTING = 0.4

#: A rest within a cycle is at most this much longer than the longest usual one, and this share of the period; samples that
#: leave the range for no longer may be a first epoch's own (a deeper dip), too. By choice.
LONGER, SLACK = 1.3, 0.1

#: A first or last epoch has this share of what a cycle has between its rests; a last one lasts at most so many periods, a first
#: one, which holds setup, so many. By choice.
SHORTEST, LAST, FIRST = 0.75, 1.25, 4.5

#: What samples and period say of an end is averaged where they differ by up to this share of the period. By choice.
NEAR = 0.08


def with_ends(
    grid: Grid, boundaries: NDArray[np.float64], match: NDArray[np.float64], period: float, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The boundaries and their matches, with the start of the first epoch and the end of the last one where they are none yet.

    Args:
        grid: that was searched, of n samples.
        boundaries: (k,) fractional samples of the grid, k >= 2.
        match: (k,) 0..1.
        period: samples of the grid.
        rows: of the grid, those that show the cycle.
    """
    values = grid.values[rows]
    inside = slice(max(0, int(boundaries[0])), int(boundaries[-1]) + 1)
    low, high = np.percentile(values[:, inside], USUAL, axis=1)
    margin = MARGIN * (high - low)
    foreign = ((values < (low - margin)[:, None]) | (values > (high + margin)[:, None])).any(axis=0)
    # The row that moves most between rest and work (percentiles by choice): its lower part is rest, at any level.
    activity = values[int(np.argmax(np.percentile(values, 95, axis=1) - np.percentile(values, 1, axis=1)))]
    bottom = float(activity.min())
    resting = activity < bottom + RESTING * (float(np.median(activity[inside])) - bottom)
    longest = _longest_run(resting[inside])
    slack = max(SLACK * period, float(grid.over))
    within = period - min(longest, period / 2)
    lag = grid.lag

    head: float = _run_until(foreign[: inside.start][::-1], resting[: inside.start][::-1], LONGER * longest + slack, slack)
    tail: float = _run_until(foreign[inside.stop :], resting[inside.stop :], LONGER * longest + slack, slack)
    starts, ends = [], []
    head, tail = (_settled(length, period) for length in (head, tail))
    if SHORTEST * within <= head <= FIRST * period:
        starts = [inside.start - head - lag]
    elif head > FIRST * period:
        starts = [boundaries[0] - period]
    if SHORTEST * within <= tail <= LAST * period:
        # Half of the rest before a boundary: idle time after the job hides whose it is.
        ends = [min(inside.stop + tail - lag, grid.values.shape[1] - 1 + _rest_before(resting, boundaries) / 2)]
    elif tail > LAST * period:
        ends = [boundaries[-1] + period]
    # Half of what an epoch at an end is known by is a boundary.
    return (
        np.concatenate([starts, boundaries, ends]),
        np.concatenate([match[:1] / 2 if starts else [], match, match[-1:] / 2 if ends else []]).clip(0, 1),
    )


def _rest_before(resting: NDArray[np.bool_], boundaries: NDArray[np.float64]) -> float:
    """Samples of rest that end right before a boundary."""
    before = [resting[:boundary][::-1] for boundary in boundaries[1:-1].astype(int)]
    return float(np.median([int(np.argmin(np.append(side, False))) for side in before])) if before else 0.0


def _settled(length: float, period: float) -> float:
    """A length about as long as a period is as likely to be one: midway between the two."""
    return (length + period) / 2 if abs(length / period - 1) <= NEAR else length


def _run_until(foreign: NDArray[np.bool_], resting: NDArray[np.bool_], allowed: float, slack: float) -> int:
    """Samples until those begin that are foreign for longer than the slack, or rest for longer than allowed."""
    stops = [foreign.size]
    for wrong, most in ((foreign, slack), (resting, allowed)):
        starts, ends = runs(wrong)
        stops += starts[ends - starts > most][:1].tolist()
    return min(stops)


def _longest_run(wrong: NDArray[np.bool_]) -> float:
    """Length of the runs, but for a tenth that are longer."""
    starts, ends = runs(wrong)
    lengths = ends - starts
    # 90 by choice: one rest of another kind is not usual.
    return float(np.percentile(lengths, 90)) if lengths.size else 0.0
