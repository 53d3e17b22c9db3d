"""How well detected boundaries agree with marks."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Most lags that are counted exactly. By choice: time.
_LAGS = 400


def boundary_f1(truth: ArrayLike, detected: ArrayLike, tolerance: float) -> float:
    """F1 of boundaries that match one to one within the tolerance; 1 if there are none on either side.

    Args:
        truth, detected: (k,) and (m,) seconds.
        tolerance: seconds, inclusive.
    """
    left = np.sort(np.asarray(truth, dtype=np.float64))
    right = np.sort(np.asarray(detected, dtype=np.float64))
    if not left.size + right.size:
        return 1.0
    return 2 * _matched(left, right, tolerance) / (left.size + right.size)


def lagged_boundary_f1(truth: ArrayLike, detected: ArrayLike, tolerance: float, reach: float) -> tuple[float, float]:
    """The highest F1 that one constant lag of the marks gives, and that lag [s]; (0, 0) where no lag matches anything.

    Marks that a program writes lag behind what the telemetry shows, or lead it, by a constant. Boundaries that lie outside of
    the marks, beyond the tolerance, are not counted as wrong: marks may cover complete epochs only.

    Args:
        truth, detected: (k,) and (m,) seconds.
        tolerance: seconds, inclusive.
        reach: the lag is looked for up to so many seconds to either side.
    """
    left = np.sort(np.asarray(truth, dtype=np.float64))
    right = np.sort(np.asarray(detected, dtype=np.float64))
    if not (left.size and right.size):
        return 0.0, 0.0
    lags = (left[:, None] - right[None, :]).ravel()
    lags = np.sort(lags[np.abs(lags) <= reach])
    if not lags.size:
        return 0.0, 0.0
    # The best lag has the most differences within its tolerance; it is midway between two of them, or at one.
    near = np.searchsorted(lags, lags + 2 * tolerance, side="right") - np.arange(lags.size)
    begins = np.argsort(-near, kind="stable")[:_LAGS]
    middles = (lags[begins] + lags[begins + near[begins] - 1]) / 2
    best = (0.0, 0.0)
    for lag in sorted(middles.tolist(), key=abs):
        moved = right + lag
        inside = moved[(moved >= left[0] - tolerance) & (moved <= left[-1] + tolerance)]
        score = 2 * _matched(left, inside, tolerance) / (left.size + inside.size)
        if score > best[0] + 1e-9:
            best = (score, float(lag))
    return best


def boundary_error(truth: ArrayLike, detected: ArrayLike, reach: float) -> float | None:
    """Median distance in seconds of the boundaries that are each other's nearest, within `reach`; None if there are none.

    Unlike `boundary_f1` it pairs each boundary with the nearest one, not with the earliest that fits: at half a period two fit.

    Args:
        truth, detected: (k,) and (m,) seconds.
        reach: seconds, inclusive.
    """
    left = np.asarray(truth, dtype=np.float64)
    right = np.asarray(detected, dtype=np.float64)
    if not (left.size and right.size):
        return None
    distance = np.abs(left[:, None] - right[None, :])
    nearest = distance.argmin(axis=1)
    mutual = distance.argmin(axis=0)[nearest] == np.arange(left.size)
    matched = distance[np.arange(left.size), nearest][mutual]
    matched = matched[matched <= reach]
    return float(np.median(matched)) if matched.size else None


def _matched(left: NDArray[np.float64], right: NDArray[np.float64], tolerance: float) -> int:
    """How many pairs there are; both sorted."""
    i = j = matched = 0
    # On a line, pairing the earliest two that fit is a largest matching.
    while i < left.size and j < right.size:
        if abs(left[i] - right[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return matched
