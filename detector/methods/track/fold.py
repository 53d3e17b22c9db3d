"""The evidence for a period: do other cycles predict a cycle better than its own past does?

Readings are folded at a period; each is predicted by the mean of the other readings at its place in the cycle, from which it is
left out itself, so that a longer template pays for what it learns. The gain in log likelihood over a first-order
autoregression, which explains drift and random walks, is the evidence; it adds over cycles. Whether the cycle is a multiple of
the true one is asked of its residues: if one in k cycles differs, the others do not predict it, and the evidence from cycles
that differ modulo k is none. Formulas and ablations: ../shared/research/period_fold.md.
"""

import math

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.methods.track.template import boundary_phase

Array = NDArray[np.float64]

#: Cycles of a window, whose phase and template are its own: the shorter ones allow jitter, the longer ones let the evidence of
#: strict cycles grow. 12 alone is as good as three sizes (ablation); 40 is for cycles of few readings.
WINDOW, LONG_WINDOW = 12, 40

#: A period is folded at the finest scale at which it has at most so many samples. Source: as `WINDOW`.
MOST_SAMPLES = 16

#: Samples of all windows together, at most, spread over the trace: more cost time and settle nothing new. By choice.
MOST_FOLDED = 8_000

#: Detrended channels that are kept: those of a period and of its multiples follow each other. By choice: memory.
KEPT = 8

#: Samples in which a strict period is made exact, at most. By choice: to a quarter of a cycle in an hour at 10 Hz.
MOST_EXACT = 16_384

#: Distance of the periods that are tried (logarithm), fewest readings of one, and fewest cycles. Source: as `WINDOW`.
STEP, FEWEST_READINGS, FEWEST_CYCLES = 0.008, 3.0, 3.5

#: Variance that no prediction undercuts (of 1), and innovations that count in full, in standard deviations: quantised metrics
#: and single outliers. Source: as `WINDOW`.
FLOOR, OUTLIER = 0.01, 6.0

#: Bins in which a fold at a fraction of the period must be smoother, and by so much evidence, for the period to be a beat of
#: the readings. By choice; no answer on real traces has any, simulated steps of 1.7 to 2.5 readings have hundreds.
FEW_BINS, BEAT = 5, 30.0

#: Numbers of cycles that may be one: a longer cycle than 12 epochs was not seen. Source: as `WINDOW`.
MULTIPLES = tuple(range(2, 13))


