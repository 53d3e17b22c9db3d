"""The past of a stream in bounded memory: the last minutes sample by sample, the hours before in ever wider bins."""

import numpy as np
from numpy.typing import NDArray

# By choice; eight GPUs then take 8 MB (lab/speed/detector/streaming.py).

#: Bins of a level per bin of the next coarser one; also the samples that are taken in at a time.
FACTOR = 8

#: Levels of bins; all take the same memory. At 10 Hz they reach back 20 min in samples, then 55 min, 7 h and 58 h.
LEVELS, BINS = 4, 4096

#: The rows of a bin. The mean alone would lose a gap of one sample in a bin of many.
STATISTICS = ("mean", "min", "max")


class Pyramid:
    """Rings of bins, FACTOR times wider from level to level; level 0 holds the samples themselves.

    Attributes:
        count: samples taken in so far; sample i of the stream's even grid is bin i // FACTOR**level of a level.
    """

    def __init__(self, metrics: int) -> None:
        self.count = 0
        self._rings = [np.full((1, metrics, len(STATISTICS) * BINS), np.nan, dtype=np.float32)]
        self._rings += [np.full((len(STATISTICS), metrics, BINS), np.nan, dtype=np.float32) for _ in range(1, LEVELS)]

    @property
    def nbytes(self) -> int:
        """Bytes of all rings."""
        return sum(ring.nbytes for ring in self._rings)

    def append(self, block: NDArray[np.float64]) -> None:
        """Take in the next FACTOR samples, (metrics, FACTOR)."""
        place = self.count % self._rings[0].shape[2]
        self._rings[0][0, :, place : place + FACTOR] = block
        self.count += FACTOR
        below, filled = self._rings[0], self.count
        for ring in self._rings[1:]:
            if filled % FACTOR:
                break
            last = (filled - FACTOR) % below.shape[2]
            bins = below[:, :, last : last + FACTOR]
            filled //= FACTOR
            place = (filled - 1) % BINS
            ring[0, :, place] = bins[0].mean(axis=1)
            ring[1, :, place] = bins[min(1, bins.shape[0] - 1)].min(axis=1)
            ring[2, :, place] = bins[-1].max(axis=1)
            below = ring

    def first(self, level: int) -> int:
        """The oldest sample that a level still holds."""
        width = int(FACTOR**level)
        return max(0, self.count // width - self._rings[level].shape[2]) * width

    def finest(self, since: int) -> int:
        """The finest level that still holds sample `since`; the coarsest if none does."""
        for level in range(LEVELS - 1):
            if self.first(level) <= since:
                return level
        return LEVELS - 1

    def window(self, level: int, since: int) -> tuple[int, NDArray[np.float32]]:
        """What a level holds from sample `since` on.

        Returns:
            The first sample of the first bin, and the bins, (statistics, metrics, n): all of STATISTICS, or at level 0 the
            samples alone, (1, metrics, n).
        """
        width, ring = FACTOR**level, self._rings[level]
        filled = self.count // width
        first = min(max(-(-since // width), self.first(level) // width), filled)
        start, size = first % ring.shape[2], filled - first
        bins = np.concatenate([ring[:, :, start : start + size], ring[:, :, : max(0, start + size - ring.shape[2])]], axis=2)
        return first * width, bins


def pooled(bins: NDArray[np.float32], size: int) -> NDArray[np.float32]:
    """Bins merged by `size`: (1 or 3, m, n) -> (3, m, n // size), the mean of means, the minimum of minima and so on."""
    _, m, n = bins.shape
    parts = bins[:, :, : n // size * size].reshape(bins.shape[0], m, n // size, size)
    return np.stack([parts[0].mean(axis=2), parts[min(1, len(parts) - 1)].min(axis=2), parts[-1].max(axis=2)])
