"""A cheap look at whether searching is worth its cost: which cycles fit a few times into the job?"""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import best_third, prominent_peaks, running_mean
from epochcast.detector.methods.track.periods import autocorrelation

Array = NDArray[np.float64]

#: Bins that the job is looked at in: enough for the longest cycles, which are the ones that shorter looks could not have seen.
BINS = 384

#: A long cycle fits so many times into the job: what fits more often was seen before. It shows so much in the autocorrelation,
#: and so much more than shorter ones.
FEWEST, MOST, HEIGHT, AHEAD = 3.0, 12.0, 0.15, 1.05


def cycles(bins: NDArray[np.float32]) -> Array:
    """Cycles of a twelfth to a third of the length, in bins, that are no multiples of shorter ones; of multiples the shortest.

    Args:
        bins: (3, m, n) mean, minimum and maximum of metrics.
    """
    channels = np.nan_to_num(bins.reshape(-1, bins.shape[2]).astype(np.float64))
    n = channels.shape[1]
    low, high = np.percentile(channels, [2, 98], axis=1)  # outliers, by choice
    channels = np.clip(channels, low[:, None], high[:, None])
    channels = channels - running_mean(channels, n // 2)
    fused = best_third(autocorrelation(channels, int(n / FEWEST) + 2))
    height = max(HEIGHT, 2 / np.sqrt(n))
    peaks = prominent_peaks(fused, height)
    periods: list[float] = []
    best = 0.0
    for peak in peaks[fused[peaks] >= height]:
        if fused[peak] > AHEAD * best:
            best = fused[peak]
            if peak >= n / MOST:
                periods.append(float(peak))
    return np.array(periods)
