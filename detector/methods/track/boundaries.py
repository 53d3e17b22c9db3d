"""Follow one candidate period through the trace: template, matches, boundaries, and how well it all fits."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, uniform_filter1d
from scipy.signal import oaconvolve

from .periods import autocorrelation, pooled

#: Bins per period in tracking, windows tried as the first template, channels kept, rounds of template and matches.
BINS, SEEDS, CHANNELS, ROUNDS = 96, 24, 16, 3

#: Periods in the moving mean that is taken away first.
DRIFT = 4

#: Template around a boundary, in periods.
BEFORE, AFTER = 0.45, 0.20

#: Intervals between boundaries, in periods.
SHORTEST, LONGEST = 0.55, 2.3

#: What lies between the trace's busy end and the boundary next to it is an epoch too if it lasts so many periods.
EDGE_SHORTEST, EDGE_LONGEST = 0.75, 1.5

#: Intervals this close to their median are even.
EVEN = 0.15


@dataclass(frozen=True)
class Track:
    """One candidate period, followed.

    Attributes:
        period: bins, the mean of the even intervals.
        size: samples of the grid per bin.
        boundaries: (k,) bins, increasing.
        match: (k,) correlation of each boundary's surroundings with the template.
        quality: 0..1.
        contrast: mean leave-one-out match minus the 95th percentile of the match elsewhere.
        distinct: the same minus the median over intervals of the best match within them.
        lead, tail: whether the stretch before the first and after the last boundary is an epoch.
        similarity: (bins,) match of the template with a boundary at every bin, 0 where it does not fit.
        weights: (c,) of the channels.
        template: (c, w) median surroundings of a boundary.
        before: bins of the template before the boundary.
    """

    period: float
    size: int
    boundaries: NDArray[np.int64]
    match: NDArray[np.float64]
    quality: float
    contrast: float
    distinct: float
    lead: bool
    tail: bool
    similarity: NDArray[np.float64]
    channels: NDArray[np.int64]
    weights: NDArray[np.float64]
    template: NDArray[np.float64]
    before: int

    @property
    def samples(self) -> float:
        """The period in samples of the grid."""
        return self.period * self.size


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
    channels = channels - uniform_filter1d(channels, min(round(DRIFT * length), channels.shape[1]), axis=1, mode="nearest")
    kept, weights = _weights(channels, length)
    if not kept.size:
        return None
    channels = channels[kept] * np.sqrt(weights)[:, None]

    width = round(length)
    seed = _seed(channels, width)
    similarity = correlate(channels, channels[:, seed : seed + width])
    starts = best_chain(similarity, length)
    if starts.size < 2:
        return None
    boundaries = starts + _boundary_phase(np.median(_windows(channels, starts, width), axis=0))

    before, after = max(2, round(BEFORE * length)), max(2, round(AFTER * length))
    for _ in range(ROUNDS):
        starts = boundaries - before
        starts = starts[(starts >= 0) & (starts + before + after <= channels.shape[1])]
        if starts.size < 2:
            return None
        template = np.median(_windows(channels, starts, before + after), axis=0)
        similarity = correlate(channels, template)
        boundaries = best_chain(similarity, length) + before
        if boundaries.size < 2:
            return None
    return _rated(channels, boundaries, similarity, template, before, length, size, kept, weights)


def _weights(channels: NDArray[np.float64], length: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Channels that repeat after one period but not before, and their weights (sum 1)."""
    n = channels.shape[1]
    lags = min(n - 1, round(7 * length) + 1)
    each = autocorrelation(channels, lags)
    lag = min(round(length), lags - 1)
    excess = each[:, max(0, lag - 1) : lag + 2].max(axis=1) - each[:, max(1, round(0.3 * length)) :].mean(axis=1)
    weights = np.maximum(excess, 0.0) ** 2
    kept = np.argsort(-weights)[:CHANNELS]
    kept = np.sort(kept[weights[kept] > 0.02 * weights.max()])
    return kept, weights[kept] / weights[kept].sum() if kept.size else weights[kept]


