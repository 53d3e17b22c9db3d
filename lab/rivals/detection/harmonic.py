"""The harmonic product spectrum: the frequency that is strong together with its multiples.

Noll, "Pitch determination of human speech by the harmonic product spectrum, the harmonic sum spectrum, and a maximum likelihood
estimate", Symposium on Computer Processing in Communications, 1969.
"""

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.signal import detrend
from scipy.signal.windows import hann

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals
from lab.rivals.detection.series import laid, mean_step

#: Zeros appended, in lengths of the series: few epochs must not round the period to a whole part of the trace. By choice.
PADDING = 7


def detect(signals: Signals, clock: Clock, *, harmonics: int = 3) -> Detection:
    """Epochs as long as the period whose harmonics are strongest in one metric's spectrum.

    The metric is the only one given, else the first of `signals.PREFERENCE`, on as many evenly spaced samples as it has, less
    its linear trend, under a Hann window. The spectrum has no phase: boundaries are a period apart where the mean cycle rises
    most.

    The confidence is the share of the metric's variance that the mean cycle explains, not how probably it is an epoch.

    Args:
        signals: n samples.
        clock: the samples' positions.
        harmonics: multiples of the frequency in the product, the frequency itself included; 3 as in
            ../shared/research/detector.md, 3.

    Returns:
        Verdict `none` where nothing varies. `scores` holds the product, relative to its highest, as `candidate_quality` at the
        periods `candidate_period` [s of the clock], increasing, up to half the trace's length.

    Raises:
        InputError: harmonics out of bounds.
    """
    if not 1 <= harmonics <= 10:
        raise InputError(f"harmonics is {harmonics}: choose 1 to 10")
    series = univariate.even(signals, clock, signals.main())
    n = series.values.size
    padded = next_fast_len((PADDING + 1) * n, real=True)
    amplitude = np.abs(rfft(detrend(series.values) * hann(n, sym=False), padded))
    # From two cycles in the series up to the frequency whose highest harmonic the samples can still carry.
    bins = np.arange(int(np.ceil(2 * padded / n)), (amplitude.size - 1) // harmonics + 1)
    if not bins.size or not amplitude.max() > 1e-9 * np.abs(series.values).max() * n:
        return univariate.answer("harmonic", clock, np.empty(0))
    product = np.prod([amplitude[bins * multiple] / amplitude.max() for multiple in range(1, harmonics + 1)], axis=0)
    if not product.max() > 0:
        return univariate.answer("harmonic", clock, np.empty(0))
    periods = mean_step(series) * padded / bins
    scores = {"candidate_period": periods[::-1], "candidate_quality": product[::-1] / product.max()}
    boundaries, explained = laid(series, float(periods[np.argmax(product)]))
    return univariate.answer("harmonic", clock, boundaries, confidence=explained, scores=scores)
