"""Peaks that stand out of a curve, as `scipy.signal.find_peaks` finds them.

Own code, as importing `scipy.signal` (and with it `scipy.stats`) takes longer than detecting epochs: the tracker, and so
`epochcast detect`, loads no SciPy.
"""

import numpy as np
from numpy.typing import NDArray


def prominent_peaks(curve: NDArray[np.float64], prominence: float) -> NDArray[np.int64]:
    """Where a curve has peaks that rise this far above the higher of their two feet, in order.

    A peak is a run of equal values between lower ones; it stands at the run's middle, left of it if there are two. A foot is
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
