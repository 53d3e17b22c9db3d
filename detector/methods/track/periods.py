"""Candidate periods: peaks of the autocorrelation at every scale, and the harmonic product of the spectrum."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import best_third, prominent_peaks, quick_length, running_mean, running_median

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. "Research notes": the tracker in
# ../shared/research/detector.md, 4, tuned there on simulated traces. What all find together is measured by
# lab/speed/detector/comparison.py; calibrate.py fits the confidence to it.

#: At every scale the period is looked for where it has 20 to 96 bins; at the finest from 8 samples. Research notes; they end at
#: 48, 96 is by choice.
FEWEST_BINS, MOST_BINS, FINEST_BINS = 20, 96, 8

#: Share of the samples that rare events take at most. By choice.
RARE = 0.03

#: Blocks in the slow level. By choice.
LEVEL_BLOCKS = 5

#: Harmonics of a period that are multiplied. Research notes, 3.
HARMONICS = 3

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
    size = quick_length(n + lags)
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


def candidates(values: NDArray[np.float64], most: int = 6) -> list[float]:
    """The most promising distinct periods [samples], the best first; last the harmonic product's, and those of rare events.

    Args:
        values: (m, n) normalised channels on an even grid.
        most: how many periods to take from the autocorrelation.
    """
    scored: list[tuple[float, float]] = []
    size = 1
    while (n := values.shape[1] // size) >= 2 * FEWEST_BINS:
        channels = pooled(values, size)
        scored += _at_scale(channels, size)
        if n >= 4 * FEWEST_BINS:  # what came before the training, or after it, may drown the cycle
            for part in (channels[:, : n // 2], channels[:, n // 2 :]):
                scored += _at_scale(part, size)
        size *= 2
    distinct: list[float] = []
    for period, _ in sorted(scored, key=lambda each: -each[1]):
        if is_new(period, distinct):
            distinct.append(period)
        if len(distinct) == most:
            break
    harmonic = harmonic_product_period(values)
    for period in [*([harmonic] if harmonic else []), *event_periods(values)]:
        if is_new(period, distinct):
            distinct.append(period)
    return distinct


def same(period: float, other: float) -> bool:
    """Whether two periods are the same candidate: within 6 %."""
    return abs(float(np.log(period / other))) <= SAME


def is_new(period: float, others: Iterable[float], near: float = SAME) -> bool:
    """Whether a period is none of the others, to a logarithm of `near`."""
    return not any(abs(float(np.log(period / other))) <= near for other in others)


def event_periods(values: NDArray[np.float64]) -> list[float]:
    """Median distances, in samples, of the rare events (bytes written at a checkpoint) of each channel that has some.

    Three events hardly show in an autocorrelation that is fused from many channels.
    """
    periods = []
    for row in values:
        high = row > 0.5 * row.max()  # by choice: half of the largest
        if np.count_nonzero(high) > RARE * row.size:
            continue
        samples = np.flatnonzero(high)
        onsets = samples[np.diff(samples, prepend=-np.inf) > FINEST_BINS]
        if onsets.size >= 3:
            periods.append(float(np.median(np.diff(onsets))))
    return periods


def _at_scale(channels: NDArray[np.float64], size: int) -> list[tuple[float, float]]:
    """Periods [samples of the grid] in bins of so many samples, each with how promising it is."""
    n = channels.shape[1]
    longest = min(MOST_BINS, n // 2)
    trend = level(channels, MOST_BINS)
    lags = min(6 * MOST_BINS + 1, int(0.85 * n))  # six multiples: research notes; 0.85 by choice: beyond, a few samples decide
    fused = best_third(autocorrelation(channels - trend, lags))
    shortest = FINEST_BINS if size == 1 else FEWEST_BINS
    # Research notes: the least prominence (its part for few bins by choice), the score below and its constants.
    peaks = prominent_peaks(fused[: min(longest + 2, lags)], max(0.04, 1 / np.sqrt(n)))
    candidates = []
    for peak in peaks[(peaks >= shortest) & (peaks <= longest)]:
        lag = vertex(fused, int(peak))
        multiples = np.rint(lag * np.arange(1, 7)).astype(int)
        multiples = multiples[multiples < lags]
        depth = fused[peak] - fused[max(1, peak // 4) : peak + 1].min()
        score = 0.5 * fused[multiples].mean() + 0.5 * depth
        score *= 1 - np.exp(-(n / lag - 0.6) / 1.2)
        score *= 1 + 0.06 * np.log2(lag * size / FINEST_BINS)
        fractions = np.rint(lag / np.arange(2, 7)).astype(int)
        if any(abs(q - p) <= 1 and fused[p] >= 0.75 * fused[peak] for q in fractions for p in peaks if q >= 3):
            score *= 0.6  # a shorter period explains it
        candidates.append((lag * size, float(score)))
    return candidates


def vertex(curve: NDArray[np.float64], peak: int) -> float:
    """Abscissa of the parabola through a peak and its neighbours."""
    before, at, after = curve[peak - 1 : peak + 2]
    bend = before - 2 * at + after
    return peak + (0.5 * float((before - after) / bend) if bend < 0 else 0.0)


def harmonic_product_period(values: NDArray[np.float64]) -> float | None:
    """Period, in samples, whose first harmonics together hold the most power, of (m, n) channels; None if they are too short.

    The harmonic product spectrum (Schroeder 1968).
    """
    n = values.shape[1]
    size = quick_length(2 * n)
    trend = running_mean(values, max(3, n // 2))
    spectrum = np.fft.rfft((values - trend) * np.hanning(n), size, axis=1)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
    low, high = -(-2 * size // n), size // FINEST_BINS
    if high <= low or HARMONICS * high >= power.size:
        high = (power.size - 1) // HARMONICS
    if high <= low:
        return None
    base = np.arange(low, high)
    product = np.log(power[base] + 1e-12)
    for harmonic in range(2, HARMONICS + 1):
        product += np.log(power[base * harmonic] + 1e-12)
    return float(size / base[int(np.argmax(product))])
