"""Running means, medians and maxima, as `scipy.ndimage` has them, and lengths that a Fourier transform takes quickly.

Own code, as importing `scipy.ndimage` or `scipy.fft` takes a third of a second: the tracker, and so `epochcast detect`, loads
no SciPy.
"""

from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray


def running_mean(values: NDArray[np.float64], width: int, beyond: Literal["edge", "symmetric"] = "edge") -> NDArray[np.float64]:
    """Mean over the `width` values about each, one more before it than after it where `width` is even; (..., n) -> (..., n).

    Args:
        values: rows of n values without NaN.
        width: at least 1.
        beyond: the ends: their last value goes on (`edge`), or they are mirrored there (`symmetric`).
    """
    sums = np.cumsum(_padded(values, width // 2 + 1, (width - 1) // 2, beyond), axis=-1)
    return np.asarray((sums[..., width:] - sums[..., :-width]) / width)


def running_median(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Median over the `width` values about each, odd; the ends' last value goes on; (..., n) -> (..., n)."""
    windows = sliding_window_view(_padded(values, width // 2, width // 2, "edge"), width, axis=-1)
    return np.asarray(np.partition(windows, width // 2, axis=-1)[..., width // 2])


def running_max(values: NDArray[np.float64], reach: int) -> NDArray[np.float64]:
    """Largest of each value and its `reach` neighbours on either side; (n,) -> (n,).

    A window of `width` values begins in one block of that many and ends in the next at most: its maximum is that of the first
    block's rest and of the second one's beginning (van Herk, Pattern Recognition Letters 13, 1992).
    """
    width, n = 2 * reach + 1, values.size
    blocks = np.pad(values, (reach, reach + -(n + 2 * reach) % width), constant_values=-np.inf).reshape(-1, width)
    until = np.maximum.accumulate(blocks, axis=1).ravel()
    rest = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    return np.asarray(np.maximum(rest[:n], until[width - 1 : width - 1 + n]))


def quick_length(least: int) -> int:
    """The smallest length from `least` (1 or more) on that has no prime factor above 5, which transforms fastest."""
    best = 1 << (least - 1).bit_length()
    fives = 1
    while fives < best:
        product = fives
        while product < best:
            # The power of two that makes it long enough.
            best = min(best, product << max(0, (-(-least // product) - 1).bit_length()))
            product *= 3
        fives *= 5
    return best


def _padded(values: NDArray[np.float64], before: int, after: int, beyond: Literal["edge", "symmetric"]) -> NDArray[np.float64]:
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(before, after)], mode=beyond)
