"""Slow, obviously right versions of the fast functions, in plain loops."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt


def luminol_scores(values: Sequence[float]) -> list[float]:
    """Luminol's anomaly scores with its defaults, from the description of its algorithm, not from its code."""
    n = len(values)
    window = int(n * (0.2 / 16))
    if window + window < 50:
        return luminol_default(values)
    return luminol_bitmap(values, min(window, 200))


def luminol_bitmap(values: Sequence[float], window: int, precision: int = 4, chunk_size: int = 2) -> list[float]:
    n = len(values)
    low, high = min(values), max(values)
    height = (high - low) / precision
    text = ""
    for value in values:
        symbol = 0
        for number in range(precision):
            if value >= low + number * height:
                symbol = number
        text += str(symbol)
    scores = [0.0] * n
    for i in range(window, n - window + 1):
        before = _chunks(text[i - window : i], chunk_size)
        after = _chunks(text[i : i + window], chunk_size)
        scores[i] = float(sum((before[chunk] - after[chunk]) ** 2 for chunk in before | after))
    return _without_noise(scores)


def luminol_default(values: Sequence[float]) -> list[float]:
    changes = [abs(b - a) for a, b in pairwise(values)]
    changes = [changes[0], *changes]
    spread = _deviation(values)
    levels = [value - ema for value, ema in zip(values, _moving_average(values), strict=True)]
    if spread:
        levels = [abs(level) / spread for level in levels]
    levels = _without_noise(levels)
    slopes = [abs(change - ema) for change, ema in zip(changes, _moving_average(changes), strict=True)]
    spread = _deviation(slopes)
    if spread:
        slopes = [slope / spread for slope in slopes]
    slopes = _without_noise(slopes)
    scores = []
    for level, slope in zip(levels, slopes, strict=True):
        score = max(level, 0.65 * level + 0.35 * slope)
        if level > 0.94:
            score = max(score, slope)
        scores.append(score)
    return _without_noise(scores)


def matched_boundaries(truth: Sequence[float], found: Sequence[float], tolerance: float) -> int:
    """Size of the largest one-to-one matching within the tolerance, by augmenting paths."""
    partner: dict[int, int] = {}

    def augment(i: int, seen: set[int]) -> bool:
        for j, value in enumerate(found):
            if abs(truth[i] - value) <= tolerance and j not in seen:
                seen.add(j)
                if j not in partner or augment(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    return sum(augment(i, set()) for i in range(len(truth)))


def autocorrelation(values: Sequence[float], lags: int) -> list[float]:
    n = len(values)
    mean = sum(values) / n
    centred = [value - mean for value in values]
    power = sum(value * value for value in centred) / n
    return [sum(a * b for a, b in zip(centred, centred[lag:], strict=False)) / (n - lag) / power for lag in range(lags)]


def correlate(channels: Sequence[Sequence[float]], template: Sequence[Sequence[float]]) -> list[float]:
    """Normalised cross-correlation of all channels together; valid where no window is flat."""
    width = len(template[0])
    pattern = _centred(template)
    scores = []
    for start in range(len(channels[0]) - width + 1):
        window = _centred([channel[start : start + width] for channel in channels])
        product = sum(a * b for a, b in zip(pattern, window, strict=True))
        scores.append(product / sqrt(sum(a * a for a in pattern) * sum(b * b for b in window)))
    return scores


def best_chain_value(peaks: Sequence[int], gains: Sequence[float], length: float) -> float:
    """Value of the best chain of at least one peak, over all subsets."""
    best = 0.0
    for chosen in range(1, 2 ** len(peaks)):
        chain = [i for i in range(len(peaks)) if chosen >> i & 1]
        steps = [(peaks[b] - peaks[a]) / length for a, b in pairwise(chain)]
        if all(0.55 <= step <= 2.3 for step in steps):
            best = max(best, chain_value([peaks[i] for i in chain], [gains[i] for i in chain], length))
    return best


def chain_value(peaks: Sequence[int], gains: Sequence[float], length: float) -> float:
    value = sum(gains)
    for a, b in pairwise(peaks):
        ratio = log((b - a) / length)
        value -= min(6 * ratio**2, 0.45 + 6 * (ratio - log(2)) ** 2)
    return value


def _centred(channels: Sequence[Sequence[float]]) -> list[float]:
    """All channels, each minus its mean, one after the other."""
    return [value - sum(channel) / len(channel) for channel in channels for value in channel]


def _chunks(text: str, size: int) -> Counter[str]:
    return Counter(text[i : i + size] for i in range(len(text) - size + 1))


def _moving_average(values: Sequence[float]) -> list[float]:
    averages = [values[0]]
    for value in values[1:]:
        averages.append(0.2 * value + 0.8 * averages[-1])
    return averages


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _without_noise(scores: list[float]) -> list[float]:
    largest = max(scores)
    return [0.0 if largest and score < 0.001 * largest else score for score in scores]