def _seed(channels: NDArray[np.float64], width: int) -> int:
    """Start of the window that is most like what lies one and two periods before and after it."""
    n = channels.shape[1]
    slack = max(1, width // 10)
    energy = _local_energy(channels, width)
    best, best_score = 0, -np.inf
    for start in np.unique(np.linspace(0, n - width, SEEDS).astype(int)):
        window = channels[:, start : start + width]
        window = window - window.mean(axis=1, keepdims=True)
        matches = []
        for offset in (-2, -1, 1, 2):
            low, high = start + offset * width - slack, start + offset * width + slack
            low, high = max(low, 0), min(high, n - width)
            if high >= low:
                product = oaconvolve(channels[:, low : high + width], window[:, ::-1], mode="valid", axes=1).sum(axis=0)
                matches.append(float((product / np.sqrt(energy[low : high + 1] * (window**2).sum() + 1e-12)).max()))
        score = np.mean(matches) if matches else -np.inf
        if score > best_score:
            best, best_score = int(start), float(score)
    return best


def _windows(channels: NDArray[np.float64], starts: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    """(k, c, width): the windows that begin at `starts`; those that leave the trace are left out."""
    inside = starts[(starts >= 0) & (starts + width <= channels.shape[1])]
    return np.lib.stride_tricks.sliding_window_view(channels, width, axis=1)[:, inside].transpose(1, 0, 2)


def _local_energy(channels: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Energy about the local mean of every window, summed over channels, with a floor so that flat stretches match nothing."""
    total = np.cumsum(np.pad(channels, ((0, 0), (1, 0))), axis=1)
    square = np.cumsum(np.pad(channels**2, ((0, 0), (1, 0))), axis=1)
    sums = total[:, width:] - total[:, :-width]
    energy = (square[:, width:] - square[:, :-width] - sums**2 / width).sum(axis=0)
    return np.asarray(np.maximum(energy, 0.05 * width * channels.var(axis=1).sum()))


def correlate(channels: NDArray[np.float64], template: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normalised cross-correlation of a template with every window: (c, n), (c, w) -> (n - w + 1,), about -1..1."""
    centred = template - template.mean(axis=1, keepdims=True)
    product = oaconvolve(channels, centred[:, ::-1], mode="valid", axes=1).sum(axis=0)
    return np.asarray(product / np.sqrt(_local_energy(channels, template.shape[1]) * (centred**2).sum() + 1e-12))


def best_chain(similarity: NDArray[np.float64], length: float) -> NDArray[np.int64]:
    """Peaks of the similarity that best form a chain of intervals near `length` bins, by dynamic programming.

    Maximises the sum of similarities minus, per interval d, min(6 ln(d/T)^2, .45 + 6 ln(d/2T)^2): an interval of two periods
    (one boundary missed) costs .45.
    """
    reach = max(1, round(0.08 * length))
    peaks = np.flatnonzero((similarity == maximum_filter1d(similarity, 2 * reach + 1, mode="nearest")) & (similarity > 0.05))
    if peaks.size < 2:
        return peaks
    gain = similarity[peaks].copy()
    previous = np.full(peaks.size, -1)
    first = np.searchsorted(peaks, peaks - LONGEST * length)
    last = np.searchsorted(peaks, peaks - SHORTEST * length, side="right")
    for i in range(peaks.size):
        if first[i] < last[i]:
            ratio = np.log((peaks[i] - peaks[first[i] : last[i]]) / length)
            total = gain[first[i] : last[i]] - np.minimum(6 * ratio**2, 0.45 + 6 * (ratio - np.log(2)) ** 2)
            j = int(np.argmax(total))
            if total[j] > 0:
                gain[i] += total[j]
                previous[i] = first[i] + j
    chain = [int(np.argmax(gain))]
    while previous[chain[-1]] >= 0:
        chain.append(int(previous[chain[-1]]))
    return peaks[chain[::-1]]


def _boundary_phase(template: NDArray[np.float64]) -> int:
    """Bin of one period at which the epoch begins: the end of its longest stretch unlike the rest (validation, gap).

    The first principal component of the template is split into two classes by Otsu's threshold; the smaller class is the
    stretch between trainings. The period is circular.
    """
    centred = template - template.mean(axis=1, keepdims=True)
    curve = np.linalg.svd(centred, full_matrices=False)[2][0]
    high = curve > _otsu(curve)
    minority = high if 2 * high.sum() <= high.size else ~high
    if not minority.any() or minority.all():
        return 0
    turn = int(np.flatnonzero(~minority)[0])
    rolled = np.roll(minority, -turn)  # begins outside a run: no run wraps around
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rolled.astype(int), [0]])))
    starts, ends = edges[::2], edges[1::2]
    return int((ends[np.argmax(ends - starts)] + turn) % curve.size)


def _otsu(values: NDArray[np.float64]) -> float:
    """Threshold that splits the values into the two classes of the largest variance between them (Otsu 1979)."""
    ordered = np.sort(values)
    n = ordered.size
    below = np.arange(1, n)
    sums = np.cumsum(ordered)
    between = below * (n - below) * (sums[:-1] / below - (sums[-1] - sums[:-1]) / (n - below)) ** 2
    split = int(np.argmax(between))
    return float((ordered[split] + ordered[split + 1]) / 2)