class Folding:
    """Even samples at every scale (`samples` at the finest), and the evidence for periods in them."""

    def __init__(self, values: Array, mask: NDArray[np.bool_] | None = None) -> None:
        """Prepare the scales of (m, n) channels on an even grid, with (n,) readings; all were read without a mask."""
        self.samples = values.shape[1]
        seen = np.ones(self.samples) if mask is None else mask.astype(np.float64)
        self._levels = [(values * seen, seen)]
        while self._levels[-1][1].size >= 2 * MOST_SAMPLES:
            self._levels.append(_halved(*self._levels[-1]))
        self._sums = [_sums(*both) for both in self._levels]
        self._detrended: dict[tuple[int, int], Array] = {}
        self._evidence: dict[tuple[float, int, int], float] = {}

    def evidence(self, period: float, window: int = WINDOW, apart: int = 0) -> float:
        """Log likelihood ratio [nats], mean over channels, of a cycle against none; -inf for too few cycles.

        Args:
            period: samples.
            window: cycles of one.
            apart: predict a cycle only from those whose number differs modulo so many; 0: from all others.
        """
        key = (period, window, apart)
        if key not in self._evidence:
            self._evidence[key] = self._folded(*key)
        return self._evidence[key]

    def own(self, period: float, window: int = WINDOW) -> float:
        """The evidence that no multiple takes away: the least over `apart`, for multiples that have evidence themselves."""
        least = self.evidence(period, window)
        total = least
        for count in MULTIPLES:
            if least <= 0 or count * period > self.samples / 2:
                break
            # The multiple of an inexact period is looked for next to it; a twentieth of the evidence counts.
            if any(self.evidence(count * period * near) > 0.05 * total for near in (1.0, 0.985, 1.015)):
                least = min(least, self.evidence(period, window, count))
        return least

    def peaks(self) -> list[float]:
        """Periods with more evidence than their neighbours, the best first; with hardly less than none, for `refined`."""
        longest = self.samples / FEWEST_CYCLES
        if longest <= FEWEST_READINGS:
            return []
        periods = np.exp(np.arange(np.log(FEWEST_READINGS), np.log(longest), STEP))
        scores = np.array([self.evidence(float(period)) for period in periods])
        around = np.pad(scores, 1, constant_values=-np.inf)
        tops = np.flatnonzero((scores >= around[:-2]) & (scores >= around[2:]) & (scores > -1))
        return [float(period) for period in periods[tops[np.argsort(-scores[tops], kind="stable")]]]

    def refined(self, period: float) -> tuple[float, int]:
        """The period near this one, and the window, for which there is most evidence."""
        near = period * np.exp(np.arange(-8, 9) * 0.003)  # 17 of 40 cycles: a tenth of a cycle apart at a window's ends
        scores = [(self.evidence(period), period, WINDOW)]
        if 2 * WINDOW * period < self.samples:
            scores += [(self.evidence(float(each), LONG_WINDOW), float(each), LONG_WINDOW) for each in near]
        return max(scores)[1:]

    def is_beat(self, period: float) -> bool:
        """Whether a period is a beat of the readings with a cycle too short to be seen: smoother at a fraction of it.

        Read at even times, a short cycle shows the same values again after some of its cycles, in another order: folded at
        its own length, they make a smooth course, which few bins predict better.
        """
        if period > 2 * MOST_SAMPLES:  # folded at a scale where nothing so short is left
            return False
        shorter = [period / count for count in range(2, int(period) + 1)]
        # A harmonic, too, may come back at a multiple of the reading rate plus or minus the period's.
        shorter += [order / (turns + side / period) for order in (2, 3) for turns in (1, 2) for side in (-1, 1)]
        scores = [self._folded(each, LONG_WINDOW, 0, FEW_BINS) for each in shorter if 1.05 < each < FEWEST_READINGS]
        return max(scores, default=0.0) > BEAT + max(0.0, self._folded(period, LONG_WINDOW, 0, FEW_BINS))

    def without(self, period: float) -> tuple["Folding", int]:
        """What is left when a cycle [samples] is taken away, at a scale that shows its quarters, and samples per its sample."""
        level = self._level(period / 4)
        rest, template, seen = self._predicted(level, period, WINDOW, 0, 0, self.samples)
        rest -= _shrink(rest, template)[:, None, None] * template
        return Folding(rest.reshape(len(rest), -1), seen.ravel() > 0), 2**level

    def _folded(self, period: float, window: int, apart: int, bins: int = 0) -> float:
        if self.samples < 2 * period:
            return -np.inf
        level = 0 if bins else self._level(period)
        return float(_gain(*self._predicted(level, period, window, apart, bins, MOST_FOLDED)).mean())

    def _level(self, period: float) -> int:
        """The finest scale at which a period [samples] has no more than `MOST_SAMPLES`."""
        return min(max(0, math.ceil(math.log2(period / MOST_SAMPLES))), len(self._levels) - 1)

    def _predicted(
        self, level: int, period: float, window: int, apart: int, bins: int, most: int
    ) -> tuple[Array, Array, Array]:
        """Samples in windows and what the others say of each, (m, w, n) twice, and which of them were read, (w, n).

        Args:
            level: of the scale.
            period: samples of the finest scale.
            window: cycles of one.
            apart: see `evidence`.
            bins: of a period; 0: one for each sample.
            most: samples of all windows together, about.
        """
        length = period / 2**level
        values, seen = self._without_trend(level, max(length, FEWEST_READINGS)), self._levels[level][1]
        windows = max(1, round(seen.size / max(window * length, 2 * window)))
        size = seen.size // windows
        if windows * size > most:
            windows = max(1, most // size)
            kept = (np.linspace(0, seen.size - size, windows).astype(int)[:, None] + np.arange(size)).ravel()
            values, seen = np.take(values, kept, axis=1), seen[kept]
        values = values[:, : windows * size].reshape(-1, windows, size)
        seen = seen[: windows * size].reshape(windows, size)
        # In place and by `take`, whose rows stay together in memory, here and below: half of the time is memory's.
        values = values - (values.sum(axis=2) / np.maximum(seen.sum(axis=1), 1))[:, :, None]
        values *= seen
        turns = np.arange(size) / length
        cycle, bins = turns.astype(int), bins or int(np.ceil(length))
        place = np.minimum((turns - cycle) * bins, bins - 1).astype(int)
        members = np.eye(bins)[place]
        sums, counts = np.take(values @ members, place, axis=2), np.take(seen @ members, place, axis=1)
        if apart:
            group = place * apart + cycle % apart
            members = np.eye(bins * apart)[group]
            sums -= np.take(values @ members, group, axis=2)
            counts -= np.take(seen @ members, group, axis=1)
        else:
            sums -= values
            counts -= seen
        sums *= seen / np.maximum(counts, 1)
        return values, sums, seen

    def _without_trend(self, level: int, length: float) -> Array:
        """Channels less their mean over three periods, of variance 1 over a window; those of about a period are the same.

        A part of setup, or of another load, must not drown the others.
        """
        width = round(3 * length * 2 ** (round(np.log2(length) * 16) / 16 - np.log2(length))) | 1
        if (level, width) not in self._detrended:
            if len(self._detrended) >= KEPT:
                self._detrended.clear()
            values, seen = self._levels[level]
            rest = (values - _running_mean(self._sums[level], width)) * seen
            spread = np.sqrt(np.einsum("mn,mn->m", rest, rest) / max(1.0, seen.sum()))
            rest /= np.where(spread > 1e-9, spread, np.inf)[:, None]
            rest /= np.sqrt(_running_mean(_sums(rest**2, seen), WINDOW * width // 3) + FLOOR)
            self._detrended[level, width] = rest
        return self._detrended[level, width]


def stretched(values: Array, boundaries: Array, samples: int) -> tuple[Folding, float]:
    """Cycles of uneven length in (m, n) channels, each stretched to at most so many samples, and to how many: the period there.

    One cycle of the median length is added at either end of the (k,) increasing boundaries [samples], as far as there are any.
    """
    lengths = np.diff(boundaries)
    usual = float(np.median(lengths))
    bins = int(np.clip(samples, 3, MOST_SAMPLES))
    edges = np.concatenate([[boundaries[0] - usual], boundaries, [boundaries[-1] + usual]])
    starts = edges[:-1, None] + np.diff(edges)[:, None] * np.arange(bins) / bins
    at = np.append(starts.ravel(), edges[-1]) + 0.5
    n = values.shape[1]
    seen = (at[:-1] >= -0.5) & (at[1:] <= n + 0.5)
    sums = np.array([np.interp(at, np.arange(n + 1), np.concatenate([[0.0], np.cumsum(row)])) for row in values])
    widths = np.maximum(np.diff(at.clip(0, n)), 1e-9)
    return Folding(np.diff(sums, axis=1) / widths * seen, seen), float(bins)


def exact_period(values: Array, period: float) -> float:
    """A strict period [samples], known to a per cent, made exact by its first two harmonics in ever longer parts of (m, n)."""
    n = min(values.shape[1], MOST_EXACT)
    size = min(n, int(32 * period))
    while True:
        part = values[:, (values.shape[1] - size) // 2 : (values.shape[1] + size) // 2]
        near = 1 / period + np.arange(-16, 17) / (16 * size)
        waves = np.exp(-2j * np.pi * np.outer(np.arange(part.shape[1]), near))
        power = sum((np.abs(part @ each) ** 2).sum(axis=0) for each in (waves, waves**2))
        period = 1 / float(near[int(np.argmax(power))])
        if size == n:
            return period
        size = min(n, 2 * size)


def even_boundaries(values: Array, period: float) -> Array:
    """Boundaries [samples], (k,), of a strict cycle, known to a per cent: where it begins in its mean, as far as (m, n) go."""
    period = exact_period(values, period)
    place = (np.arange(values.shape[1]) / period % 1 * MOST_SAMPLES).astype(int)
    members = np.eye(MOST_SAMPLES)[place]
    mean = values @ members / np.maximum(members.sum(axis=0), 1)
    begin = boundary_phase(mean) / MOST_SAMPLES * period
    return np.asarray(begin + period * np.arange(int((values.shape[1] - 1 - begin) / period) + 1))


def _gain(values: Array, template: Array, seen: Array) -> Array:
    """By how much the template raises the log likelihood of each channel over an autoregression; (m, w, n), (w, n) -> (m,)."""
    pairs = seen[:, 1:] * seen[:, :-1]
    many = max(1.0, float(pairs.sum()))
    template *= -_shrink(values, template)[:, None, None]
    template += values
    both = np.stack([values, template])
    after, before = both[..., 1:] * pairs, both[..., :-1] * pairs
    before *= (_sum(after, before) / np.maximum(_sum(before, before), 1e-12))[..., None, None]
    after -= before
    squares = np.square(after, out=after)
    most = OUTLIER**2 * squares[0].sum(axis=(1, 2), keepdims=True) / many
    without, with_it = np.minimum(squares, most, out=squares).sum(axis=(2, 3))
    before, after = without / many + FLOOR, with_it / many + FLOOR
    gain = many * np.log(before / after) / 2 + without / (2 * before) - with_it / (2 * after)
    return np.asarray(np.where(most[:, 0, 0] > 0, gain - np.log(max(2.0, many)) / 2, 0.0))


def _shrink(values: Array, template: Array) -> Array:
    """How much of a template, 0..1, is left in the samples of each channel; (m, w, n) twice -> (m,)."""
    return np.minimum(1.0, np.maximum(0.0, _sum(values, template) / np.maximum(_sum(template, template), 1e-12)))


def _sum(one: Array, other: Array) -> Array:
    """Of the products of each channel; (..., w, n) twice -> (...)."""
    return np.asarray(np.einsum("...wn,...wn->...", one, other))


def _halved(values: Array, seen: Array) -> tuple[Array, Array]:
    """Every second sample of values smoothed by the binomial filter of five, and whether most of its weight was seen."""
    n = seen.size
    wide, mask = np.pad(values, ((0, 0), (2, 2))), np.pad(seen, 2)
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    sums = sum(weight * wide[:, at : at + n] for at, weight in enumerate(weights))[:, ::2]  # type: ignore[index]
    total = sum(weight * mask[at : at + n] for at, weight in enumerate(weights))[::2]  # type: ignore[index]
    kept = (total > 0.5).astype(np.float64)
    return sums / np.maximum(total, 1e-9) * kept, kept


def _sums(values: Array, seen: Array) -> Array:
    """Sums of (m, n) values, and of (n,) readings, before each place: (m + 1, n + 1)."""
    return np.cumsum(np.pad(np.vstack([values, seen]), ((0, 0), (1, 0))), axis=1)


def _running_mean(sums: Array, width: int) -> Array:
    """Mean of what was seen within half a width on either side, from the sums up to each sample; the last row counts."""
    at = np.arange(sums.shape[1] - 1)
    total = np.take(sums, np.minimum(at + width // 2 + 1, at.size), axis=1)
    total -= np.take(sums, np.maximum(at - width // 2, 0), axis=1)
    return np.asarray(total[:-1] / np.maximum(total[-1], 1))
