"""Luminol's anomaly scores, vectorised: the same numbers as the `luminol` package, without its loops.

The package (LinkedIn, version 0.4) is what the paper's section III-B names. Its `bitmap_detector` compares how often pairs of
symbols occur in the window before and in the window after each sample (Wei et al., "Assumption-Free Anomaly Detection in Time
Series", SSDBM 2005). Below 2000 samples the package silently swaps in its `default_detector`, an exponential moving average
and a derivative; so does `scores`. Unlike the paper's text the package neither averages samples within a symbol nor scales
the counts to 0..1, and it is the package that is reproduced here.

Left out on purpose: its integer timestamps (they merge the samples of one second; here a sample's time is its index), missing
values (refused here, there they make every score 0 or NaN) and more than 10 symbols (its text symbols then run together).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import lfilter

from .errors import InputError

# The package's own constants, luminol/constants.py.
WINDOW_SHARE = 0.2 / 16
MINIMAL_POINTS_IN_WINDOWS = 50
MAXIMAL_POINTS_IN_WINDOWS = 200
NOISE_SHARE = 0.001
SMOOTHING_FACTOR = 0.2
EMA_WEIGHT = 0.65
EMA_SIGNIFICANT = 0.94


def scores(
    values: ArrayLike,
    *,
    precision: int = 4,
    chunk_size: int = 2,
    lag_window: int | None = None,
    future_window: int | None = None,
) -> NDArray[np.float64]:
    """Anomaly score of every sample, as `luminol.anomaly_detector.AnomalyDetector(...).get_all_scores()` gives it.

    Args:
        values: (n,) finite values, n >= 2.
        precision: number of symbols, 1..10.
        chunk_size: symbols per chunk.
        lag_window, future_window: samples before and after; by default n/80 each. Longer ones than 200 are cut to 200.

    Returns:
        (n,) scores >= 0 (constant series of few samples may give rounding noise below 0, as there), by the bitmap algorithm if
        both windows fit into the series and hold 50 samples together (by default: n >= 2000), else by the default algorithm.

    Raises:
        InputError: fewer than 2 samples, values that are not finite or span more than floating point does, precision or
            chunk_size out of bounds.
    """
    series = np.ascontiguousarray(values, dtype=np.float64)
    if series.ndim != 1 or series.size < 2:
        raise InputError(f"Luminol needs a series of at least 2 samples, got shape {series.shape}")
    if not np.isfinite(series).all():
        bad = int(np.argmax(~np.isfinite(series)))
        raise InputError(f"Luminol needs finite values, sample {bad} is {series[bad]}: fill or drop it first")
    if not 1 <= precision <= 10:
        raise InputError(f"precision is {precision}: choose 1 to 10 symbols")
    lag = lag_window or int(series.size * WINDOW_SHARE)
    future = future_window or int(series.size * WINDOW_SHARE)
    if not lag or not future or not MINIMAL_POINTS_IN_WINDOWS <= lag + future <= series.size:
        return _default_scores(series)
    lag, future = min(lag, MAXIMAL_POINTS_IN_WINDOWS), min(future, MAXIMAL_POINTS_IN_WINDOWS)
    if not 1 <= chunk_size <= min(lag, future):
        raise InputError(f"chunk_size is {chunk_size}: choose 1 to {min(lag, future)}, the shorter window")
    return _bitmap_scores(series, precision, chunk_size, lag, future)


def _bitmap_scores(series: NDArray[np.float64], precision: int, chunk_size: int, lag: int, future: int) -> NDArray[np.float64]:
    """Squared distance between the chunk counts of the two windows around each sample; 0 where a window does not fit."""
    low, high = float(series.min()), float(series.max())
    height = (high - low) / precision  # Python floats: beyond their range this is inf, without a warning
    if not np.isfinite(height):
        raise InputError(f"the values span {low} to {high}, beyond floating point: scale them down")
    symbols = np.searchsorted(low + np.arange(precision) * height, series, side="right") - 1
    chunks = symbols[: series.size - chunk_size + 1].copy()
    for offset in range(1, chunk_size):
        chunks = chunks * precision + symbols[offset : offset + chunks.size]
    first, last = lag, series.size - future
    distance = np.zeros(last - first + 1, dtype=np.int64)
    total = np.zeros(chunks.size + 1, dtype=np.int64)
    for chunk in np.unique(chunks):
        np.cumsum(chunks == chunk, out=total[1:])
        # A window of w samples from i holds the w - chunk_size + 1 chunks that start at i and later.
        before = total[first - chunk_size + 1 : last - chunk_size + 2] - total[first - lag : last - lag + 1]
        after = total[first + future - chunk_size + 1 : last + future - chunk_size + 2] - total[first : last + 1]
        difference = after - before
        distance += difference * difference
    result = np.zeros(series.size)
    result[first : last + 1] = distance
    return _denoised(result)


def _default_scores(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Deviation from the exponential moving average, mixed with that of the derivative where it is significant."""
    deviation = series - _moving_average(series)
    spread = np.std(series)
    level = _denoised(np.abs(deviation / spread) if spread else deviation)

    derivative = np.abs(np.diff(series))
    derivative = np.concatenate([derivative[:1], derivative])
    change = np.abs(derivative - _moving_average(derivative))
    spread = np.std(change)
    change = _denoised(change / spread if spread else change)

    mixed = np.maximum(level, level * EMA_WEIGHT + change * (1 - EMA_WEIGHT))
    return _denoised(np.where(level > EMA_SIGNIFICANT, np.maximum(mixed, change), mixed))


def _moving_average(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Exponential moving average that starts at the first value and rounds as the package's loop does."""
    decay = 1 - SMOOTHING_FACTOR
    rest, _ = lfilter([SMOOTHING_FACTOR], [1.0, -decay], values[1:], zi=[decay * values[0]])
    return np.concatenate([values[:1], rest])


def _denoised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = values.max()
    return np.where(values < NOISE_SHARE * largest, 0.0, values) if largest else values
