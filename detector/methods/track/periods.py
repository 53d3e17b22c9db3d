"""What searches for periods share: bins, the autocorrelation, the slow level, and which periods are the same."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import running_median

#: Blocks in the slow level. By choice.
LEVEL_BLOCKS = 5

#: Periods this close (logarithm) are the same candidate: 6 %, from ../shared/research/detector.md, 5.
SAME = 0.06


def pooled(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Mean, minimum and maximum over bins of `size` samples, stacked: (m, n) -> (3 m, n // size); as it is for size 1.

    The mean alone loses a gap of one sample in a bin of many.
    """
    if size == 1:
        return values
    m, n = values.shape
    bins = values[:, : n // size * size].reshape(m, n // size, size)
    return np.concatenate([bins.mean(axis=2), bins.min(axis=2), bins.max(axis=2)])


def autocorrelation(channels: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """Unbiased autocorrelation per channel, (c, n) -> (c, lags), lags 0 to lags - 1 < n; 0 for a channel that is constant."""
    n = channels.shape[1]
    centred = channels - channels.mean(axis=1, keepdims=True)
    size = 1 << (n + lags - 1).bit_length()
    spectrum = np.fft.rfft(centred, size, axis=1)
    raw = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, size, axis=1)[:, :lags]
    power = raw[:, :1] / n
    return np.asarray(raw / (n - np.arange(lags)) / np.where(power > 1e-12, power, np.inf))


def level(channels: NDArray[np.float64], block: int) -> NDArray[np.float64]:
    """Slow level of each channel: the median of five neighbouring block means, interpolated; (c, n) -> (c, n).

    Blocks of one period have equal means for any shape within it, and the median keeps a start or an end of the job
    from leaking into the periods next to it.
    """
    n = channels.shape[1]
    starts = np.arange(0, n, max(1, min(block, n)))
    if n - starts[-1] < block / 2 and starts.size > 1:
        starts = starts[:-1]
    stops = np.append(starts[1:], n)
    means = np.add.reduceat(channels, starts, axis=1) / (stops - starts)
    smooth = running_median(means, LEVEL_BLOCKS)
    centres, index = (starts + stops - 1) / 2, np.arange(n)
    return np.array([np.interp(index, centres, row) for row in smooth])


def same(period: float, other: float) -> bool:
    """Whether two periods are the same candidate: within 6 %."""
    return abs(float(np.log(period / other))) <= SAME


def vertex(curve: NDArray[np.float64], peak: int) -> float:
    """Abscissa of the parabola through a peak and its neighbours."""
    before, at, after = curve[peak - 1 : peak + 2]
    bend = before - 2 * at + after
    return peak + (0.5 * float((before - after) / bend) if bend < 0 else 0.0)