def _rated(
    channels: NDArray[np.float64],
    boundaries: NDArray[np.int64],
    similarity: NDArray[np.float64],
    template: NDArray[np.float64],
    before: int,
    length: float,
    size: int,
    kept: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Track:
    n = channels.shape[1]
    windows = _windows(channels, boundaries - before, template.shape[1])
    windows = windows - windows.mean(axis=2, keepdims=True)
    rest = windows.sum(axis=0) - windows
    energy = _local_energy(channels, template.shape[1])[boundaries - before]
    norms = np.sqrt(energy * (rest**2).sum(axis=(1, 2)))
    alike = float(np.mean((windows * rest).sum(axis=(1, 2)) / np.maximum(norms, 1e-12)))

    centres = np.arange(similarity.size) + before
    inside = (centres >= boundaries[0]) & (centres <= boundaries[-1])
    nearest = np.abs(centres[:, None] - boundaries[None, :]).min(axis=1) if boundaries.size < 64 else _distance(centres, boundaries)
    elsewhere = similarity[inside & (nearest > 0.15 * length)]
    other = float(np.percentile(elsewhere, 95)) if elsewhere.size else 0.0

    margin = max(1, round(0.15 * length))
    within = [similarity[a + margin - before : b - margin - before] for a, b in pairwise(boundaries)]
    rivals = [float(part.max()) for part in within if part.size]
    distinct = alike - (float(np.median(rivals)) if rivals else 0.0)

    lead = bool(EDGE_SHORTEST <= boundaries[0] / length <= EDGE_LONGEST)
    tail = bool(EDGE_SHORTEST <= (n - boundaries[-1]) / length <= EDGE_LONGEST)
    intervals = np.diff(with_edges(boundaries, 0 if lead else None, n if tail else None))
    median = float(np.median(intervals))
    even = np.abs(intervals / median - 1) <= EVEN
    spread = float(np.median(np.abs(intervals - median))) / median
    covered = min(1.0, (boundaries[-1] - boundaries[0] + length) / n)
    contrast = alike - other
    quality = max(0.0, alike) * float(np.clip(contrast / 0.4, 0.02, 1)) ** 0.7
    quality *= (1 - np.exp(-intervals.size / 1.6)) * np.exp(-2.5 * spread) * (0.4 + 0.6 * even.mean()) * np.sqrt(covered)

    full = np.zeros(n)
    full[before : before + similarity.size] = similarity
    return Track(
        period=float(intervals[even].mean()) if even.any() else median,
        size=size,
        boundaries=boundaries,
        match=similarity[boundaries - before],
        quality=float(min(1.0, quality)),
        contrast=contrast,
        distinct=distinct,
        lead=lead,
        tail=tail,
        similarity=full,
        channels=kept,
        weights=weights,
        template=template,
        before=before,
    )


def with_edges(marks: NDArray[Any], first: float | None, last: float | None) -> NDArray[np.float64]:
    """The marks with what is given before and after them."""
    return np.array([*([] if first is None else [first]), *marks, *([] if last is None else [last])], dtype=np.float64)


def _distance(points: NDArray[np.int64], marks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distance of each point to the nearest of the increasing marks."""
    right = np.clip(np.searchsorted(marks, points), 1, marks.size - 1)
    return np.minimum(np.abs(points - marks[right - 1]), np.abs(points - marks[right]))


def refined(values: NDArray[np.float64], track: Track) -> NDArray[np.float64]:
    """Boundaries in samples of the grid, moved by up to two bins to the sharpest step, minus half a sample.

    The step is looked for in the projection of all channels on the change that the template shows at its boundary.
    """
    near = max(1, min(track.before, track.template.shape[1] - track.before) // 3)
    change = track.template[:, track.before : track.before + near].mean(axis=1)
    change = change - track.template[:, track.before - near : track.before].mean(axis=1)
    m = values.shape[0]
    signed = np.zeros(m)
    np.add.at(signed, track.channels % m, change * np.sqrt(track.weights))
    curve = signed @ values
    reach, side = 2 * track.size, max(2, 2 * track.size)
    total = np.concatenate([[0.0], np.cumsum(curve)])
    moved = []
    for boundary in track.boundaries * track.size:
        around = np.arange(max(side, boundary - reach), min(curve.size - side, boundary + reach) + 1)
        if around.size:
            step = (total[around + side] - total[around]) - (total[around] - total[around - side])
            moved.append(float(around[np.argmax(step)]) - 0.5)
        else:
            moved.append(float(boundary) - 0.5)
    return np.array(moved)
