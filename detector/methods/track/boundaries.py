"""Follow one candidate period through the trace: template, matches, boundaries, and how well it all fits."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import running_max
from epochcast.detector.methods.track.periods import autocorrelation, level, pooled
from epochcast.detector.methods.track.template import Matching, boundary_phase, median_window, seeds, windows

#: Bins per period in tracking, channels kept, rounds of template and matches. Research notes; 16 by choice.
BINS, CHANNELS, ROUNDS = 96, 16, 3

#: First templates tried on a trace of at most so many bins; a longer one has many cycles, and any of them will do. By choice.
SEEDS, SHORT = 3, 4000

#: Template around a boundary, in periods. Research notes.
BEFORE, AFTER = 0.45, 0.20

#: Intervals between boundaries, in periods. Research notes.
SHORTEST, LONGEST = 0.55, 2.3

#: Lengths this close to their median, or within so many samples of it, are averaged. By choice.
CLOSE, CLOSE_SAMPLES = 0.03, 2

#: Both ends of a length are quantised; with some noise it may be off by so many quanta. By choice.
QUANTA = 1.5

#: A boundary at the chain's end that matches less than this share of a good one (the upper quartile) is not one. By choice.
WEAK = 0.65

#: The part between an end of the stretch and the boundary next to it, in periods. Decision 0004: without such ends traces of
#: three epochs got no answer.
EDGE_SHORTEST, EDGE_LONGEST = 0.75, 1.5

#: Intervals this close to their median are even; matches this close to a boundary (in periods) belong to it. Evenness: research
#: notes; `NEAR` by choice.
EVEN, NEAR = 0.15, 0.15

#: Fewest intervals on either side of a change of the period, and most places where it is looked for. By choice.
FEWEST, PLACES = 3, 64


@dataclass(frozen=True)
class Track:
    """One candidate period, followed.

    Attributes:
        size: samples of the grid per bin.
        boundaries: (k,) bins, increasing, k >= 2.
        similarity: (bins,) match of the template with a boundary at every bin, 0 where it does not fit.
        channels: (c,) rows of the pooled values that take part.
        weights: (c,) of the channels, sum 1.
        template: (c, w) median surroundings of a boundary.
        before: bins of the template before the boundary.
        period: bins, see `typical`.
        quality: 0..1, how well it all fits.
        intervals: how many there are.
    """

    size: int
    boundaries: NDArray[np.int64]
    similarity: NDArray[np.float64]
    channels: NDArray[np.int64]
    weights: NDArray[np.float64]
    template: NDArray[np.float64]
    before: int
    period: float
    quality: float
    intervals: int

    @property
    def samples(self) -> float:
        """The period in samples of the grid."""
        return self.period * self.size

    @property
    def match(self) -> NDArray[np.float64]:
        """(k,) similarity at the boundaries."""
        return self.similarity[self.boundaries]

    def rows(self, metrics: int) -> NDArray[np.int64]:
        """Rows of the grid, which has so many, that take part."""
        return np.unique(self.channels % metrics)


def follow(values: NDArray[np.float64], period: float) -> Track | None:
    """Track boundaries one `period` (in samples of the grid) apart; None if there are not even two.

    Args:
        values: (m, n) normalised channels.
        period: samples.
    """
    size = max(1, round(period / BINS))
    channels = pooled(values, size)
    length = period / size
    if channels.shape[1] < 2 * length or length < 6:
        return None
    # Drift (temperature, memory) looks alike wherever it is cut out.
    channels = channels - level(channels, round(length))
    kept, weights = _weights(channels, length)
    if not kept.size:
        return None
    matching = Matching(channels[kept] * np.sqrt(weights)[:, None])

    width = round(length)
    most = SEEDS if channels.shape[1] <= SHORT else 1
    tracks = [
        track
        for first in seeds(matching, width, most)
        if (track := _from_seed(matching, first, length, size, kept, weights)) is not None
    ]
    return max(tracks, key=lambda track: track.quality, default=None)


def _from_seed(
    matching: Matching,
    first: int,
    length: float,
    size: int,
    kept: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Track | None:
    """The track whose first template is one period from bin `first` on."""
    channels, width = matching.channels, round(length)
    similarity = matching.correlate(channels[:, first : first + width])
    starts = best_chain(similarity, length)
    if starts.size < 2:
        return None
    boundaries = starts + boundary_phase(median_window(windows(channels, starts, width)))

    before, after = max(2, round(BEFORE * length)), max(2, round(AFTER * length))
    for turn in range(ROUNDS):
        if turn:  # aligned, the mean cycle shows better where the epoch begins
            cycles = windows(channels, boundaries - width // 2, width)
            if cycles.shape[0] >= 2:
                boundaries = boundaries - width // 2 + boundary_phase(median_window(cycles))
        starts = boundaries - before
        starts = starts[(starts >= 0) & (starts + before + after <= channels.shape[1])]
        if starts.size < 2:
            return None
        template = median_window(windows(channels, starts, before + after))
        similarity = matching.correlate(template)
        boundaries = _trimmed(best_chain(similarity, length), similarity) + before
        if boundaries.size < 2:
            return None
    everywhere = np.zeros(channels.shape[1])
    everywhere[before : before + similarity.size] = similarity
    fit = _fit(matching, boundaries, similarity, template.shape[1], before, length)
    return Track(size, boundaries, everywhere, kept, weights, template, before, *fit)


def _weights(channels: NDArray[np.float64], length: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Channels that repeat after one period but not before, and their weights (sum 1)."""
    n = channels.shape[1]
    # From 0.3 to 7 periods: research notes. Up to 0.85 of the trace by choice: beyond, a few samples decide.
    lags = min(max(int(0.85 * n), round(length) + 2), n - 1, round(7 * length) + 1)
    each = autocorrelation(channels, lags)
    lag = min(round(length), lags - 1)
    excess = each[:, max(0, lag - 1) : lag + 2].max(axis=1) - each[:, max(1, round(0.3 * length)) :].mean(axis=1)
    weights = np.maximum(excess, 0.0) ** 2
    kept = np.argsort(-weights, kind="stable")[:CHANNELS]
    kept = np.sort(kept[weights[kept] > 0])
    return kept, weights[kept] / weights[kept].sum() if kept.size else weights[kept]


