"""Luminol's anomaly scores, vectorised: the same numbers as the `luminol` package, without its loops.

The package (LinkedIn, version 0.4) is what the paper's section III-B names. Its `bitmap_detector` compares how often pairs of
symbols occur in the window before and in the window after each sample (Wei et al., "Assumption-Free Anomaly Detection in Time
Series", SSDBM 2005). Below 2000 samples the package silently swaps in its `default_detector`, an exponential moving average
and a derivative; so does `scores`. Unlike the paper's text the package neither averages samples within a symbol nor scales
the counts to 0..1, and it is the package that is reproduced here.

What the package does with odd input, where it is not the same here (a constant series scores 0, or rounding noise below 0 with
fewer than 2000 samples; one spike spreads the symbols over it: clip before):

==========================================  ===============================================================================
package                                     here
==========================================  ===============================================================================
timestamps pass `int()`: at 10 Hz ten       sample i is at second i
samples become one, silently
one NaN makes all scores 0 or NaN           refused
None is dropped, the scores become fewer    refused: drop the sample before
an empty series or one sample: TypeError    refused
or IndexError
anomalies next to scores, of which one at    not given, only scores
second 0 begins at 1
no longer runs on NumPy >= 1.23             does
==========================================  ===============================================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector.errors import InputError
from epochcast.extras import how_to_install

# The package's own constants, luminol/constants.py.
#: Symbols; chunks of them are pairs.
PRECISION = 4
WINDOW_SHARE = 0.2 / 16
MINIMAL_POINTS_IN_WINDOWS = 50
MAXIMAL_POINTS_IN_WINDOWS = 200
NOISE_SHARE = 0.001
SMOOTHING_FACTOR = 0.2
EMA_WEIGHT = 0.65
EMA_SIGNIFICANT = 0.94


def scores(values: ArrayLike) -> NDArray[np.float64]:
    """Anomaly score of every sample, as `luminol.anomaly_detector.AnomalyDetector(...).get_all_scores()` gives it by default.

    Args:
        values: (n,) finite values, n >= 2.

    Returns:
        (n,) scores >= 0 (constant series of few samples may give rounding noise below 0, as there), by the bitmap algorithm
        for n >= 2000, else by the default algorithm.

    Raises:
        InputError: fewer than 2 samples, values that are no numbers, not finite or span more than floating point does.
    """
    try:
        series = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Luminol needs numbers ({error}): give floats, one per sample") from error
    if series.ndim != 1 or series.size < 2:
        raise InputError(f"Luminol needs a series of at least 2 samples, got shape {series.shape}")
    if not np.isfinite(series).all():
        bad = int(np.argmax(~np.isfinite(series)))
        raise InputError(f"Luminol needs finite values, sample {bad} is {series[bad]}: fill or drop it first")
    window = int(series.size * WINDOW_SHARE)
    if 2 * window < MINIMAL_POINTS_IN_WINDOWS:
        return _default_scores(series)
    return _bitmap_scores(series, min(window, MAXIMAL_POINTS_IN_WINDOWS))


def package_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Anomaly scores by the package itself, with its defaults, one second per sample: what `scores` is held against.

    Not safe among threads: NumPy is patched during the call.

    Args:
        values: (n,) finite values, n >= 2.

    Raises:
        InputError: the package is not installed.
    """
    try:
        from luminol.anomaly_detector import AnomalyDetector
    except ImportError as error:
        raise InputError(f"this implementation needs the package luminol; {how_to_install('paper')}") from error
    with _numpy_asscalar():
        detector = AnomalyDetector(dict(enumerate(values.tolist())), score_only=True)
    return np.array(detector.get_all_scores().values)


def _bitmap_scores(series: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Squared distance between the chunk counts of the two windows around each sample; 0 where a window does not fit."""
    low, high = float(series.min()), float(series.max())
    height = (high - low) / PRECISION  # Python floats: beyond their range this is inf, without a warning
    if not np.isfinite(height):
        raise InputError(f"the values span {low} to {high}, beyond floating point: scale them down")
    symbols = np.searchsorted(low + np.arange(PRECISION) * height, series, side="right") - 1
    chunks = symbols[:-1] * PRECISION + symbols[1:]
    first, last = window, series.size - window
    # A window holds at most 200 chunks and a series less than 2**31: 32 bits are enough, and twice as fast as 64.
    distance = np.zeros(last - first + 1, dtype=np.int32)
    total = np.zeros(chunks.size + 1, dtype=np.int32)
    for chunk in np.unique(chunks):
        np.cumsum(chunks == chunk, dtype=np.int32, out=total[1:])
        # A window of w samples from i holds the w - 1 chunks that start at i and later.
        before = total[first - 1 : last] - total[first - window : last - window + 1]
        after = total[first + window - 1 : last + window] - total[first : last + 1]
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
    from scipy.signal import lfilter  # as in `paper`

    decay = 1 - SMOOTHING_FACTOR
    rest, _ = lfilter([SMOOTHING_FACTOR], [1.0, -decay], values[1:], zi=[decay * values[0]])
    return np.concatenate([values[:1], rest])


def _denoised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    largest = values.max()
    return np.where(values < NOISE_SHARE * largest, 0.0, values) if largest else values


@contextmanager
def _numpy_asscalar() -> Iterator[None]:
    """Lend the package the `numpy.asscalar` that it still calls and NumPy 1.23 removed."""
    if hasattr(np, "asscalar"):
        yield
        return
    np.asscalar = lambda array: array.item()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del np.asscalar  # type: ignore[attr-defined]
