"""What SciPy has too: running means, medians and maxima, peaks; and runs.

Own code, as importing `scipy.ndimage` or `scipy.fft` takes a third of a second, and `scipy.signal` longer than detecting
epochs: the tracker, and so `epochcast detect`, loads no SciPy.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Mean over the `width` values about each, one more before it than after it where `width` is even; (..., n) -> (..., n).

    The ends' last value goes on.
    """
    sums = np.cumsum(_padded(values, width // 2 + 1, (width - 1) // 2), axis=-1)
    return np.asarray((sums[..., width:] - sums[..., :-width]) / width)


def running_median(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Median over the `width` values about each, odd; the ends' last value goes on; (..., n) -> (..., n)."""
    windows = sliding_window_view(_padded(values, width // 2, width // 2), width, axis=-1)
    return np.asarray(np.partition(windows, width // 2, axis=-1)[..., width // 2])


def running_max(values: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Largest of each value and its `reach` neighbours on either side; (n,) -> (n,)."""
    padded = np.pad(values, reach, constant_values=-np.inf)
    return np.asarray(sliding_window_view(padded, 2 * reach + 1).max(axis=-1))


def prominent_peaks(curve: NDArray[np.float64], prominence: float) -> NDArray[np.int64]:
    """Where a curve has peaks that rise this far above the higher of their two feet, in order.

    A peak is a run of equal values between lower ones; it is at the run's middle, left of it if there are two. A foot is
    the lowest value between the peak and the next higher value on that side, or the curve's end.

    Args:
        curve: (n,) without NaN.
        prominence: the least, in the curve's unit.
    """
    # Runs of equal values, of which peaks are those that are higher than the run before and the run after.
    starts = np.flatnonzero(np.diff(curve, prepend=np.nan))
    level = curve[starts]
    tops = np.flatnonzero((level[1:-1] > level[:-2]) & (level[1:-1] > level[2:])) + 1
    feet = np.maximum(_left_feet(level), _left_feet(level[::-1])[::-1])
    tops = tops[level[tops] - feet[tops] >= prominence]
    return np.asarray((starts[tops] + starts[tops + 1] - 1) // 2)


def best_third(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of the highest third of the rows, at each place: a cycle need not show in every metric; (m, ...) -> (...).

    From ../shared/research/detector.md, 4.
    """
    return np.asarray(np.sort(rows, axis=0)[-max(1, -(-len(rows) // 3)) :].mean(axis=0))


def runs(mask: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First place of every run of True, and one past its last one; (n,) -> (k,), (k,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def circular_runs(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and one past the last place of every run of True on a circle; the last may lie beyond its end."""
    if not mask.any() or mask.all():
        return [(0, mask.size)] if mask.any() else []
    turn = int(np.flatnonzero(~mask)[0])  # begins outside a run: no run wraps around
    starts, ends = runs(np.roll(mask, -turn))
    return list(zip((starts + turn).tolist(), (ends + turn).tolist(), strict=True))


def _padded(values: NDArray[np.float64], before: int, after: int) -> NDArray[np.float64]:
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(before, after)], mode="edge")


def _left_feet(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lowest value between each value and the last higher one before it, itself included; (n,) -> (n,)."""
    feet = []
    higher: list[tuple[float, float]] = []  # values that nothing later has reached yet, falling, each with its foot
    for value in curve.tolist():
        foot = value
        while higher and higher[-1][0] <= value:
            foot = min(foot, higher.pop()[1])
        higher.append((value, foot))
        feet.append(foot)
    return np.array(feet)