def best_chain(similarity: NDArray[np.float64], length: float) -> NDArray[np.int64]:
    """Peaks of the similarity that best form a chain of intervals near `length` bins, by dynamic programming.

    Maximises the sum of similarities minus the cost of each interval.
    """
    # Peaks by choice: the highest within 0.08 periods, and hardly above nothing.
    reach = max(1, round(0.08 * length))
    peaks = np.flatnonzero((similarity == running_max(similarity, reach)) & (similarity > 0.05))
    if peaks.size < 2:
        return peaks
    first = np.searchsorted(peaks, peaks - LONGEST * length)
    last = np.searchsorted(peaks, peaks - SHORTEST * length, side="right")
    # All pairs at once; what is left for the loop, which each peak enters with the sums before it, is quick on plain floats.
    counts = np.maximum(last - first, 0)
    starts = np.concatenate([[0], np.cumsum(counts)])
    later = np.repeat(np.arange(peaks.size), counts)
    earlier = np.arange(starts[-1]) - starts[later] + first[later]
    penalty = interval_cost(np.log((peaks[later] - peaks[earlier]) / length)).tolist()
    gain: list[float] = similarity[peaks].tolist()
    previous = [-1] * peaks.size
    for i, (start, low, count) in enumerate(zip(starts.tolist(), first.tolist(), counts.tolist(), strict=False)):
        if not count:
            continue
        totals = [before - cost for before, cost in zip(gain[low : low + count], penalty[start : start + count], strict=True)]
        best = max(totals)
        if best > 0:
            previous[i] = low + totals.index(best)
            gain[i] += best
    chain = [int(np.argmax(gain))]
    while previous[chain[-1]] >= 0:
        chain.append(previous[chain[-1]])
    return np.asarray(peaks[chain[::-1]])


