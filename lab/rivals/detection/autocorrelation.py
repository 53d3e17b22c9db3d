"""The plainest search for a period: the highest peak of the autocorrelation after its first zero."""

import numpy as np
from scipy.signal import correlate, find_peaks

from epochcast.detector.clock import Clock
from epochcast.detector.epochs import Detection
from epochcast.detector.methods import univariate
from epochcast.detector.signals import Signals
from lab.rivals.detection.series import laid, mean_step


def detect(signals: Signals, clock: Clock) -> Detection:
    """Epochs as long as the lag at which one metric resembles itself most.

    The metric is the only one given, else the first of `signals.PREFERENCE`, on as many evenly spaced samples as it has. The
    autocorrelation is the usual biased one, divided by n at every lag, so that of equal multiples the shortest wins. It has no
    phase: boundaries are a period apart where the mean cycle rises most.

    The confidence is the share of the metric's variance that the mean cycle explains, not how probably it is an epoch.

    Args:
        signals: n samples.
        clock: the samples' positions.

    Returns:
        Verdict `none` without a peak up to half the trace's length. `scores` holds the autocorrelation up to there as
        `candidate_quality`, -1..1, at the lags `candidate_period` [s of the clock].
    """
    series = univariate.even(signals, clock, signals.main())
    centred = series.values - series.values.mean()
    power = float(centred @ centred)
    lags = centred.size // 2 + 1
    if not power > (1e-9 * np.abs(series.values).max()) ** 2 or lags < 3:
        return univariate.answer("autocorrelation", clock, np.empty(0))
    similarity = correlate(centred, centred, method="fft")[centred.size - 1 :][:lags] / power
    scores = {"candidate_period": mean_step(series) * np.arange(lags), "candidate_quality": similarity}
    below = similarity <= 0
    peaks = find_peaks(similarity)[0]
    peaks = peaks[peaks > np.argmax(below)] if below.any() else peaks[:0]
    if not peaks.size:
        return univariate.answer("autocorrelation", clock, np.empty(0), scores=scores)
    period = mean_step(series) * float(peaks[np.argmax(similarity[peaks])])
    boundaries, explained = laid(series, period)
    return univariate.answer("autocorrelation", clock, boundaries, confidence=explained, scores=scores)