def interval_cost(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """What an interval costs a chain by the logarithm of its length in periods, as the research notes have it.

    min(6 ratio^2, .45 + 6 (ratio - ln 2)^2): an interval of two periods (one boundary missed) costs .45.
    """
    return np.asarray(np.minimum(6 * ratio**2, 0.45 + 6 * (ratio - np.log(2)) ** 2))


def _trimmed(chain: NDArray[np.int64], similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    """The part of the chain that matches: what came before the job, or after it, matches a little as well.

    Of all its parts, that with the largest sum of matches, each less a share of a good one.
    """
    if chain.size < 2:
        return chain
    match = similarity[chain]
    sums = np.concatenate([[0.0], np.cumsum(match - WEAK * np.percentile(match, 75))])
    gain = sums[1:] - np.minimum.accumulate(sums)[:-1]
    last = int(np.argmax(gain))
    return chain[int(np.argmin(sums[: last + 1])) : last + 1]


def _fit(
    matching: Matching,
    boundaries: NDArray[np.int64],
    similarity: NDArray[np.float64],
    width: int,
    before: int,
    length: float,
) -> tuple[float, float, int]:
    """Period, quality and intervals of a `Track`; `width`, `before` and `length` (of a period) in bins."""
    channels, n = matching.channels, matching.channels.shape[1]
    around = windows(channels, boundaries - before, width)
    around = around - around.mean(axis=2, keepdims=True)
    rest = around.sum(axis=0) - around
    norms = np.sqrt(matching.energy(width)[boundaries - before] * (rest**2).sum(axis=(1, 2)))
    alike = float(np.mean((around * rest).sum(axis=(1, 2)) / np.maximum(norms, 1e-12)))

    margin = max(1, round(NEAR * length))
    within = [similarity[a + margin - before : b - margin - before] for a, b in pairwise(boundaries.tolist())]
    elsewhere = np.concatenate(within)
    contrast = alike - (float(np.percentile(elsewhere, 95)) if elsewhere.size else 0.0)

    # The parts between the stretch's ends and their nearest boundaries also count, if they are about as long.
    lead = EDGE_SHORTEST <= boundaries[0] / length <= EDGE_LONGEST
    tail = EDGE_SHORTEST <= (n - boundaries[-1]) / length <= EDGE_LONGEST
    marks = np.concatenate([[0.0] if lead else [], boundaries, [float(n)] if tail else []])
    intervals = np.diff(marks)
    median = float(np.median(intervals))
    even = np.abs(intervals / median - 1) <= EVEN
    spread = float(np.median(np.abs(intervals - median))) / median
    covered = min(1.0, (marks[-1] - marks[0] + length) / n)
    # The formula and its constants: research notes.
    quality = max(0.0, alike) * float(np.clip(contrast / 0.4, 0.02, 1)) ** 0.7
    quality *= (1 - np.exp(-intervals.size / 1.6)) * np.exp(-2.5 * spread) * (0.4 + 0.6 * even.mean()) * np.sqrt(covered)
    return typical(intervals), float(min(1.0, quality)), int(intervals.size)


def typical(lengths: NDArray[np.floating], quantum: float = 0.0) -> float:
    """The length of a cycle from those between boundaries: neither slow stretches nor rounding move it.

    Where lengths differ by no more than the `quantum` to which boundaries are known, it is the slope of the line through all
    boundaries: the median would be one of a few quantised lengths, and the first and the last boundary may each be off by a
    quantum. Elsewhere it is the mean of the lengths that lie close to their median.
    """
    median = float(np.median(lengths))
    cycles = np.maximum(1, np.rint(lengths / median))
    # 90 by choice: a tenth may be of another kind.
    if np.percentile(np.abs(lengths - cycles * median), 90) <= QUANTA * quantum:
        positions, numbers = (np.concatenate([[0.0], np.cumsum(steps)]) for steps in (lengths, cycles))
        return float(np.polyfit(numbers, positions, 1)[0])
    close = np.abs(lengths - median) <= max(CLOSE * median, CLOSE_SAMPLES, quantum)
    return float(lengths[close].mean()) if close.any() else median


def change(intervals: NDArray[np.float64]) -> tuple[int, float]:
    """Where the usual interval changes most clearly, and the logarithm of its change; (0, 0.0) for too few intervals.

    The place is the number of intervals before it; the split that leaves the least absolute deviation from either median.
    """
    logs = np.log(intervals)
    best, place = np.inf, 0
    for k in np.unique(np.linspace(FEWEST, logs.size - FEWEST, PLACES).astype(int)).tolist() if logs.size >= 2 * FEWEST else ():
        cost = sum(float(np.abs(side - np.median(side)).sum()) for side in (logs[:k], logs[k:]))
        if cost < best:
            best, place = cost, k
    return (place, float(np.median(logs[place:]) - np.median(logs[:place]))) if place else (0, 0.0)


def refined(values: NDArray[np.float64], track: Track, lag: float) -> NDArray[np.float64]:
    """Boundaries in samples of the grid, moved by up to two bins to the sharpest step, less the `lag` of the samples.

    The step is looked for in the projection of all channels on the change that the template shows at its boundary.
    """
    near = max(1, min(track.before, track.template.shape[1] - track.before) // 3)
    change = track.template[:, track.before : track.before + near].mean(axis=1)
    change = change - track.template[:, track.before - near : track.before].mean(axis=1)
    m = values.shape[0]
    signed = np.zeros(m)
    np.add.at(signed, track.channels % m, change * np.sqrt(track.weights))
    curve = signed @ values
    # Two bins: research notes. Neighbours are at least 0.55 periods apart: an eighth keeps them in order.
    reach, side = min(2 * track.size, max(1, int(track.samples / 8))), max(2, 2 * track.size)
    total = np.concatenate([[0.0], np.cumsum(curve)])
    moved = []
    for boundary in track.boundaries * track.size:
        around = np.arange(max(side, boundary - reach), min(curve.size - side, boundary + reach) + 1)
        if around.size:
            step = (total[around + side] - total[around]) - (total[around] - total[around - side])
            moved.append(float(around[np.argmax(step)]) - lag)
        else:
            moved.append(float(boundary) - lag)
    return np.array(moved)
